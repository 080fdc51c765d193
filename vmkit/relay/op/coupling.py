"""Probabilities of classes from those of pairs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir.types import TensorType, Type
from .elementwise import require_tensor
from .kernel import const, grid, loops
from .registry import operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

_ROUNDS = 100
_F32 = "float32"


@operator("contrib_couple_probabilities", "pairs", level=10)
class CoupleProbabilities:
    """The probabilities of classes that agree best with those of pairs: (rows, classes) from (rows, classes, classes).

    pairs[r, i, j] is how likely the class of row r is i if it is i or j. They are found by at most 100 rounds, until
    none is off by more than 0.005 / classes.

    Source: T.-F. Wu, C.-J. Lin, R. C. Weng, Probability Estimates for Multi-class Classification by Pairwise Coupling,
    2004, algorithm 2.
    """

    @staticmethod
    def relation(attrs: None, pairs: Type) -> Type:
        tensor = require_tensor(pairs, "pairs")
        if len(tensor.shape) != 3 or tensor.dtype != _F32 or not isinstance(tensor.shape[2], int):
            raise TypeCheckError(f"pairs must be float32 (rows, classes, classes), not {tensor}")
        return TensorType([tensor.shape[0], tensor.shape[2]], _F32)

    @staticmethod
    def lower(context: LowerContext, attrs: None, pairs: relax.Expr) -> relax.Expr:
        rows, _, classes = context.shape(pairs)
        return loops(context, [([rows, classes], _F32)], _couple, pairs)


def _couple(outputs: list[tirx.Buffer], pairs: tirx.Buffer) -> None:
    (result,) = outputs
    classes = int(pairs.shape[2])
    zero, one = tirx.const(0.0, _F32), tirx.const(1.0, _F32)
    with grid([pairs.shape[0]]) as (r,):
        matrix = T.alloc_buffer((classes, classes), _F32, scope="local", layout=None)
        products = T.alloc_buffer((classes,), _F32, scope="local", layout=None)
        state = T.alloc_buffer((3,), _F32, scope="local", layout=None)  # the square form, the error, whether it is done
        with grid([classes]) as (i,):
            T.buffer_store(result, tirx.const(1.0 / classes, _F32), [r, i])
            T.buffer_store(matrix, zero, [i, i])
            with grid([classes]) as (j,), T.If(i != j), T.Then():
                other = T.bind(pairs[r, j, i])
                T.buffer_store(matrix, matrix[i, i] + other * other, [i, i])
                T.buffer_store(matrix, zero - other * pairs[r, i, j], [i, j])
        T.buffer_store(state, zero, [2])
        with T.serial(0, const(_ROUNDS)), T.If(state[2] == zero), T.Then():
            T.buffer_store(state, zero, [0])
            T.buffer_store(state, zero, [1])
            with grid([classes]) as (i,):
                T.buffer_store(products, zero, [i])
                with grid([classes]) as (j,):
                    T.buffer_store(products, products[i] + matrix[i, j] * result[r, j], [i])
                T.buffer_store(state, state[0] + result[r, i] * products[i], [0])
            with grid([classes]) as (i,):
                T.buffer_store(state, tirx.max(state[1], tirx.abs(products[i] - state[0])), [1])
            with T.If(state[1] < tirx.const(0.005 / classes, _F32)):
                with T.Then():
                    T.buffer_store(state, one, [2])
                with T.Else():
                    _improve(result, matrix, products, state, r, classes)


def _improve(
    result: tirx.Buffer,
    matrix: tirx.Buffer,
    products: tirx.Buffer,
    state: tirx.Buffer,
    row: tirx.Expr,
    classes: int,
) -> None:
    """Change the probabilities one after another, and what depends on them."""
    one, two = tirx.const(1.0, _F32), tirx.const(2.0, _F32)
    step = T.alloc_buffer((1,), _F32, scope="local", layout=None)
    with grid([classes]) as (i,):
        T.buffer_store(step, (state[0] - products[i]) / matrix[i, i], [0])
        T.buffer_store(result, result[row, i] + step[0], [row, i])
        form = state[0] + step[0] * (step[0] * matrix[i, i] + two * products[i])
        T.buffer_store(state, form / (one + step[0]) / (one + step[0]), [0])
        with grid([classes]) as (j,):
            T.buffer_store(products, (products[j] + step[0] * matrix[i, j]) / (one + step[0]), [j])
            T.buffer_store(result, result[row, j] / (one + step[0]), [row, j])
