"""``examplejson``: a code generator that makes a JSON graph, which numpy runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..relay.ir import Call, TensorType
from .codegen import Compute, Graph, codegen

__all__ = ["ExampleJSON"]

Array = npt.NDArray[Any]

_OPERATORS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "exp": np.exp,
    "tanh": np.tanh,
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.dense": lambda x, w: x @ w.T,
}


@codegen("examplejson")
class ExampleJSON(Graph):
    """Arithmetic, a few functions and ``nn.dense``, as a JSON graph that numpy runs."""

    operators = tuple(_OPERATORS)

    @classmethod
    def takes(cls, call: Call) -> bool | str:
        """Say whether a call computes in numbers of one type that numpy has."""
        types = [arg.checked_type for arg in call.args] + [call.checked_type]
        dtypes = {ty.dtype for ty in types if isinstance(ty, TensorType)}
        return True if len(dtypes) == 1 and dtypes <= {"float32", "float64"} else "it takes float32 or float64 alone"

    @classmethod
    def load(cls, graph: Any) -> Compute:  # noqa: ANN401 - JSON values
        """Return a function that goes through the nodes of a graph."""

        def run(*arguments: Array) -> list[Array]:
            values: dict[int, Array] = dict(zip(graph["arguments"], arguments, strict=True))
            for node in graph["nodes"]:
                (output,) = node["outputs"]
                operator = _OPERATORS[node["op"]]
                values[output] = operator(*[values[n] for n in node["inputs"]])
            return [values[n] for n in graph["outputs"]]

        return run
