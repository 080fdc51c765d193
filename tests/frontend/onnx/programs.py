"""Small ONNX models, compiled by vmkit and compared with onnxruntime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import vmkit
from tests.places import TOP
from vmkit.backend import prepare
from vmkit.relay.frontend import from_onnx
from vmkit.relay.ir import Call, Op, post_order

RTOL, ATOL = 1e-3, 1e-4
Shape = Sequence[int | str | None]


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return a node; names are separated by spaces, ``_`` is an input that is left out."""
    names = ["" if n == "_" else n for n in inputs.split()]
    return helper.make_node(op_type, names, ["" if n == "_" else n for n in outputs.split()], **attributes)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[Shape, npt.DTypeLike]],
    outputs: str,
    constants: Mapping[str, Any] | None = None,
    name: str = "graph",
) -> onnx.GraphProto:
    """Return a graph: inputs by name as (shape, numpy dtype), outputs separated by spaces, constants as arrays."""
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(d)), s)
        for n, (s, d) in inputs.items()
    ]
    made = [onnx.ValueInfoProto(name=n) for n in outputs.split()]
    tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()]
    return helper.make_graph(nodes, name, given, made, tensors)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[Shape, npt.DTypeLike]],
    outputs: str,
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model of one graph."""
    made = graph(nodes, inputs, outputs, constants)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def typed_outputs(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its outputs' types filled in, as onnxruntime needs them."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    known = {v.name: v for v in onnx.shape_inference.infer_shapes(proto).graph.value_info}
    known.update({v.name: v for v in onnx.shape_inference.infer_shapes(proto).graph.output})
    for output in made.graph.output:
        if not output.type.HasField("tensor_type") and output.name in known:
            output.CopyFrom(known[output.name])
    return made


def session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Return an onnxruntime session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    data = typed_outputs(proto).SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


_ELSEWHERE = """
import sys
from pathlib import Path
import numpy as np
import vmkit
folder, count = Path(sys.argv[1]), int(sys.argv[2])
executable = vmkit.load(folder / "model.vmx")
machine = vmkit.VirtualMachine(executable)
results = {}
with np.load(folder / "feeds.npz") as feeds:
    for i in range(count):
        result = machine.run(**{k.split(":", 1)[1]: feeds[k] for k in feeds.files if k.startswith(f"{i}:")})
        for k, value in enumerate(result if executable.signature.result_is_tuple else [result]):
            results[f"{i}:{k}"] = value.numpy()
np.savez(folder / "results.npz", **results)
assert "onnx" not in sys.modules
"""


class Compiled:
    """A model compiled once, to be run at several sizes."""

    def __init__(
        self, proto: Any, shape: Mapping[str, Any] | None = None, target: str = "llvm", **options: Any
    ) -> None:
        self.module, self.params = from_onnx(proto, shape=shape, **options)
        self.executable = vmkit.compile(self.module, target=target, params=self.params)
        self.machine = vmkit.VirtualMachine(self.executable, vmkit.device("cpu"))

    def in_fresh_process(self, feeds: Sequence[Mapping[str, Any]], folder: Path) -> list[list[np.ndarray]]:
        """Return the results of another process, which knows the model from an exported file alone."""
        self.executable.export(folder / "model.vmx")
        np.savez(folder / "feeds.npz", **{f"{i}:{n}": v for i, feed in enumerate(feeds) for n, v in feed.items()})
        command = [sys.executable, "-c", _ELSEWHERE, str(folder), str(len(feeds))]
        subprocess.run(command, check=True, cwd=TOP)
        with np.load(folder / "results.npz") as results:
            count = 1 + max(int(key.split(":")[1]) for key in results.files)
            return [[results[f"{i}:{k}"] for k in range(count)] for i in range(len(feeds))]

    def __call__(self, **feed: Any) -> list[np.ndarray]:
        result = self.machine.run(**feed)
        return [r.numpy() for r in (result if self.executable.signature.result_is_tuple else [result])]


def assert_agrees(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray], names: Sequence[str]) -> None:
    """Assert that outputs have the data type, the shape and the values that they should have."""
    assert len(actual) == len(expected)
    for name, a, e in zip(names, actual, expected, strict=True):
        assert (name, a.dtype, a.shape) == (name, e.dtype, e.shape)
        np.testing.assert_allclose(a, e, rtol=RTOL, atol=ATOL, err_msg=name)


def check(
    proto: onnx.ModelProto, *feeds: Mapping[str, Any], shape: Mapping[str, Any] | None = None, **options: Any
) -> Compiled:
    """Assert that one compilation of a model agrees with onnxruntime on every feed."""
    compiled, peer = Compiled(proto, shape, **options), session(proto)
    names = [o.name for o in proto.graph.output]
    for feed in feeds:
        assert_agrees(compiled(**feed), peer.run(None, dict(feed)), names)
    return compiled


def agrees_with_reference(proto: onnx.ModelProto, *feeds: Mapping[str, Any]) -> Compiled:
    """Assert that one compilation of a model agrees with ONNX's reference on every feed."""
    compiled, peer = Compiled(proto), ReferenceEvaluator(proto)
    for feed in feeds:
        expected = [np.asarray(value) for value in peer.run(None, dict(feed))]
        assert_agrees(compiled(**feed), expected, [o.name for o in proto.graph.output])
    return compiled


def outputs_of(nodes: Sequence[onnx.NodeProto]) -> str:
    """Return the names of all outputs of nodes, separated by spaces."""
    return " ".join(name for n in nodes for name in n.output if name)


def results_of(nodes: Sequence[onnx.NodeProto], **inputs: np.ndarray) -> list[np.ndarray]:
    """Return what each node gives, in a model of the newest opset whose sizes are unknown."""
    given = {name: ([f"{name}{i}" for i in range(value.ndim)], value.dtype) for name, value in inputs.items()}
    return list(prepare(model(nodes, given, outputs_of(nodes), opset=onnx.defs.onnx_opset_version())).run(inputs))


def operators(mod: tvm.IRModule) -> set[str]:
    """Return the names of the operators that a module calls."""
    return set(_called(mod))


def _called(mod: tvm.IRModule) -> Iterator[str]:
    for function in mod.functions.values():
        for expr in post_order(function):
            if isinstance(expr, Call) and isinstance(expr.op, Op):
                yield expr.op.name


def array(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Return random numbers from -2 to 2, or small integers."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.uniform(-2, 2, shape).astype(dtype)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0 if dtype.startswith("u") else -9, 10, shape).astype(dtype)


def tensor(value: Any, name: str = "value") -> TensorProto:
    """Return an array as an attribute of a node."""
    return numpy_helper.from_array(np.asarray(value), name)
