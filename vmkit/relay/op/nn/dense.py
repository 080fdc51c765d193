"""Products of matrices: dense, matmul, batch_matmul."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.types import Any as AnyDim
from ...ir.types import IncompleteType, TensorType, Type
from ..attrs import Attrs, Bool, Dim, DType, attrs_node, field
from ..broadcast import broadcast_dim, broadcast_index
from ..elementwise import require_tensor
from ..registry import OpPattern, entry, operator
from .layout import require_rank
from .precision import accumulator, as_dtype

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


_UNITS = "Columns of the result; those that the weight has."
_OUT_DTYPE = "Data type of the result; that of the first operand where it is empty."


@attrs_node("relay.attrs.DenseAttrs")
class DenseAttrs(Attrs):
    """Attributes of nn.dense."""

    units: Dim | None = field(None, doc=_UNITS)
    out_dtype: DType = field("", doc=_OUT_DTYPE)


@attrs_node("relay.attrs.MatmulAttrs")
class MatmulAttrs(Attrs):
    """Attributes of nn.matmul."""

    units: Dim | None = field(None, doc=_UNITS)
    out_dtype: DType = field("", doc=_OUT_DTYPE)
    transpose_a: Bool = field(False, doc="Whether the last two axes of the first operand are exchanged.")
    transpose_b: Bool = field(False, doc="Whether the axes of the second operand are exchanged.")


def _product_type(
    attrs: DenseAttrs | MatmulAttrs, a: Type, b: Type, transpose_a: bool, transpose_b: bool, names: tuple[str, str]
) -> Type:
    left, right = require_tensor(a, names[0]), require_tensor(b, names[1])
    require_rank(right, 2, names[1])
    rank = len(left.shape)
    if rank < 1 or (transpose_a and rank < 2):
        raise TypeCheckError(f"{names[0]} must have {2 if transpose_a else 1} or more dimensions, not {rank}: {left}")
    shape, inner = _rows(list(left.shape), transpose_a)
    columns, other = _columns(list(right.shape), transpose_b)
    if dims.equal(inner, other) is False:
        raise TypeCheckError(f"the inner dimensions differ: {inner} of {names[0]} and {other} of {names[1]}")
    if attrs.units is not None:
        if dims.equal(attrs.units, columns) is False:
            raise TypeCheckError(f"units is {attrs.units}, but {names[1]} has {columns}")
        columns = attrs.units
    return TensorType([*shape, columns], attrs.out_dtype or left.dtype)


def _rows(shape: list[Dim], transposed: bool) -> tuple[list[Dim], Dim]:
    """Return the dimensions of the left operand that the result keeps, and its inner dimension."""
    if transposed:
        return [*shape[:-2], shape[-1]], shape[-2]
    return shape[:-1], shape[-1]


def _columns(shape: list[Dim], transposed: bool) -> tuple[Dim, Dim]:
    """Return the outer and the inner dimension of the right operand."""
    return (shape[0], shape[1]) if transposed else (shape[1], shape[0])


def _weight_type(attrs: DenseAttrs | MatmulAttrs, a: Type, transpose_a: bool, transpose_b: bool) -> dict[int, Type]:
    if isinstance(a, IncompleteType) or attrs.units is None:
        return {}
    left = require_tensor(a)
    if len(left.shape) < 1 + transpose_a:
        return {}
    _, inner = _rows(list(left.shape), transpose_a)
    return {1: TensorType([attrs.units, inner] if transpose_b else [inner, attrs.units], left.dtype)}


def _multiply(
    context: LowerContext,
    attrs: DenseAttrs | MatmulAttrs,
    a: relax.Expr,
    b: relax.Expr,
    transpose_a: bool,
    transpose_b: bool,
) -> relax.Expr:
    _, inner = _rows(context.shape(a), transpose_a)
    columns, other = _columns(context.shape(b), transpose_b)
    name = context.operator
    context.require_equal(inner, other, f"{name}: the inner dimensions differ: {{actual}} and {{expected}}")
    if isinstance(attrs.units, int):
        context.require_equal(columns, attrs.units, f"{name}: units is {{expected}}, but the weight has {{actual}}")
    out_dtype = attrs.out_dtype or context.types[0].dtype
    return context.te(lambda x, w: _matmul(x, w, out_dtype, transpose_a, transpose_b), a, b)


def _matmul(a: te.Tensor, b: te.Tensor, out_dtype: str, transpose_a: bool, transpose_b: bool) -> te.Tensor:
    rows, left = _rows(list(a.shape), transpose_a)
    columns, right = _columns(list(b.shape), transpose_b)
    # Equal, but only one of the two may be known now.
    k = te.reduce_axis((0, right if isinstance(dims.simplify(right), int) else left), name="k")
    sums = accumulator(out_dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        *lead, row, column = (None, *index) if len(index) == 1 else index
        if row is None:
            at: tuple[Any, ...] = (k,)
        else:
            at = (*lead, k, row) if transpose_a else (*lead, row, k)
        x, w = a(*at), b(column, k) if transpose_b else b(k, column)
        return te.sum(x.astype(sums) * w.astype(sums), axis=k)

    return as_dtype(te.compute([*rows, columns], element, name="T_matmul"), out_dtype)


@operator("nn.matmul", "tensor_a", "tensor_b", attrs=MatmulAttrs, level=1, pattern=OpPattern.OUT_ELEMWISE_FUSABLE)
class Matmul:
    """Product of a tensor's last dimension (with transpose_a, the one before) with a matrix."""

    @staticmethod
    def make(tensor_a: Expr, tensor_b: Expr, transpose_a: bool, transpose_b: bool, **shared: Any) -> Expr:
        if transpose_b and not transpose_a:
            return entry("nn.dense").call(tensor_a, tensor_b, **shared)
        return entry("nn.matmul").call(tensor_a, tensor_b, transpose_a=transpose_a, transpose_b=transpose_b, **shared)

    @staticmethod
    def infer_inputs(attrs: MatmulAttrs, a: Type, b: Type) -> dict[int, Type]:
        return _weight_type(attrs, a, attrs.transpose_a, attrs.transpose_b)

    @staticmethod
    def relation(attrs: MatmulAttrs, a: Type, b: Type) -> Type:
        return _product_type(attrs, a, b, attrs.transpose_a, attrs.transpose_b, ("tensor_a", "tensor_b"))

    @staticmethod
    def lower(context: LowerContext, attrs: MatmulAttrs, a: relax.Expr, b: relax.Expr) -> relax.Expr:
        return _multiply(context, attrs, a, b, attrs.transpose_a, attrs.transpose_b)


@operator(
    "nn.dense",
    "data",
    "weight",
    attrs=DenseAttrs,
    level=1,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    mixed="always",
    layout="dense",
)
class Dense:
    """Product of the data's last dimension with a weight matrix of shape (units, inner)."""

    @staticmethod
    def infer_inputs(attrs: DenseAttrs, data: Type, weight: Type) -> dict[int, Type]:
        return _weight_type(attrs, data, False, True)

    @staticmethod
    def relation(attrs: DenseAttrs, data: Type, weight: Type) -> Type:
        return _product_type(attrs, data, weight, False, True, ("data", "weight"))

    @staticmethod
    def lower(context: LowerContext, attrs: DenseAttrs, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
        return _multiply(context, attrs, data, weight, False, True)


@attrs_node("relay.attrs.BatchMatmulAttrs")
class BatchMatmulAttrs(Attrs):
    """Attributes of nn.batch_matmul."""

    out_dtype: DType = field("", doc=_OUT_DTYPE)
    transpose_a: Bool = field(False, doc="Whether the matrices of the first operand are transposed.")
    transpose_b: Bool = field(False, script=True, doc="Whether the matrices of the second operand are transposed.")


@operator(
    "nn.batch_matmul",
    "tensor_a",
    "tensor_b",
    attrs=BatchMatmulAttrs,
    level=10,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    mixed="always",
)
class BatchMatmul:
    """Product of the matrices of two batches; a batch of one matrix serves all of the other's."""

    @staticmethod
    def relation(attrs: BatchMatmulAttrs, a: Type, b: Type) -> Type:
        left, right = require_tensor(a, "tensor_a"), require_tensor(b, "tensor_b")
        require_rank(left, 3, "tensor_a")
        require_rank(right, 3, "tensor_b")
        (row,), inner = _rows(list(left.shape[1:]), attrs.transpose_a)
        column, other = _columns(list(right.shape[1:]), attrs.transpose_b)
        if dims.equal(inner, other) is False:
            raise TypeCheckError(f"the inner dimensions differ: {inner} of tensor_a and {other} of tensor_b")
        batches = [left.shape[0], right.shape[0]]
        batch = AnyDim() if any(dims.is_any(d) for d in batches) else dims.broadcast(*batches)
        if batch is None:
            raise TypeCheckError(f"the batches are {batches[0]} and {batches[1]}; they must agree, or one must be 1")
        return TensorType([batch, row, column], attrs.out_dtype or left.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: BatchMatmulAttrs, a: relax.Expr, b: relax.Expr) -> relax.Expr:
        left, right = context.shape(a), context.shape(b)
        _, inner = _rows(left[1:], attrs.transpose_a)
        _, other = _columns(right[1:], attrs.transpose_b)
        name = context.operator
        context.require_equal(inner, other, f"{name}: the inner dimensions differ: {{actual}} and {{expected}}")
        batch = broadcast_dim(context, "dimension 0", [left[0], right[0]])
        out_dtype = attrs.out_dtype or context.types[0].dtype
        sizes = [dims.as_expr(batch)]
        return context.te(lambda x, y, whole: _batch_matmul(attrs, x, y, whole[0], out_dtype), a, b, sizes)


def _batch_matmul(attrs: BatchMatmulAttrs, a: te.Tensor, b: te.Tensor, batch: tirx.Expr, out_dtype: str) -> te.Tensor:
    (row,), left = _rows(list(a.shape[1:]), attrs.transpose_a)
    column, right = _columns(list(b.shape[1:]), attrs.transpose_b)
    k = te.reduce_axis((0, right if isinstance(dims.simplify(right), int) else left), name="k")
    sums = accumulator(out_dtype)

    def element(n: tirx.Expr, i: tirx.Expr, j: tirx.Expr) -> tirx.Expr:
        (of_a,), (of_b,) = (broadcast_index([dims.simplify(t.shape[0])], [batch], [n]) for t in (a, b))
        x = a(of_a, k, i) if attrs.transpose_a else a(of_a, i, k)
        y = b(of_b, j, k) if attrs.transpose_b else b(of_b, k, j)
        return te.sum(x.astype(sums) * y.astype(sums), axis=k)

    return as_dtype(te.compute([batch, row, column], element, name="T_batch_matmul"), out_dtype)
