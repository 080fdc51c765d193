"""A code generator for an accelerator that does not exist: it multiplies matrices and keeps an accumulator.

Its programs are lists of instructions. What it cannot do, a softmax here, stays with vmkit, and so does everything that
one executable needs: sizes known only when it runs, constants, memory between the two.
"""

from collections.abc import Callable, Sequence

import numpy as np

import vmkit
from vmkit import byoc, relay
from vmkit.relay.dataflow_pattern import is_constant, is_op, wildcard


def dense_layer():
    """A product with constant weights and a constant bias, perhaps followed by a relu: one program."""
    product = is_op("add")(is_op("nn.dense")(wildcard(), is_constant()), is_constant())
    return is_op("nn.relu")(product) | product


@byoc.codegen("accumulator")
class Accumulator(byoc.Graph):
    """What the accelerator takes, how its programs are made, and how they run."""

    # By itself it takes a relu; products only with weights that fit into its memory.
    operators = ("nn.relu",)
    memory = 64

    @classmethod
    def patterns(cls):
        def fits(layer: relay.Call) -> bool:
            product = layer.args[0] if layer.op.name == "nn.relu" else layer
            weight = product.args[0].args[1]
            return weight.data.numpy().size <= cls.memory

        return [("accumulator.layer", dense_layer(), fits)]

    def graph(self, region: byoc.Region) -> dict[str, object]:
        """Return a program: instructions on registers, which are the numbers of values."""
        program: list[list[object]] = []
        for node in region.nodes:
            inner = [each.op for each in node.inner.nodes] if node.inner else [node.op]
            program.append(["load", node.inputs[0]])
            program += [["mul", node.inputs[1]], ["add", node.inputs[2]]] if "nn.dense" in inner else []
            program += [["relu"]] if "nn.relu" in inner else []
            program.append(["store", node.outputs[0]])
        return {"arguments": region.arguments, "program": program, "results": region.outputs}

    @classmethod
    def load(cls, graph: dict[str, list]) -> Callable[..., Sequence[np.ndarray]]:
        """Return the program as a function. With a real accelerator, this is where its driver would be called."""

        def run(*arguments: np.ndarray) -> Sequence[np.ndarray]:
            registers, accumulator = dict(zip(graph["arguments"], arguments, strict=True)), np.zeros(())
            steps = {
                "load": lambda r: registers[r],
                "mul": lambda r: accumulator @ registers[r].T,
                "add": lambda r: accumulator + registers[r],
                "relu": lambda: accumulator.clip(0),
                "store": lambda r: registers.setdefault(r, accumulator),
            }
            for instruction, *operands in graph["program"]:
                accumulator = steps[instruction](*operands)
            return [registers[r] for r in graph["results"]]

        return run


rng = np.random.default_rng(0)
x = relay.var("x", shape=(relay.Any(), 8))
layers = [relay.const(rng.standard_normal(shape).astype("float32")) for shape in [(6, 8), (6,), (16, 6), (16,)]]
hidden = relay.nn.relu(relay.nn.dense(x, layers[0]) + layers[1])
model = relay.Function([x], relay.nn.softmax(relay.nn.dense(hidden, layers[2]) + layers[3]))

cut = byoc.partition(model, "accumulator")
print(cut)
rows = rng.standard_normal((5, 8)).astype("float32")
ours, plain = (vmkit.VirtualMachine(vmkit.compile(each)).run(rows).numpy() for each in (cut.module, model))
print(f"5 rows: {ours.shape}, as without it: {np.allclose(ours, plain, atol=1e-6)}")
