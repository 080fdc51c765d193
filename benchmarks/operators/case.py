"""An operator to be timed: its node, and inputs of sizes that models have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper

__all__ = ["CASES", "Array", "Case", "case", "floats", "integers"]

Array = np.ndarray
Make = Callable[[np.random.Generator], Array]
"""What draws the values of an input."""


@dataclass(frozen=True)
class Case:
    """One operator at one size.

    Attributes
    ----------
    name : str
        The operator, and what tells the case from others of it.
    operator : str
        ONNX's name, with its domain before a colon where that is not ONNX's own.
    inputs : sequence of callable
        What draws each input that a call gives.
    constants : mapping of int to callable
        What draws inputs that the model holds, by position; None for one that is left out.
    outputs : int
        How many outputs the node has.
    attributes : dict
        The node's attributes.
    free : tuple of int
        Which dimensions of the first input are unknown in the dynamic form; () where none may be.
    opset : int
        The version of ONNX that the node is of.
    atol : float
        How far from onnxruntime's a value may be, if it is near 0.
    """

    name: str
    operator: str
    inputs: Sequence[Make]
    constants: Mapping[int, Make | None] = field(default_factory=dict)
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)
    free: tuple[int, ...] = (0,)
    opset: int = 22
    atol: float = 1e-4

    def arrays(self) -> dict[str, Array]:
        """Return inputs by name."""
        random = np.random.default_rng(0)
        return {f"x{at}": make(random) for at, make in enumerate(self.inputs)}

    def model(self, is_dynamic: bool) -> onnx.ModelProto:
        """Return a model of the node, with sizes that are known or, where they may be, not."""
        domain, _, operator = self.operator.rpartition(":")
        random = np.random.default_rng(1)
        arrays = self.arrays()
        given, first = iter(arrays.items()), arrays["x0"].shape
        names, values, weights = [], [], []
        for at in range(len(self.inputs) + len(self.constants)):
            if at in self.constants:
                make = self.constants[at]
                names.append(f"w{at}" if make is not None else "")
                if make is not None:
                    weights.append(onnx.numpy_helper.from_array(make(random), names[-1]))
                continue
            name, array = next(given)
            free = [a for a in self.free if is_dynamic and a < array.ndim and array.shape[a] == first[a]]
            shape = [f"n{axis}" if axis in free else size for axis, size in enumerate(array.shape)]
            names.append(name)
            values.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
        results = [f"y{at}" for at in range(self.outputs)]
        node = helper.make_node(operator, names, results, domain=domain, **self.attributes)
        outputs = [helper.make_empty_tensor_value_info(name) for name in results]
        graph = helper.make_graph([node], "operator", values, outputs, weights)
        others = [helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("ai.onnx.ml", 3)]
        opsets = [helper.make_opsetid("", self.opset), *others]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


CASES: dict[str, Case] = {}
"""The cases by name."""


def case(
    operator: str,
    *inputs: Make,
    label: str = "",
    name: str = "",
    constants: Mapping[int, Make | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    **rest: Any,
) -> None:
    """Add a case; what is not a field of one is an attribute of the node, as those are whose names fields have."""
    fields = {key: rest.pop(key) for key in ("outputs", "free", "opset", "atol") if key in rest}
    title = " ".join(part for part in (name or operator.rpartition(":")[2], label) if part)
    if title in CASES:
        raise ValueError(f"there are two cases {title}")
    CASES[title] = Case(title, operator, inputs, constants or {}, attributes={**rest, **(attributes or {})}, **fields)


def floats(*shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Make:
    """Return what draws floats of a shape."""
    return partial(_floats, shape, low, high, dtype)


def integers(*shape: int, low: int = 0, high: int = 100, dtype: str = "int64") -> Make:
    """Return what draws integers of a shape, from `low` to below `high`."""
    return partial(_integers, shape, low, high, dtype)


def _floats(shape: tuple[int, ...], low: float, high: float, dtype: str, random: np.random.Generator) -> Array:
    return random.uniform(low, high, shape).astype(dtype)


def _integers(shape: tuple[int, ...], low: int, high: int, dtype: str, random: np.random.Generator) -> Array:
    return random.integers(low, high, shape).astype(dtype)
