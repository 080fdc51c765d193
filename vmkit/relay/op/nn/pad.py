"""Padding, by widths known at compile time or read at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Constant, Expr, const
from ...ir.types import Any as AnyDim
from ...ir.types import Dim, TensorType, Type
from ..attrs import Attrs, Nested, Str, attrs_node, field
from ..elementwise import require_tensor
from ..kernel import chosen
from ..registry import OpPattern, Parameters, entry, operator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

    # What reads the value of the padding in a kernel, given the tensors that the kernel has for it.
    Reader = Callable[[Sequence[te.Tensor]], Callable[[], tirx.Expr]]

__all__: list[str] = []

_MODES = ("constant", "edge", "reflect", "wrap")
_WIDEST = 1 << 60


@attrs_node("relay.attrs.PadAttrs")
class PadAttrs(Attrs):
    """Attributes of nn.pad and dyn.nn.pad."""

    pad_width: Nested = field(doc="Elements added before and behind each axis; taken away where negative.")
    pad_mode: Str = field("constant", doc="What is added: constant, edge, reflect or wrap.")


@attrs_node("relay.attrs.MirrorPadAttrs")
class MirrorPadAttrs(Attrs):
    """Attributes of nn.mirror_pad."""

    mode: Str = field("SYMMETRIC", doc="Whether the elements at the border are repeated, SYMMETRIC, or not, REFLECT.")
    pad_width: Nested = field(doc="Elements added before and behind each axis.")


def _require_mode(attrs: PadAttrs) -> None:
    if attrs.pad_mode not in _MODES:
        raise TypeCheckError(f"pad_mode must be one of {', '.join(_MODES)}, not {attrs.pad_mode!r}")


def _require_scalar(ty: Type) -> None:
    value = require_tensor(ty, "pad_value")
    if list(value.shape) not in ([], [1]):
        raise TypeCheckError(f"pad_value must be a scalar, or a vector of one element, not {value}")


def _widths(pad_width: Sequence[Sequence[Dim]], rank: int) -> list[tuple[Dim, Dim]]:
    """Return the (before, after) of each axis; TypeCheckError where they do not fit a tensor of `rank`."""
    pairs = [list(p) for p in pad_width]
    if len(pairs) != rank or any(len(p) != 2 for p in pairs):
        raise TypeCheckError(f"pad_width must hold one (before, after) for each of {rank} dimensions, not {pairs}")
    return [(dims.simplify(b), dims.simplify(a)) for b, a in pairs]


def _padded_type(pad_width: Sequence[Sequence[Dim]], data: Type) -> TensorType:
    source = require_tensor(data, "data")
    shape = []
    for axis, (size, (before, after)) in enumerate(
        zip(source.shape, _widths(pad_width, len(source.shape)), strict=True)
    ):
        padded = dims.add(size, dims.add(before, after))
        if isinstance(padded, int) and padded < 0:
            raise TypeCheckError(
                f"pad_width {before} and {after} take away more than the {size} elements of axis {axis}"
            )
        shape.append(padded)
    return TensorType(shape, source.dtype)


def _require_widths(context: LowerContext, mode: str, shape: Sequence[Dim], widths: Sequence[tuple[Dim, Dim]]) -> None:
    """Check at run time that an axis has the elements which the padding repeats, or takes away."""
    for axis, (size, (before, after)) in enumerate(zip(shape, widths, strict=True)):
        padded = dims.add(size, dims.add(before, after))
        _require_border(context, mode, size, padded)
        if dims.at_least(padded, 0) is None:
            context.require(
                dims.as_expr(padded) >= 0,
                f"{context.operator}: pad_width {before} and {after} take away more elements than axis {axis} has",
            )


def _padded(
    data: te.Tensor, shape: Sequence[Any], before: Sequence[Any], mode: str, value: Callable[[], tirx.Expr]
) -> te.Tensor:
    """Return the padded tensor; `value` is asked for the element outside of it in constant mode."""
    dtype = str(data.dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        at = [i - b for i, b in zip(index, before, strict=True)]
        touched = [p for p, b in enumerate(before) if not (_is_zero(b) and dims.equal(shape[p], data.shape[p]))]
        if mode == "constant":
            tests = [c for p in touched for c in (at[p] >= 0, at[p] < data.shape[p])]
            return tirx.if_then_else(tirx.all(*tests), data(*at), value().astype(dtype)) if tests else data(*at)
        mirrored = list(at)
        for p in touched:
            once = _mirrors_once(data.shape[p], before[p], shape[p])
            mirrored[p] = _MIRRORS[mode](at[p], data.shape[p], once)
        last = len(shape) - 1
        if last not in touched or not isinstance(before[last], int):
            return data(*mirrored)
        # Lines whose elements choose by their place are split there, so that what is between is copied by vectors.
        outside, inside = data(*mirrored), data(*mirrored[:-1], at[-1])
        end = dims.as_expr(dims.simplify(before[last] + data.shape[last]))
        inner = tirx.if_then_else(before[last] <= index[last], inside, outside) if before[last] > 0 else inside
        return tirx.if_then_else(end <= index[last], outside, inner)

    return te.compute([dims.as_expr(d) for d in shape], element, name="T_pad")


def _mirrors_once(size: Dim, before: Dim, whole: Dim) -> bool:
    """Say whether padding is certain not to reach further than the data."""
    size, whole = dims.simplify(size), dims.simplify(whole)
    return all(isinstance(v, int) for v in (size, before, whole)) and before < size > whole - size - before


def _require_border(context: LowerContext, mode: str, size: Dim, padded: Dim) -> None:
    """Check at run time that an axis which is padded with its own elements has any."""
    if mode.lower() == "constant" or dims.equal(size, padded):
        return
    message = f"{context.operator}: an axis of no elements cannot be padded with its own ({mode})"
    if not isinstance(size, int):
        context.require(tirx.any(size >= 1, dims.as_expr(padded) == 0), message)
    elif size == 0:
        context.require_equal(padded, 0, message)


def _is_zero(value: Dim) -> bool:
    return isinstance(value, int) and value == 0


def _edge(index: tirx.Expr, size: Dim, once: bool) -> tirx.Expr:
    del once
    return tirx.max(tirx.min(index, size - 1), 0)


def _reflect(index: tirx.Expr, size: Dim, once: bool) -> tirx.Expr:
    """Mirror at the border elements, which are not repeated; over and over where the padding is wider than the data."""
    period = 2 * size - 2
    index = tirx.Select(index < 0, -index, index) if once else tirx.floormod(index, tirx.max(period, 1))
    return tirx.Select(index >= size, period - index, index)


def _symmetric(index: tirx.Expr, size: Dim, once: bool) -> tirx.Expr:
    """Mirror at the borders: the border elements are repeated."""
    period = 2 * size - 1
    index = tirx.Select(index < 0, -index - 1, index) if once else tirx.floormod(index, tirx.max(period + 1, 1))
    return tirx.Select(index >= size, period - index, index)


def _wrap(index: tirx.Expr, size: Dim, once: bool) -> tirx.Expr:
    """Go on with the elements at the other border; over and over where the padding is wider than the data."""
    if not once:
        return tirx.floormod(index, tirx.max(size, 1))
    return tirx.Select(index < 0, index + size, tirx.Select(index >= size, index - size, index))


_MIRRORS = {"edge": _edge, "reflect": _reflect, "symmetric": _symmetric, "wrap": _wrap}


def _pad_value(value: relax.Expr) -> tuple[list[relax.Expr], Reader]:
    """Return the tensors to pass to the kernel, and what reads the value there: a constant becomes a literal."""
    if isinstance(value, tvm.ir.GenericConst):
        literal = np.asarray(value.value.numpy()).item()
        return [], lambda tensors: lambda: tirx.const(literal, str(value.ty.dtype))
    return [value], lambda tensors: lambda: tensors[0](*[0] * len(tensors[0].shape))


def _lowered(
    context: LowerContext,
    data: relax.Expr,
    pad_width: Sequence[Sequence[Dim]],
    mode: str,
    tensors: list[relax.Expr],
    reader: Reader,
) -> relax.Expr:
    """Return the padded tensor for widths that are attributes: numbers and symbols."""
    have = context.shape(data)
    pairs = (context.dims(pair) for pair in _widths(pad_width, len(have)))
    widths = [(before, after) for before, after in pairs]
    _require_widths(context, mode, have, widths)
    shape = [dims.add(d, dims.add(b, a)) for d, (b, a) in zip(have, widths, strict=True)]

    def compute(x: te.Tensor, value: list[te.Tensor], before: list[Any], whole: list[Any]) -> te.Tensor:
        return _padded(x, whole, [dims.simplify(b) for b in before], mode, reader(value))

    return context.te(compute, data, tensors, [dims.as_expr(b) for b, _ in widths], [dims.as_expr(d) for d in shape])


@operator(
    "nn.pad",
    "data",
    "pad_value",
    attrs=PadAttrs,
    level=2,
    pattern=OpPattern.INJECTIVE,
    parameters=Parameters("data pad_width pad_value pad_mode", given={"pad_value": 0}),
    mixed="follow",
    layout="pad",
)
class Pad:
    """The data with elements added on both sides of each axis.

    pad_mode is "constant" (pad_value), "edge" (the border element), "reflect" (mirrored at the border element) or
    "wrap" (the elements at the other border).
    Negative widths take elements away. A pad_width that is an expression is read at run time.
    """

    @staticmethod
    def make(data: Expr, pad_width: Any, pad_value: Any, pad_mode: str) -> Expr:
        if isinstance(pad_width, Constant):
            pad_width = pad_width.data.numpy().tolist()
        if not isinstance(pad_value, Expr):
            pad_value = const(pad_value)
        if isinstance(pad_width, Expr):
            return entry("dyn.nn.pad").call(data, pad_width, pad_value, pad_width=[], pad_mode=pad_mode)
        return entry("nn.pad").call(data, pad_value, pad_width=pad_width, pad_mode=pad_mode)

    @staticmethod
    def relation(attrs: PadAttrs, data: Type, pad_value: Type) -> Type:
        _require_mode(attrs)
        _require_scalar(pad_value)
        return _padded_type(attrs.pad_width, data)

    @staticmethod
    def lower(context: LowerContext, attrs: PadAttrs, data: relax.Expr, pad_value: relax.Expr) -> relax.Expr:
        return _lowered(context, data, attrs.pad_width, attrs.pad_mode, *_pad_value(pad_value))

    @staticmethod
    def on_arrays(attrs: PadAttrs, data: np.ndarray, pad_value: np.ndarray) -> np.ndarray | None:
        widths = [each for pair in attrs.pad_width for each in pair]
        is_larger = all(isinstance(each, int) and each >= 0 for each in widths)
        if attrs.pad_mode != "constant" or not is_larger or pad_value != pad_value.astype(data.dtype):
            return None
        return np.pad(data, attrs.pad_width, constant_values=pad_value.astype(data.dtype))


@operator("dyn.nn.pad", "data", "pad_width", "pad_value", attrs=PadAttrs, level=2, pattern=OpPattern.INJECTIVE)
class DynPad:
    """The data with elements added on both sides of each axis, by widths read at run time; negative ones crop."""

    build = staticmethod(entry("nn.pad").builder)

    @staticmethod
    def relation(attrs: PadAttrs, data: Type, pad_width: Type, pad_value: Type) -> Type:
        _require_mode(attrs)
        _require_scalar(pad_value)
        source, widths = require_tensor(data, "data"), require_tensor(pad_width, "pad_width")
        rank = len(source.shape)
        wanted = len(widths.shape) == 2 and dims.equal(widths.shape[0], rank) is not False
        if not wanted or dims.equal(widths.shape[1], 2) is False or not widths.dtype.startswith(("int", "uint")):
            raise TypeCheckError(f"pad_width must be an integer tensor of shape ({rank}, 2), not {widths}")
        return TensorType([AnyDim()] * rank, source.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: PadAttrs, data: relax.Expr, pad_width: relax.Expr, pad_value: relax.Expr
    ) -> relax.Expr:
        have = context.shape(data)
        for actual, expected in zip(context.shape(pad_width), (len(have), 2), strict=True):
            context.require_equal(
                actual,
                expected,
                "dyn.nn.pad: pad_width must hold two values for each dimension: {actual} is not {expected}",
            )

        def sizes(widths: te.Tensor, shape: list[Any]) -> te.Tensor:
            def element(axis: tirx.Expr) -> tirx.Expr:
                total = _width(widths(axis, 0)) + _width(widths(axis, 1))
                return tirx.max(chosen(axis, shape) + total, 0)

            return te.compute((len(shape),), element, name="padded_shape")

        exprs = [dims.as_expr(d) for d in have]
        shape = context.read_dims(context.te(sizes, pad_width, exprs, name="padded_shape", pattern=OpPattern.OPAQUE))
        for size, padded in zip(have, shape, strict=True):
            _require_border(context, attrs.pad_mode, size, padded)
        tensors, reader = _pad_value(pad_value)

        def compute(x: te.Tensor, widths: te.Tensor, value: list[te.Tensor], whole: list[Any]) -> te.Tensor:
            before = [widths(i, 0).astype("int64") for i in range(len(have))]
            return _padded(x, whole, before, attrs.pad_mode, reader(value))

        return context.te(compute, data, pad_width, tensors, list(shape), pattern=OpPattern.OPAQUE)


def _width(value: tirx.Expr) -> tirx.Expr:
    """Return a width, limited to what no tensor has, so that a sum of a few does not leave 64 bits."""
    width, most = value.astype("int64"), tirx.const(_WIDEST, "int64")
    return tirx.max(tirx.min(width, most), -most)


@operator("nn.mirror_pad", "data", attrs=MirrorPadAttrs, level=2, pattern=OpPattern.INJECTIVE)
class MirrorPad:
    """The data mirrored at its borders; mode SYMMETRIC repeats the border elements, REFLECT does not."""

    @staticmethod
    def relation(attrs: MirrorPadAttrs, data: Type) -> Type:
        if attrs.mode not in ("SYMMETRIC", "REFLECT"):
            raise TypeCheckError(f"mode must be SYMMETRIC or REFLECT, not {attrs.mode!r}")
        return _padded_type(attrs.pad_width, data)

    @staticmethod
    def lower(context: LowerContext, attrs: MirrorPadAttrs, data: relax.Expr) -> relax.Expr:
        return _lowered(context, data, attrs.pad_width, attrs.mode.lower(), [], lambda tensors: lambda: tirx.const(0))
