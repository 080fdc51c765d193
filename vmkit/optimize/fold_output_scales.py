"""The scale that a result is quantised with goes into the factors before it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..relay.ir import (
    Call,
    Constant,
    Expr,
    Op,
    RelayExpr,
    const,
    is_call,
)
from ..relay.op.pointwise import is_move
from ..relay.op.registry import build
from ..relay.op.saturation import integer_range
from ..relay.transform.known_type import rewrite_used, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .constants import number_of

__all__ = ["FoldOutputScales"]

_QUANTIZED, _ROUNDED = "contrib_quantized", "contrib_rounded"
_INTEGERS = ("int8", "uint8", "int16", "uint16")
_LIMITS = ("nn.relu", "clip", "at_least", "at_most")
_BOTH = ("add", "subtract", "maximum", "minimum")
# What is as far from the ends of float32 as this is multiplied and divided there without a loss.
_LEAST, _MOST = 1e-30, 1e30

Uses = Mapping[RelayExpr, int]


@relay_pass(opt_level=1)
def FoldOutputScales() -> ModuleTransform:
    """Return the pass that divides factors by the scale of what is quantised behind them.

    With constant scales,

        (x * factor + bias) / scale = x * (factor / scale) + bias / scale

    and so through sums, limits and moves of such numbers, which is rounded once less. A division takes as long as ten
    multiplications. Limits that are no narrower than the data type's are left out, and a number that was quantised and
    is made float32 again at once never becomes an integer.
    """
    return per_function(lambda function: rewrite_used(function, _folded))


def _folded(node: RelayExpr, uses: Uses) -> RelayExpr:
    if is_call(node, _QUANTIZED):
        return _quantized(node, uses)
    return _rounded(node, uses) if is_call(node, "cast") else node


def _quantized(node: Call, uses: Uses) -> RelayExpr:
    """Return a number quantised without a division, or as it is where that cannot be."""
    ratio, zero = node.args
    if type_of(node).dtype not in _INTEGERS or not is_call(ratio, "divide") or uses.get(ratio) != 1:
        return node
    scale = number_of(ratio.args[1])
    if scale is None or not _LEAST < scale < _MOST:
        return node
    number = _divided(ratio.args[0], np.float32(scale), uses)
    if number is None:
        return node
    return Call(node.op, [_unlimited(number, zero, type_of(node).dtype), zero], node.attrs, span=node.span)


def _divided(value: Expr, scale: np.float32, uses: Uses) -> Expr | None:
    """Return a float32 divided by a scale without a division; None where a part of it is not multiplied already."""
    if isinstance(value, Constant):
        return _constant(value, scale)
    if not (isinstance(value, Call) and isinstance(value.op, Op)) or uses.get(value) != 1:
        return None
    if type_of(value).dtype != "float32":
        return None
    name = value.op.name
    if name == "multiply":
        return _with_factor(value, scale)
    taken = 2 if name in (*_BOTH, "nn.bias_add") else 1
    if taken == 1 and name not in _LIMITS and not is_move(value):
        return None
    parts = [_divided(arg, scale, uses) for arg in value.args[:taken]]
    if any(part is None for part in parts):
        return None
    args = [*parts, *value.args[taken:]]
    limits = {field: float(np.float32(getattr(value.attrs, field)) / scale) for field in _limits_of(value)}
    if limits:
        return build(name, *args, **limits)
    return Call(value.op, args, value.attrs, span=value.span)


def _limits_of(value: Call) -> tuple[str, ...]:
    """Return which attributes of a call are limits of its results."""
    return {"clip": ("a_min", "a_max"), "at_least": ("limit",), "at_most": ("limit",)}.get(value.op.name, ())


def _with_factor(product: Call, scale: np.float32) -> Expr | None:
    """Return a product with its constant factor divided by a scale, None where none of the factors is constant."""
    for at in (1, 0):
        factor = product.args[at]
        made = _constant(factor, scale) if isinstance(factor, Constant) else None
        if made is not None:
            args = [made if i == at else arg for i, arg in enumerate(product.args)]
            return Call(product.op, args, product.attrs, span=product.span)
    return None


def _constant(value: Constant, scale: np.float32) -> Constant | None:
    """Return a constant divided by a scale, None where it or the quotient comes near the ends of float32."""
    known = value.data.numpy()
    with np.errstate(over="ignore", under="ignore"):
        quotient = known / scale
    sizes = np.abs(np.concatenate([known.reshape(-1), quotient.reshape(-1)]))
    is_within = ((sizes > _LEAST) & (sizes < _MOST)) | (sizes == 0)
    return const(quotient.astype("float32")) if is_within.all() else None


def _unlimited(number: Expr, zero: Expr, dtype: str) -> Expr:
    """Return a number without limits that are no narrower than those that a data type has about its zero point."""
    offset = number_of(zero)
    if offset is None or not _is_of_integers(number):
        return number  # what is no number has another result with a limit than without
    least, most = (bound - int(offset) for bound in integer_range(dtype))
    while is_call(number, *_LIMITS):
        low, high = _range_of(number)
        # Rounding comes after the limits, and what is rounded is limited again.
        if np.rint(np.float32(low)) > least or np.rint(np.float32(high)) < most:
            break
        number = number.args[0]
    return number


def _range_of(limited: Call) -> tuple[float, float]:
    match limited.op.name:
        case "nn.relu":
            return 0.0, np.inf
        case "clip":
            return limited.attrs.a_min, limited.attrs.a_max
        case "at_least":
            return limited.attrs.limit, np.inf
    return -np.inf, limited.attrs.limit


def _is_of_integers(value: Expr) -> bool:
    """Say whether a float32 is computed from integers and constants alone, so that it certainly is a number."""
    if isinstance(value, Constant):
        return bool(np.isfinite(value.data.numpy()).all())
    if is_call(value, _ROUNDED):
        return True
    if is_call(value, "cast"):
        return type_of(value.args[0]).dtype.startswith(("int", "uint"))
    if is_call(value, *_BOTH, "multiply", "nn.bias_add"):
        return all(_is_of_integers(arg) for arg in value.args)
    if is_call(value, *_LIMITS) or is_move(value):
        return _is_of_integers(value.args[0])
    return False


def _rounded(node: Call, uses: Uses) -> RelayExpr:
    """Return a number that is quantised and made float32 again as one that is only rounded and limited."""
    difference = node.args[0]
    if type_of(node).dtype != "float32" or type_of(difference).dtype != "int32" or uses.get(difference) != 1:
        return node
    wide, centre = difference, 0.0
    if is_call(difference, "subtract"):
        wide, known = difference.args[0], number_of(difference.args[1])
        if known is None:
            return node
        centre = known
    if not is_call(wide, "cast") or uses.get(wide) != 1:
        return node
    integers = wide.args[0]
    if not is_call(integers, _QUANTIZED) or uses.get(integers) != 1:
        return node
    dtype, zero = type_of(integers).dtype, number_of(integers.args[1])
    if dtype not in _INTEGERS or zero != centre:
        return node
    return build(_ROUNDED, *integers.args, dtype=dtype)
