"""A random ONNX graph, grown node by node, every value of it computed by onnxruntime at several sizes.

A node is kept if onnxruntime computes it, alone, at all sizes, to finite numbers of a moderate size. So a graph is
sound at each of its sizes, and what each value should be is known without onnxruntime's own fusion.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

__all__ = ["TEMPLATES", "Graph", "Template", "Value", "frequent", "template", "window_fits"]

OPSET = 21
SIZES = ({"n": 2, "l": 5, "h": 12, "w": 9}, {"n": 3, "l": 8, "h": 14, "w": 17}, {"n": 1, "l": 1, "h": 31, "w": 16})
_LARGEST = 100.0


@dataclass(frozen=True)
class Value:
    """A tensor of the graph: its arrays at each of the sizes, and whether it is without roundings."""

    name: str
    arrays: tuple[np.ndarray, ...]
    exact: bool

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.arrays[0].ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape at the first of the sizes."""
        return self.arrays[0].shape

    @property
    def dtype(self) -> str:
        """The elements' type."""
        return self.arrays[0].dtype.name

    def is_fixed(self, axis: int) -> bool:
        """Say whether an axis has the same size at all sizes."""
        return len({array.shape[axis] for array in self.arrays}) == 1

    def fixed(self) -> list[int]:
        """Return the axes with the same size at all sizes."""
        return [axis for axis in range(self.rank) if self.is_fixed(axis)]


Template = Callable[["Graph"], None]
TEMPLATES: list[Template] = []


def template(function: Template) -> Template:
    """Have a function be one of the ways to add nodes to a graph."""
    TEMPLATES.append(function)
    return function


def frequent(function: Template) -> Template:
    """Have a function be one of them that is taken four times as often."""
    TEMPLATES.extend([function] * 4)
    return function


def window_fits(value: Value, window: Sequence[int], pads: Sequence[int]) -> bool:
    """Say whether a window fits on the last axes at each size.

    Of one that does not, onnxruntime computes what lies on the axis where the stride is larger than what is missing.
    """
    return all(
        size + before + after >= length
        for array in value.arrays
        for size, before, after, length in zip(array.shape[2:], pads, pads[len(window) :], window, strict=False)
    )


class Rejected(Exception):
    """A node is none that the graph should have."""


@dataclass
class Graph:
    """What has grown so far: nodes, constants and values."""

    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    free_axes: dict[str, list[str | int]] = field(default_factory=dict)

    def input(self, name: str, axes: Sequence[str | int], make: Callable[[tuple[int, ...]], np.ndarray]) -> Value:
        """Add an input of named and fixed sizes, whose arrays `make` makes of their shapes."""
        arrays = tuple(make(tuple(sizes[a] if isinstance(a, str) else a for a in axes)) for sizes in SIZES)
        value = Value(name, arrays, exact=True)
        self.inputs.append(value)
        self.values.append(value)
        self.free_axes[name] = list(axes)
        return value

    def constant(self, array: Any, dtype: str | None = None) -> str:
        """Add a constant, and return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        """Add a constant of float32 whose products with numbers near 1 stay there."""
        fan = max(1, int(np.prod(shape[1:])))
        return self.constant(self.random.normal(size=shape) / np.sqrt(fan), "float32")

    def pick(self, wanted: Callable[[Value], bool] = lambda value: True) -> Value:
        """Return some value that is wanted, late ones rather than early ones; Rejected if there is none."""
        found = [value for value in self.values if wanted(value)]
        if not found:
            raise Rejected
        late = self.random.random() < 0.7
        return found[int(self.random.integers(max(0, len(found) - 3) if late else 0, len(found)))]

    def floats(self, *ranks: int, exact: bool = False) -> Value:
        """Return some value of float32, of one of the ranks if some are given."""
        return self.pick(lambda v: v.dtype == "float32" and (not ranks or v.rank in ranks) and (v.exact or not exact))

    def integer(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both of them included; Rejected if there is none."""
        if low > high:
            raise Rejected
        return int(self.random.integers(low, high + 1))

    def choice(self, options: Sequence[Any]) -> Any:
        """Return one of some options; Rejected if there is none."""
        if not options:
            raise Rejected
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability: float = 0.5) -> bool:
        """Return whether something happens."""
        return bool(self.random.random() < probability)

    def add(
        self,
        op: str,
        inputs: Sequence[Value | str],
        outputs: int = 1,
        exact: bool = False,
        outer: Sequence[Value] = (),
        **attributes: Any,
    ) -> list[Value]:
        """Add a node, and return its results; Rejected if onnxruntime does not compute it at every size.

        `exact` says that its results have no roundings of their own; they have none if the inputs have none then.
        `outer` are values that its bodies read from outside.
        """
        names = [i.name if isinstance(i, Value) else i for i in inputs]
        results = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(op, names, results, name=f"{op}_{len(self.nodes)}", **attributes)
        tensors = {i.name: i for i in (*inputs, *outer) if isinstance(i, Value)}
        arrays = self._computed(node, tensors)
        is_exact = exact and all(value.exact for value in tensors.values())
        made = [Value(name, tuple(at[k] for at in arrays), is_exact) for k, name in enumerate(results)]
        self.nodes.append(node)
        self.values.extend(made)
        return made

    def _computed(self, node: onnx.NodeProto, tensors: dict[str, Value]) -> list[list[np.ndarray]]:
        constants = [tensor for tensor in self.constants if tensor.name in node.input]
        inputs = [
            helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.arrays[0].dtype), [None] * v.rank)
            for v in tensors.values()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        model = _model([node], inputs, outputs, constants)
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), _options())
            found = [
                session.run(None, {name: value.arrays[k] for name, value in tensors.items()}) for k in range(len(SIZES))
            ]
        except Exception as error:  # onnxruntime's exceptions have no common base but this
            raise Rejected(str(error)) from error
        if not any(array.size for array in found[0]):
            raise Rejected
        for k, arrays in enumerate(found):
            # What the mean or the largest of nothing is, ONNX leaves open.
            is_of_nothing = any(value.arrays[k].size == 0 for value in tensors.values())
            for array in arrays:
                if is_of_nothing and array.size and node.op_type.startswith("Reduce"):
                    raise Rejected
                if array.size > 200_000 or array.ndim > 6:
                    raise Rejected
                if array.dtype.kind == "f" and array.size and not np.abs(array).max() <= _LARGEST:
                    raise Rejected
        return found

    def grow(self, nodes: int) -> None:
        """Add templates until there are so many nodes."""
        tries = 0
        while len(self.nodes) < nodes and tries < 20 * nodes:
            tries += 1
            # What a template had added before a node of it was rejected stays: alone it is as sound.
            with contextlib.suppress(Rejected):
                self.choice(TEMPLATES)(self)

    def outputs(self) -> list[Value]:
        """Return what nothing else reads, and a few of the values between."""
        read = {name for node in self.nodes for name in node.input}
        given = {value.name for value in self.inputs}
        made = [value for value in self.values if value.name not in given]
        return [value for value in made if value.name not in read or self.random.random() < 0.1]

    def model(self, free: bool, outputs: Sequence[Value]) -> onnx.ModelProto:
        """Return the graph as a model, with sizes by their names or those of the first of the sizes."""
        inputs = []
        for value in self.inputs:
            axes = [a if free or not isinstance(a, str) else SIZES[0][a] for a in self.free_axes[value.name]]
            dtype = helper.np_dtype_to_tensor_dtype(value.arrays[0].dtype)
            inputs.append(helper.make_tensor_value_info(value.name, dtype, axes))
        results = [
            helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.arrays[0].dtype), [None] * v.rank)
            for v in outputs
        ]
        read = {name for node in self.nodes for name in node.input}
        return _model(self.nodes, inputs, results, [tensor for tensor in self.constants if tensor.name in read])


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "random", list(inputs), list(outputs), list(constants))
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options
