"""What programs of PyTorch take and give, as tensors alone: numbers, None, and what they write in place.

A virtual machine keeps nothing from one run to the next. What a program writes in place is a result, after its own
ones; a buffer that it writes is also an input, after its own ones, such as the cache of a decoder.
"""

from __future__ import annotations

import dataclasses
import math
from copy import copy
from typing import TYPE_CHECKING, Any, cast

from tvm import tirx

from ...relay.ir import dims
from .arguments import Converter, Importing
from .effects import read_number
from .formulas import formula_of

if TYPE_CHECKING:
    import torch
    from torch import fx

__all__ = ["ENDS", "with_flat_ends", "with_tensor_ends"]


def with_tensor_ends(program: torch.export.ExportedProgram) -> list[torch.Tensor]:
    """Let a program, which is changed, take and give tensors alone, what it writes in place among them.

    Inputs and results that are the same at each run (None, text, numbers) are left out. An integer that may be any is
    taken as a tensor of no axes, as is each number that is given. What is returned are the first values of the buffers
    that become inputs, in their order.
    """
    first = _take_written(program)
    _take_tensors(program)
    _give_tensors(program)
    program.graph_module.recompile()
    return first


def with_flat_ends(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program that takes its inputs and gives its results one beside another, in no container.

    PyTorch makes the containers anew where it decomposes a program, and fails for one that makes tensors, as the
    caches of decoders do. The inputs are called as they were.
    """
    from torch.export.graph_signature import InputKind
    from torch.utils import _pytree as pytree

    first, *others = program.module_call_graph
    signature = first.signature
    if signature is None:
        return program
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    top = dataclasses.replace(
        signature,
        in_spec=pytree.tree_flatten((tuple(range(len(names))), {}))[1],
        out_spec=pytree.tree_flatten(tuple(range(signature.out_spec.num_leaves)))[1],
        forward_arg_names=names,
    )
    made: Any = copy(program)
    made._module_call_graph = [dataclasses.replace(first, signature=top), *others]
    # They are in the containers. PyTorch would check its conditions on them again: what is imported checks these.
    made._example_inputs = None
    return cast("torch.export.ExportedProgram", made)


def _take_written(program: torch.export.ExportedProgram) -> list[torch.Tensor]:
    """Let the buffers that a program writes be inputs, after the others; return what they hold."""
    from torch.export.graph_signature import InputKind, InputSpec, OutputKind

    signature = program.graph_signature
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
    written = {spec.target for spec in signature.output_specs if spec.kind in kinds}
    held = [spec for spec in signature.input_specs if spec.target is not None and spec.target in written]
    others = [spec for spec in signature.input_specs if spec not in held]
    signature.input_specs = others + [InputSpec(InputKind.USER_INPUT, spec.arg, None) for spec in held]
    values = {**program.constants, **program.state_dict}
    first = [values[cast("str", spec.target)] for spec in held]
    # TVM's importer binds each of these to an input; the table is also that of the program that was handed in.
    cast("Any", program)._constants = {name: each for name, each in program.constants.items() if name not in written}
    return first


def _take_tensors(program: torch.export.ExportedProgram) -> None:
    """Take integers as tensors, and nothing for what is always the same."""
    import torch
    from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, SymIntArgument, TensorArgument

    graph, signature = program.graph_module.graph, program.graph_signature
    nodes = {node.name: node for node in graph.find_nodes(op="placeholder")}
    last, specs = list(nodes.values())[-1:], []
    for spec in signature.input_specs:
        node = nodes[spec.arg.name]
        if isinstance(spec.arg, ConstantArgument):
            node.replace_all_uses_with(cast("Any", spec.arg.value))
            node.meta = {"val": spec.arg.value}
            continue
        if isinstance(spec.arg, SymIntArgument):
            value = node.meta["val"]
            with graph.inserting_after(last[0]):
                read = graph.call_function(number_taken, (node, *_range(program, value)))
            read.meta["val"] = value
            node.replace_all_uses_with(read, delete_user_cb=lambda user, read=read: user is not read)
            node.meta = {**node.meta, "val": torch.empty((), dtype=torch.int64, device="meta")}
            spec = InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None)
        specs.append(spec)
    signature.input_specs = specs


def _range(program: torch.export.ExportedProgram, value: torch.SymInt) -> tuple[int | None, int | None]:
    """Return the least and the most that a number may be, where there are such bounds."""
    allowed = program.range_constraints.get(value.node.expr)
    bounds = (None, None) if allowed is None else (allowed.lower, allowed.upper)
    least, most = (None if each is None or math.isinf(float(each)) else int(each) for each in bounds)
    return least, most


def number_taken(tensor: torch.Tensor, least: int | None, most: int | None) -> int:
    """Return the integer that an input is: what the graph of a program calls, and converters take the place of."""
    raise NotImplementedError


def _taken(importer: Importing, node: fx.Node) -> tirx.Expr:
    """Return the symbol of an integer that is an input, which is checked to be in its range."""
    tensor, least, most = node.args
    name, formula = cast("Any", tensor).name, node.meta["val"].node.expr
    symbols = importer.symbols.of(importer.env)
    is_new = formula.is_Symbol and str(formula) not in symbols
    number = read_number(importer, importer.env[cast("fx.Node", tensor)], str(formula) if is_new else f"{name}_taken")

    def require(holds: tirx.Expr, message: str) -> None:
        importer.checks.emit(importer.block_builder, dims.select(holds, 1, 0), 1, f"{name}: {message}")

    if least is not None:
        require(number >= least, f"the number must be {least} or more")
    if most is not None:
        require(number <= most, f"the number must be {most} or less")
    if is_new:
        importer.symbols.note(importer.env, number)
        return number
    known = formula_of(importer, node, node)
    require(tirx.EQ(number, known), f"the number must be {formula}, as sizes of other inputs say")
    return known


def _give_tensors(program: torch.export.ExportedProgram) -> None:
    """Give numbers as tensors, nothing for what is always the same, and what is written in place after the rest."""
    import torch
    from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

    graph, signature = program.graph_module.graph, program.graph_signature
    output = graph.output_node()
    given, own, written = cast("tuple[Any, ...]", output.args[0]), list[Any](), list[Any]()
    kinds = {torch.SymInt: torch.int64, torch.SymFloat: torch.float64, torch.SymBool: torch.bool}
    for value, spec in zip(given, signature.output_specs, strict=True):
        if not isinstance(value, torch.fx.Node):
            continue
        dtype = kinds.get(type(value.meta.get("val")))
        if dtype is not None:
            with graph.inserting_before(output):
                made = graph.call_function(torch.ops.aten.scalar_tensor.default, (value,), {"dtype": dtype})
            made.meta["val"] = torch.empty((), dtype=dtype, device="meta")
            value = made
        (own if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT) else written).append(value)
    output.args = ((*own, *written),)
    signature.output_specs = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(value.name), None) for value in (*own, *written)
    ]


ENDS: dict[str, Converter] = {number_taken.__name__: _taken}
"""The converters, by the names of the functions that graphs are made to call."""
