"""Products of integers of 8 bits with constant weights go to kernels of the target's instructions for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from .._dataclasses import dataclass
from ..kernels.packed_product.depthwise import depthwise_of
from ..kernels.packed_product.encoding import Encoding
from ..kernels.packed_product.integers import integers_of
from ..kernels.packed_product.pairs import pairs_of
from ..kernels.packed_product.weight import PackedWeight
from ..relay.ir import Call, Constant, Expr, Function, Op, RelayExpr, const, dims, is_call
from ..relay.op.pointwise import is_move
from ..relay.op.registry import build
from ..relay.op.saturation import integer_range
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..relay.transform.share_constants import SharedConstants
from ..target.integer_unit import VECTORS, IntegerUnit
from .constant_products import ConstantProduct, constant_product
from .weight_offsets import offset_weight, window_sums

__all__ = ["Difference", "IntegerProducts", "difference_of", "is_worth_it", "known_integers", "moved", "stored_as"]

# Of so many groups one may be there twice: sums of pairs take four fifths of the time of products of int16.
_EXTRAS = 5

# Products of fewer are computed once more sooner than outputs are taken from among others.
_LONG = 64


@relay_pass(opt_level=1)
def IntegerProducts(unit: IntegerUnit = VECTORS) -> ModuleTransform:
    """Return the pass that computes int32 sums of products of 8-bit integers by a target's instructions.

    The weight is a constant, and the data are 8-bit integers, less a zero point or not. With ``x`` shifted to uint8,

        sum((x - zero) * w) = sum(x * w) - zero * sum(w)

    where the last sum is a constant of each output. Weights that are too large for int8, but near each other, are a
    number more than int8, and so many times the sum of the data is added. Results are those of int32, whatever the
    values.

    Parameters
    ----------
    unit : IntegerUnit
        The instructions.
    """

    def on_function(function: Function) -> Function:
        shared = SharedConstants()
        return rewrite_typed(function, lambda node: _chosen(node, unit, shared))

    return per_function(on_function)


@dataclass(frozen=True)
class Difference:
    """A tensor of 8-bit integers less one number.

    Attributes
    ----------
    integers : Expr
        The integers.
    zero : Expr or None
        The number, of the data type of the difference; None for 0.
    """

    integers: Expr
    zero: Expr | None


def difference_of(value: Expr) -> Difference | None:
    """Return a typed expression as a difference of 8-bit integers and one number, None where it is none."""
    if not (isinstance(value, Call) and isinstance(value.op, Op)):
        return None
    if is_move(value):
        inner = difference_of(value.args[0])
        return None if inner is None else Difference(moved(value, inner.integers), inner.zero)
    if value.op.name == "subtract":
        zero, inner = value.args[1], difference_of(value.args[0])
        if inner is None or inner.zero is not None or prod(_sizes(zero)) != 1:
            return None
        if len(type_of(zero).shape) > len(type_of(inner.integers).shape):
            return None
        return Difference(inner.integers, build("reshape", zero, newshape=[]) if len(_sizes(zero)) else zero)
    if value.op.name == "cast" and type_of(value.args[0]).dtype in ("int8", "uint8"):
        return Difference(value.args[0], None) if _holds_differences(type_of(value).dtype) else None
    return None


def known_integers(value: Expr) -> np.ndarray[Any, Any] | None:
    """Return the numbers of an expression of integer constants, cast, subtracted and moved; None for any other.

    Constants that would grow much when they are folded are still such expressions. The array may be of a narrower type
    than the expression.
    """
    if not type_of(value).dtype.startswith(("int", "uint")):
        return None
    if isinstance(value, Constant):
        known: np.ndarray[Any, Any] = value.data.numpy()
        return known
    if not (isinstance(value, Call) and isinstance(value.op, Op)):
        return None
    parts = [known_integers(arg) for arg in value.args]
    arrays = [part for part in parts if part is not None]
    if len(arrays) != len(parts) or not arrays:
        return None
    match value.op.name:
        case "cast":
            return arrays[0].astype(_holding(arrays[0].dtype, type_of(value).dtype), copy=False)
        case "subtract":
            return arrays[0] - arrays[1]
        case "transpose":
            axes = [int(a) for a in value.attrs.axes or ()]
            return arrays[0].transpose(axes or None)
        case "layout_transform" if (value.attrs.src_layout + value.attrs.dst_layout).isalpha():
            source, wanted = value.attrs.src_layout, value.attrs.dst_layout
            if sorted(source) == sorted(wanted) and source.isupper() and wanted.isupper():
                return arrays[0].transpose([source.index(axis) for axis in wanted])
    return None


def _holding(given: np.dtype[Any], wanted: str) -> str:
    """Return a type in which what is cast from one to another, and differences of it, are the same numbers.

    Weights are many, and two bytes hold what is made of integers of 8 bits.
    """
    return "int16" if given.itemsize == 1 and given.kind in "iu" and wanted in ("int32", "int64") else wanted


def _holds_differences(dtype: str) -> bool:
    return dtype in ("int16", "int32", "int64", "float32", "float64")


def moved(call: Call, integers: Expr) -> Call:
    """Return other elements moved as those of a call are."""
    moved = Call(call.op, [integers, *call.args[1:]], call.attrs, span=call.span)
    type_of(moved)
    return moved


def _sizes(value: Expr) -> list[int]:
    """Return a tensor's sizes, those that are not known as 0."""
    return [d if isinstance(d, int) else 0 for d in type_of(value).shape]


def _chosen(node: RelayExpr, unit: IntegerUnit, shared: SharedConstants) -> RelayExpr:
    """Return a product by the unit's instructions, or a node as it is where that is not to be gained."""
    product = constant_product(node, known_integers, takes_depthwise=True)
    if product is None or product.call.checked_type.dtype != "int32":
        return node
    call, weight = product.call, product.weight
    data = difference_of(call.args[0])
    if data is None or dims.equal(type_of(call.args[0]).shape[-1], weight.shape[-1] * product.groups) is not True:
        return node
    parts = _parts(weight, product.groups)
    if not is_worth_it(product.packed(_encoding(product, weight, unit)), unit, len(parts)):
        return node
    if any(product.window.get("padding", ())) and not _is_of_range(data.zero, type_of(data.integers).dtype):
        return node  # no integer of the data's type stands for 0 around it
    return _product(product, data, parts, unit, shared)


def _product(
    product: ConstantProduct, data: Difference, parts: Sequence[_Part], unit: IntegerUnit, shared: SharedConstants
) -> Expr:
    """Return a product of integers less a number by the unit's instructions."""
    x, zero = stored_as(data, "uint8")
    filler = const(np.uint8(0)) if zero is None else build("cast", zero, dtype="uint8")

    def multiplied(part: np.ndarray[Any, Any]) -> Expr:
        return product.multiplied(_encoding_of(product, part, unit), shared, x, filler, weight=part)

    terms: list[Expr] = []
    sums = np.zeros(len(product.weight), "int64")
    for part in parts:
        sums += part.weight.sum(axis=(1, 2, 3), dtype="int64")
        if part.offset is None:
            terms.append(multiplied(part.weight))
        elif _has_room(part.weight, _encoding_of(product, part.weight, unit)):
            outputs, totals = _with_totals(multiplied, part.weight)
            terms += [outputs, build("multiply", totals, const(part.offset))]
            sums += part.offset * prod(part.weight.shape[1:])  # these are of the data with their zero point
        else:
            totals = window_sums(product.call, x, zero)
            terms += [multiplied(part.weight), build("multiply", totals, const(part.offset))]
    result = reduce(lambda total, more: build("add", total, more), terms)
    if zero is not None and sums.any():
        result = build("subtract", result, build("multiply", zero, const(sums.astype("int32"))))
    return result


def _has_room(weight: np.ndarray[Any, Any], encoding: Encoding) -> bool:
    """Say whether the last block of outputs has a place for the sums of what many inputs are multiplied by."""
    return len(weight) % encoding.width != 0 and prod(weight.shape[1:]) >= _LONG


def _with_totals(multiplied: Callable[[np.ndarray[Any, Any]], Expr], weight: np.ndarray[Any, Any]) -> tuple[Expr, Expr]:
    """Return a product, and the sums of the data over each window, which are one output more of it."""
    units = len(weight)
    both = multiplied(np.concatenate([weight, np.ones_like(weight[:1])]))
    outputs = build("strided_slice", both, [0], [units], [1], axes=[-1])
    return outputs, build("strided_slice", both, [units], [units + 1], [1], axes=[-1])


def _encoding(product: ConstantProduct, weight: np.ndarray[Any, Any], unit: IntegerUnit) -> Encoding:
    return integers_of(unit, len(weight)) if product.groups == 1 else depthwise_of(unit)


def _encoding_of(product: ConstantProduct, weight: np.ndarray[Any, Any], unit: IntegerUnit) -> Encoding:
    """Return how a weight is multiplied soonest: pairs of products are added where few groups would be there twice."""
    in_pairs = pairs_of(unit) if product.groups == 1 else None
    if in_pairs is not None:
        packed = product.packed(in_pairs, weight)
        if packed.extras * _EXTRAS <= packed.groups:
            return in_pairs
    return _encoding(product, weight, unit)


def is_worth_it(packed: PackedWeight, unit: IntegerUnit, parts: int) -> bool:
    """Say whether the unit computes an output position sooner than float32 products, where those are exact, would."""
    if packed.encoding.is_depthwise:
        # A column of the window is one product, of as many rows as a group has.
        return packed.product.kernel[0] > 1
    # Those are of whole vectors as well, and are written and read as float32 before.
    units = -(-packed.product.units // unit.lanes) * unit.lanes
    products = prod(packed.product.kernel) * packed.product.channels * units
    faster = 12 if unit.has_tiles else 4 if unit.group == 4 else 1.1 if unit.registers > 16 else 1.6
    return packed.products * parts <= products * faster


@dataclass(frozen=True)
class _Part:
    """A weight of int8, and what is added to all the numbers of an output of it, None for nothing."""

    weight: np.ndarray[Any, Any]
    offset: np.ndarray[Any, Any] | None = None


def _parts(weight: np.ndarray[Any, Any], groups: int) -> list[_Part]:
    """Return integers as the sum of some of int8: one is enough unless those of an output are far apart.

    Integers of 8 bits less a zero point are not; the data are summed once for all outputs there, which is less than
    another product is unless each channel has its own.
    """
    is_narrow = weight.max(initial=0) <= 127 and weight.min(initial=0) >= -128
    moved = None if is_narrow or groups > 1 else offset_weight(weight)
    if moved is not None:
        return [_Part(*moved)]
    parts: list[_Part] = []
    left = weight if weight.dtype.kind == "i" else weight.astype("int64")
    while left.max(initial=0) > 127 or left.min(initial=0) < -128:
        parts.append(_Part(np.clip(left, -128, 127).astype("int8")))
        left = left - parts[-1].weight
    return [*parts, _Part(left.astype("int8"))]


def _is_of_range(zero: Expr | None, dtype: str) -> bool:
    """Say whether a zero point is certainly a number of a data type."""
    while zero is not None and is_call(zero, "cast", "reshape"):
        if type_of(zero).dtype == dtype:
            return True
        zero = zero.args[0]
    if isinstance(zero, Constant):
        low, high = integer_range(dtype)
        return low <= int(zero.data.numpy().reshape(())) <= high
    return zero is None or type_of(zero).dtype == dtype


def stored_as(data: Difference, dtype: str) -> tuple[Expr, Expr | None]:
    """Return integers as uint8 or int8, and the int32 to be subtracted from them, None for 0."""
    zero = None if data.zero is None else build("cast", data.zero, dtype="int32")
    if isinstance(data.zero, Constant):
        known = data.zero.data.numpy().astype("int32").reshape(())
        zero = const(known) if known.any() else None
    if type_of(data.integers).dtype == dtype:
        return data.integers, zero
    by = 128 if dtype == "uint8" else -128
    wide = build("add", build("cast", data.integers, dtype="int16"), const(np.int16(by)))
    shift = const(np.int32(by))
    if zero is None:
        return build("cast", wide, dtype=dtype), shift
    if isinstance(zero, Constant):
        shifted = zero.data.numpy() + np.int32(by)
        return build("cast", wide, dtype=dtype), const(shifted) if shifted.any() else None
    return build("cast", wide, dtype=dtype), build("add", zero, shift)
