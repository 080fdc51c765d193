"""Linear algebra of PyTorch: systems of equations, determinants, factors of matrices.

By plain algorithms, in float64 whatever the type: Gauss's elimination with the largest pivot of a column, Cholesky's,
Householder's reflections, and the exponential by scaling and squaring.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ...relax.positions import joined_shape
from ...relay.ir import dims
from ...relay.op.kernel import grid
from . import matrix_kernels as kernels
from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of, refused
from .matrix_kernels import WIDE, at, number
from .relay_operators import looped

if TYPE_CHECKING:
    from torch import fx

__all__ = ["LINEAR_ALGEBRA"]


def _factored(importer: Importing, x: relax.Expr) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
    """Return the factors of matrices in one, the pivots from 1 on, and where there is none."""
    *stack, rows, columns = x.ty.shape
    count = rows if dims.equal(rows, columns) else tirx.min(rows, columns)

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        factors, pivots, info, best = outputs
        with grid(list(x.shape[:-2])) as i:
            kernels.eliminated(x, factors, pivots, info, best, i)

    results = [([*stack, rows, columns], WIDE), ([*stack, count], "int32"), (stack, "int32"), ([1], "int64")]
    factors, pivots, info, _ = looped(importer, results, body, x, name="factored")
    return factors, pivots, info


def _solved(importer: Importing, factors: relax.Expr, pivots: relax.Expr, right: relax.Expr | None) -> relax.Expr:
    """Return the solutions of systems by their factors; without right sides the inverses."""
    shape = list(factors.ty.shape if right is None else right.ty.shape)

    def body(outputs: list[tirx.Buffer], factors: tirx.Buffer, pivots: tirx.Buffer, *right: tirx.Buffer) -> None:
        out, total = outputs
        rows, columns = out.shape[-2:]
        with grid(list(out.shape[:-2])) as i:
            with grid([rows, columns]) as (r, c):
                one = tirx.Select(tirx.EQ(r, c), number(1), number(0))
                T.buffer_store(out, right[0][at(i, r, c)].astype(WIDE) if right else one, [*i, r, c])
            with grid([rows]) as (r,):
                other = T.bind(pivots[at(i, r)].astype("int64") - 1)
                with T.If(other != r), T.Then(), grid([columns]) as (c,):
                    upper, lower = T.bind(out[at(i, r, c)]), T.bind(out[at(i, other, c)])
                    T.buffer_store(out, lower, [*i, r, c])
                    T.buffer_store(out, upper, [*i, other, c])
            kernels.substituted(factors, out, total, i, is_upper=False, is_unit=True)
            kernels.substituted(factors, out, total, i, is_upper=True)

    given = [factors, pivots] if right is None else [factors, pivots, right]
    return looped(importer, [(shape, WIDE), ([1], WIDE)], body, *given, name="solved")[0]


def _inverse(importer: Importing, node: fx.Node) -> relax.Expr:
    value = importer.env[arguments_of(node)[0]]
    factors, pivots, info = _factored(importer, value)
    made = cast_to(importer, _solved(importer, factors, pivots, None), str(value.ty.dtype))
    return importer.block_builder.emit(relax.Tuple([made, info]))


def _solution(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the solutions of systems, the factors, the pivots, and where there is none."""
    a, b, left = arguments_of(node)[:3]
    if not left:
        raise refused(node, "solves systems from the right, left=False; transpose both sides")
    emit, op = importer.block_builder.emit, relax.op
    matrix, right = importer.env[a], importer.env[b]
    dtype = str(matrix.ty.dtype)
    shape, sides = a.meta["val"].shape, b.meta["val"].shape
    is_vector = len(sides) == 1 or (len(sides) == len(shape) - 1 and tuple(sides) == tuple(shape[:-1]))
    if is_vector:
        right = emit(op.expand_dims(right, -1))
    factors, pivots, info = _factored(importer, matrix)
    stack = joined_shape([list(each.ty.shape)[:-2] for each in (matrix, right)])
    wide = [(factors, 2), (pivots, 1), (right, 2)]
    shapes = [relax.ShapeExpr([*stack, *list(each.ty.shape)[-own:]]) for each, own in wide]
    made = _solved(
        importer, *(emit(op.broadcast_to(each, shape)) for (each, _), shape in zip(wide, shapes, strict=True))
    )
    made = emit(op.squeeze(made, [-1])) if is_vector else made
    return emit(relax.Tuple([cast_to(importer, made, dtype), cast_to(importer, factors, dtype), pivots, info]))


def _of_diagonal(importer: Importing, node: fx.Node, *, is_logarithm: bool) -> relax.Expr:
    """Return determinants, or their signs and the logarithms of their sizes; then the factors and the pivots."""
    value = importer.env[arguments_of(node)[0]]
    dtype, stack = str(value.ty.dtype), list(value.ty.shape)[:-2]
    factors, pivots, _ = _factored(importer, value)

    def body(outputs: list[tirx.Buffer], factors: tirx.Buffer, pivots: tirx.Buffer) -> None:
        sign, size = outputs
        with grid(list(factors.shape[:-2])) as i:
            T.buffer_store(sign, number(1), i)
            T.buffer_store(size, number(0 if is_logarithm else 1), i)
            with grid([factors.shape[-1]]) as (k,):
                with T.If(pivots[at(i, k)].astype("int64") != k + 1), T.Then():
                    T.buffer_store(sign, -sign[tuple(i)], i)
                element, old = T.bind(factors[at(i, k, k)]), size[tuple(i)]
                if is_logarithm:
                    kind = tirx.Select(
                        element > number(0), number(1), tirx.Select(element < number(0), number(-1), element)
                    )
                    T.buffer_store(sign, sign[tuple(i)] * kind, i)
                    T.buffer_store(size, old + tirx.log(tirx.abs(element)), i)
                else:
                    T.buffer_store(size, old * element, i)

    sign, size = looped(importer, [(stack, WIDE), (stack, WIDE)], body, factors, pivots, name="determinant")
    emit = importer.block_builder.emit
    first = [sign, size] if is_logarithm else [emit(relax.op.multiply(sign, size))]
    return emit(relax.Tuple([*(cast_to(importer, each, dtype) for each in (*first, factors)), pivots]))


def _packed_factors(importer: Importing, node: fx.Node) -> relax.Expr:
    value = importer.env[arguments_of(node)[0]]
    factors, pivots, info = _factored(importer, value)
    packed = cast_to(importer, factors, str(value.ty.dtype))
    return importer.block_builder.emit(relax.Tuple([packed, pivots, info]))


def _turned(importer: Importing, value: relax.Expr) -> relax.Expr:
    """Return matrices with rows for columns."""
    rank = value.ty.ndim
    return importer.block_builder.emit(relax.op.permute_dims(value, [*range(rank - 2), rank - 1, rank - 2]))


def _positive_factor(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the triangular factors of positive matrices, and which of their minors is not positive."""
    data, is_upper = arguments_of(node)[:2]
    value, emit = importer.env[data], importer.block_builder.emit
    shape = list(value.ty.shape)

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        factor, info, total = outputs
        with grid(list(x.shape[:-2])) as i:
            kernels.cholesky(x, factor, info, total, i)

    given = _turned(importer, value) if is_upper else value
    results: list[Any] = [(shape, WIDE), (shape[:-2], "int32"), ([1], WIDE)]
    factor, info, _ = looped(importer, results, body, given, name="cholesky")
    factor = _turned(importer, factor) if is_upper else factor
    return emit(relax.Tuple([cast_to(importer, factor, str(value.ty.dtype)), info]))


def _triangular(
    importer: Importing, node: fx.Node, a: relax.Expr, b: relax.Expr, ways: list[dict[str, bool]]
) -> relax.Expr:
    """Return the solutions of systems of triangles, one after the other."""
    emit, op, dtype = importer.block_builder.emit, relax.op, dtype_of(node)
    stack = joined_shape([list(each.ty.shape)[:-2] for each in (a, b)])
    a, b = (emit(op.broadcast_to(each, relax.ShapeExpr([*stack, *list(each.ty.shape)[-2:]]))) for each in (a, b))

    def body(outputs: list[tirx.Buffer], a: tirx.Buffer, b: tirx.Buffer) -> None:
        out, total = outputs
        with grid(list(out.shape[:-2])) as i:
            with grid(list(out.shape[-2:])) as (r, c):
                T.buffer_store(out, b[at(i, r, c)].astype(WIDE), [*i, r, c])
            for way in ways:
                kernels.substituted(a, out, total, i, **way)

    made = looped(importer, [(list(b.ty.shape), WIDE), ([1], WIDE)], body, a, b, name="triangular")[0]
    return cast_to(importer, made, dtype)


def _of_triangle(importer: Importing, node: fx.Node) -> relax.Expr:
    a, b = arguments_of(node)[:2]
    is_upper, is_left, is_unit = (
        bool(node.kwargs.get(name, name == "left")) for name in ("upper", "left", "unitriangular")
    )
    matrix, right = importer.env[a], importer.env[b]
    if is_left:
        return _triangular(importer, node, matrix, right, [{"is_upper": is_upper, "is_unit": is_unit}])
    # X A = B is A' X' = B'.
    way = {"is_upper": is_upper, "is_unit": is_unit, "is_transposed": True}
    return _turned(importer, _triangular(importer, node, matrix, _turned(importer, right), [way]))


def _of_positive_factor(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the solutions of systems of positive matrices by their triangular factors."""
    b, a, is_upper = arguments_of(node)
    first = {"is_upper": is_upper, "is_transposed": is_upper}
    second = {"is_upper": is_upper, "is_transposed": not is_upper}
    return _triangular(importer, node, importer.env[a], importer.env[b], [first, second])


def _orthogonal(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return matrices as orthogonal ones times triangles."""
    data, mode = arguments_of(node)
    value, emit = importer.env[data], importer.block_builder.emit
    *stack, rows, columns = value.ty.shape
    count = tirx.min(rows, columns)
    kept = count if mode == "reduced" else rows

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        q, r, scales, total = outputs
        with grid(list(x.shape[:-2])) as i:
            kernels.householder(x, q, r, scales, total, i)

    results: list[Any] = [([*stack, rows, kept], WIDE), (list(value.ty.shape), WIDE), ([count], WIDE), ([1], WIDE)]
    q, r, *_ = looped(importer, results, body, value, name="orthogonal")
    dtype = str(value.ty.dtype)
    rank = value.ty.ndim
    if mode != "complete":
        r = emit(relax.op.strided_slice(r, [rank - 2], [0], [count]))
    upper = cast_to(importer, emit(relax.op.triu(r)), dtype)
    none = emit(relax.op.zeros(relax.ShapeExpr([0]), dtype))
    return emit(relax.Tuple([none if mode == "r" else cast_to(importer, q, dtype), upper]))


def _exponential(importer: Importing, node: fx.Node) -> relax.Expr:
    value = importer.env[arguments_of(node)[0]]
    shape = list(value.ty.shape)

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        out, *scratch = outputs
        with grid(list(x.shape[:-2])) as i:
            kernels.exponential(x, out, scratch, i)

    square: Any = (shape[-2:], WIDE)
    results: list[Any] = [(shape, WIDE), square, square, square, ([2], WIDE), ([1], "int64")]
    made = looped(importer, results, body, value, name="exponential")[0]
    return cast_to(importer, made, str(value.ty.dtype))


LINEAR_ALGEBRA: dict[str, Converter] = {
    "_linalg_det.default": partial(_of_diagonal, is_logarithm=False),
    "_linalg_slogdet.default": partial(_of_diagonal, is_logarithm=True),
    "_linalg_solve_ex.default": _solution,
    "cholesky_solve.default": _of_positive_factor,
    "linalg_cholesky_ex.default": _positive_factor,
    "linalg_inv_ex.default": _inverse,
    "linalg_lu_factor_ex.default": _packed_factors,
    "linalg_matrix_exp.default": _exponential,
    "linalg_qr.default": _orthogonal,
    "linalg_solve_triangular.default": _of_triangle,
}
"""The converters, by the names of PyTorch's operators."""
