"""Operators that write elements at positions held by another tensor. A position outside writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.expr import const as relay_const
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .agreement import may_agree, require_agreed
from .attrs import Attrs, Dims, Int, Str, attrs_node
from .axis import resolve_axis
from .create import read_shape, require_scalar, shape_vector
from .elementwise import require_tensor
from .index import require_integers
from .kernel import as_index, const, from_either_end, grid, loops
from .rank import constant_list
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["ScatterElements", "write_at_positions", "write_elements"]

_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "mean": lambda old, new: (
        (old + new) / 2
        if str(old.ty.dtype).startswith(("float", "bfloat"))
        else tirx.truncdiv(old + new, tirx.const(2, str(old.ty.dtype)))
    ),
    "min": lambda old, new: tirx.min(old, new),
    "max": lambda old, new: tirx.max(old, new),
}
_NUMBERS = ("float32", "float64", "int32", "int64")


def _require_reduction(name: str, attribute: str) -> None:
    if name not in _REDUCTIONS:
        raise TypeCheckError(f"{attribute} is {name!r}; it is one of {', '.join(_REDUCTIONS)}")


def _copy(out: tirx.Buffer, data: tirx.Buffer) -> None:
    with grid(list(data.shape)) as i:
        T.buffer_store(out, data[tuple(i)] if i else data[()], i)


def _write(out: tirx.Buffer, position: Sequence[tirx.Expr], value: tirx.Expr, reduction: str = "update") -> None:
    """Write a value at a position, unless it lies outside."""
    inside = [tirx.all(p >= 0, p < extent) for p, extent in zip(position, out.shape, strict=True)]
    with T.If(tirx.all(tirx.const(True), *inside)), T.Then():
        T.buffer_store(out, _REDUCTIONS[reduction](out[tuple(position)], value), list(position))


@attrs_node("relay.attrs.ScatterElementsAttrs")
class ScatterElementsAttrs(Attrs):
    """Attributes of scatter_elements."""

    axis: Int = 0
    reduction: Str = "update"


@operator(
    "scatter_elements",
    "data",
    "indices",
    "updates",
    attrs=ScatterElementsAttrs,
    level=3,
    pattern=OpPattern.OPAQUE,
    mixed="follow",
)
class ScatterElements:
    """The input with updates written: ``out[indices[i][j]][j] = updates[i][j]`` for axis 0, and so on.

    reduction joins an update with what is there: "update" replaces it, or "add", "mul", "mean", "min", "max". Negative
    indices count from the end. Updates may be larger than indices; the rest is not read.
    """

    @staticmethod
    def relation(attrs: ScatterElementsAttrs, data: Type, indices: Type, updates: Type) -> Type:
        source, where, values = require_tensor(data), require_integers(indices), require_tensor(updates, "updates")
        rank = len(source.shape)
        resolve_axis(attrs.axis, rank)
        _require_reduction(attrs.reduction, "reduction")
        if not rank == len(where.shape) == len(values.shape):
            raise TypeCheckError("data, indices and updates must have the same number of dimensions")
        if source.dtype != values.dtype:
            raise TypeCheckError(f"updates are {values.dtype}, data {source.dtype}; cast one of them")
        for k, (a, b) in enumerate(zip(where.shape, values.shape, strict=True)):
            if isinstance(a, int) and isinstance(b, int) and a > b:
                raise TypeCheckError(f"dimension {k} is {a} in indices and only {b} in updates")
        return source

    @staticmethod
    def lower(context: LowerContext, attrs: ScatterElementsAttrs, *values: relax.Expr) -> relax.Expr:
        shape, where, updates = (context.shape(v) for v in values)
        axis = resolve_axis(attrs.axis, len(shape))
        for k, (a, b) in enumerate(zip(where, updates, strict=True)):
            if not dims.equal(a, b):
                message = f"scatter_elements: dimension {k} is {{actual}} in indices and only {{expected}} in updates"
                context.require_equal(a, dims.minimum(a, b), message)

        number = _number_of(values[0])
        begun = values[:1] if number is None else ()

        def body(outputs: list[tirx.Buffer], *given: tirx.Buffer) -> None:
            if number is None:
                write_elements(outputs[0], *given, axis=axis, reduction=attrs.reduction)
                return
            with grid(list(outputs[0].shape)) as i:
                T.buffer_store(outputs[0], number, i)
            _write_elements(outputs[0], *given, axis=axis, reduction=attrs.reduction)

        return loops(context, [(shape, str(values[0].ty.dtype))], body, *begun, *values[1:])


def write_elements(
    out: tirx.Buffer, data: tirx.Buffer, indices: tirx.Buffer, updates: tirx.Buffer, *, axis: int, reduction: str
) -> None:
    """Write loops that make data with updates at positions along an axis, one after the other."""
    _copy(out, data)
    _write_elements(out, indices, updates, axis=axis, reduction=reduction)


def _write_elements(out: tirx.Buffer, indices: tirx.Buffer, updates: tirx.Buffer, *, axis: int, reduction: str) -> None:
    with grid(list(indices.shape)) as i:
        to: list[tirx.Expr] = list(i)
        to[axis] = from_either_end(indices[tuple(i)], out.shape[axis])
        _write(out, to, updates[tuple(i)], reduction)


def _number_of(data: relax.Expr) -> tirx.Expr | None:
    """Return the number that all elements of a constant are, to the bit; None where they differ."""
    if not isinstance(data, ir.GenericConst) or str(data.ty.dtype) not in _NUMBERS:
        return None
    elements = data.value.numpy().reshape(-1)
    bits = elements.view(f"u{elements.itemsize}")
    return tirx.const(elements[0].item(), str(data.ty.dtype)) if bits.size and (bits == bits[0]).all() else None


@attrs_node("relay.attrs.ScatterNDAttrs")
class ScatterNDAttrs(Attrs):
    """Attributes of scatter_nd."""

    mode: Str = "update"


@operator(
    "scatter_nd", "data", "indices", "updates", attrs=ScatterNDAttrs, level=3, pattern=OpPattern.OPAQUE, mixed="follow"
)
class ScatterND:
    """The input with updates (elements or slices) written at positions; ``indices[k]`` are those of dimension k."""

    @staticmethod
    def expected(data: list[Dim], indices: list[Dim]) -> list[Dim]:
        """Return the shape that the updates must have."""
        if not indices or not isinstance(indices[0], int):
            raise TypeCheckError("the first dimension of indices must be known: it is the number of indexed dimensions")
        if indices[0] > len(data):
            raise TypeCheckError(f"indices index {indices[0]} dimensions; data has {len(data)}")
        return [*indices[1:], *data[indices[0] :]]

    @staticmethod
    def relation(attrs: ScatterNDAttrs, data: Type, indices: Type, updates: Type) -> Type:
        source, where, values = require_tensor(data), require_integers(indices), require_tensor(updates, "updates")
        _require_reduction(attrs.mode, "mode")
        wanted = TensorType(ScatterND.expected(list(source.shape), list(where.shape)), source.dtype)
        if not may_agree(wanted.shape, values.shape) or source.dtype != values.dtype:
            raise TypeCheckError(f"updates are {values}; for these data and indices they must be {wanted}")
        return source

    @staticmethod
    def lower(context: LowerContext, attrs: ScatterNDAttrs, *values: relax.Expr) -> relax.Expr:
        shape, where, updates = (context.shape(v) for v in values)
        require_agreed(context, updates, ScatterND.expected(shape, where), "updates")

        def body(outputs: list[tirx.Buffer], *given: tirx.Buffer) -> None:
            write_at_positions(outputs[0], *given, reduction=attrs.mode)

        return loops(context, [(shape, str(values[0].ty.dtype))], body, *values)


def write_at_positions(
    out: tirx.Buffer, data: tirx.Buffer, indices: tirx.Buffer, updates: tirx.Buffer, *, reduction: str, axis: int = 0
) -> None:
    """Write loops that make data with updates at positions, one after the other.

    Those of the data's dimension k are ``indices[k]``, or the k-th along another axis.
    """
    _copy(out, data)
    outer = len(indices.shape) - 1
    with grid(list(updates.shape)) as i:
        to = [
            from_either_end(indices[tuple([*i[:axis], const(k), *i[axis:outer]])], data.shape[k])
            for k in range(int(indices.shape[axis]))
        ]
        _write(out, [*to, *i[outer:]], updates[tuple(i)] if i else updates[()], reduction)


@attrs_node("relay.attrs.SparseToDenseAttrs")
class SparseToDenseAttrs(Attrs):
    """Attributes of sparse_to_dense."""

    output_shape: Dims


def _dense_type(shape: list[Dim], sparse_indices: Type, sparse_values: Type, default_value: Type) -> Type:
    where, values = require_integers(sparse_indices, "sparse_indices"), require_tensor(sparse_values, "sparse_values")
    require_scalar(default_value, "default_value")
    if len(where.shape) > 2 or len(values.shape) > 1:
        raise TypeCheckError("sparse_indices has at most 2 dimensions, sparse_values at most 1")
    depth = where.shape[1] if len(where.shape) == 2 else 1
    if dims.equal(depth, len(shape)) is False:
        raise TypeCheckError(f"sparse_indices hold {depth} positions each; the result has {len(shape)} dimensions")
    count = where.shape[0] if len(where.shape) else 1
    if len(values.shape) == 1 and dims.equal(count, values.shape[0]) is False:
        raise TypeCheckError(f"there are {count} sparse_indices and {values.shape[0]} sparse_values")
    return TensorType(shape, values.dtype)


def _dense(context: LowerContext, shape: list[Dim], *values: relax.Expr) -> relax.Expr:
    where, given = context.shape(values[0]), context.shape(values[1])
    if len(where) == 2:
        context.require_equal(where[1], len(shape), "sparse_to_dense: {actual} positions each, {expected} dimensions")
    if len(given) == 1:
        count = where[0] if where else 1
        context.require_equal(given[0], count, "sparse_to_dense: {actual} sparse_values, {expected} sparse_indices")

    def body(outputs: list[tirx.Buffer], indices: tirx.Buffer, given: tirx.Buffer, default: tirx.Buffer) -> None:
        (out,) = outputs
        with grid(list(out.shape)) as i:
            T.buffer_store(out, default[tuple([const(0)] * len(default.shape))].astype(str(given.dtype)), i)
        with grid(list(indices.shape)[:1]) as i:
            to = (
                [as_index(indices[tuple([*i, const(k)])]) for k in range(len(shape))]
                if len(indices.shape) == 2
                else None
            )
            _write(out, to or [as_index(indices[tuple(i)])], given[tuple(i[: len(given.shape)])])

    return loops(context, [(shape, str(values[1].ty.dtype))], body, *values)


@operator("sparse_to_dense", "sparse_indices", "sparse_values", "default_value", attrs=SparseToDenseAttrs, level=3)
class SparseToDense:
    """A tensor of default_value with sparse_values written at sparse_indices, one row each."""

    @staticmethod
    def build(
        sparse_indices: Expr, output_shape: Dims | Expr, sparse_values: Expr, default_value: float | Expr = 0
    ) -> Expr:
        default = default_value if isinstance(default_value, Expr) else relay_const(default_value)
        shape = constant_list(output_shape)
        if isinstance(shape, Expr):
            return entry("dyn.sparse_to_dense").call(sparse_indices, sparse_values, default, shape)
        return entry("sparse_to_dense").call(sparse_indices, sparse_values, default, output_shape=shape)

    @staticmethod
    def relation(attrs: SparseToDenseAttrs, *types: Type) -> Type:
        return _dense_type(list(attrs.output_shape), *types)

    @staticmethod
    def lower(context: LowerContext, attrs: SparseToDenseAttrs, *values: relax.Expr) -> relax.Expr:
        return _dense(context, context.dims(attrs.output_shape), *values)


@operator("dyn.sparse_to_dense", "sparse_indices", "sparse_values", "default_value", "output_shape", level=3)
class DynSparseToDense:
    """sparse_to_dense with a shape that is read at run time."""

    build = staticmethod(SparseToDense.build)

    @staticmethod
    def relation(attrs: None, indices: Type, values: Type, default: Type, shape: Type) -> Type:
        return _dense_type([AnyDim()] * shape_vector(shape, "output_shape"), indices, values, default)

    @staticmethod
    def lower(context: LowerContext, attrs: None, *values: relax.Expr) -> relax.Expr:
        *tensors, shape = values
        return _dense(context, read_shape(context, shape), *tensors)


@operator("invert_permutation", "data", level=1, pattern=OpPattern.OPAQUE)
class InvertPermutation:
    """The vector that undoes a permutation: ``out[data[i]] = i``."""

    @staticmethod
    def relation(attrs: None, data: Type) -> Type:
        if len(require_integers(data, "data").shape) != 1:
            raise TypeCheckError(f"data must be a vector, not {data}")
        return data

    @staticmethod
    def lower(context: LowerContext, attrs: None, data: relax.Expr) -> relax.Expr:
        dtype = str(data.ty.dtype)

        def body(outputs: list[tirx.Buffer], data: tirx.Buffer) -> None:
            (out,) = outputs
            _copy(out, data)
            with grid(list(data.shape)) as i:
                _write(out, [as_index(data[tuple(i)])], i[0].astype(dtype))

        return loops(context, [(context.shape(data), dtype)], body, data)
