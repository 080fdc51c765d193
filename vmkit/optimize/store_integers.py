"""Numbers that are quantised and made float32 again lie in memory as the integers that they were between."""

from __future__ import annotations

from collections.abc import Container, Mapping

from ..relay.ir import (
    Call,
    Constant,
    Expr,
    Function,
    Op,
    RelayExpr,
    const,
    is_call,
)
from ..relay.op.pointwise import MAX_POOLS
from ..relay.op.registry import OpPattern, build, entry
from ..relay.transform.known_type import rewrite_used, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .constants import number_of

__all__ = ["StoreIntegers"]

_ROUNDED, _QUANTIZED = "contrib_rounded", "contrib_quantized"
# Integers of 16 bits times such a number, and less than one part in a million off, are these integers again.
_LEAST, _MOST = 1e-30, 1e30
_FUSED = (OpPattern.ELEMWISE, OpPattern.BROADCAST)

Uses = Mapping[RelayExpr, int]


@relay_pass(opt_level=1)
def StoreIntegers() -> ModuleTransform:
    """Return the pass that has rounded numbers stored as integers where no kernel computes with them at once.

    A kernel computes one convolution or product with what follows. So of a sum of two, one is stored; if that one is
    rounded to 8 bits, the integers are, which takes a fourth of the memory. The largest number of a window is the
    largest integer's, and stays as it is where it is quantised as before.
    """
    return per_function(_stored)


def _stored(function: Function) -> Function:
    products: set[RelayExpr] = set()  # what the kernel of a product, or of what is like one, computes

    def rule(node: RelayExpr, uses: Uses) -> RelayExpr:
        made = _chosen(node, uses, products)
        if _is_of_product(made, uses, products):
            products.add(made)
        return made

    return rewrite_used(function, rule)


def _chosen(node: RelayExpr, uses: Uses, products: Container[RelayExpr]) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return node
    if node.op.name in MAX_POOLS:
        return _pooled(node, uses)
    if node.op.name == _QUANTIZED:
        return _quantized_again(node)
    if len(node.args) == 2 and entry(node.op).pattern == OpPattern.BROADCAST:
        return _with_one_stored(node, uses, products)
    return node


def _is_of_product(node: RelayExpr, uses: Uses, products: Container[RelayExpr]) -> bool:
    """Say whether a node is a product, or computed in the kernel of one."""
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return False
    pattern = entry(node.op).pattern
    if pattern == OpPattern.OUT_ELEMWISE_FUSABLE:
        return True
    return pattern in _FUSED and any(arg in products and uses.get(arg) == 1 for arg in node.args)


def _with_one_stored(node: Call, uses: Uses, products: Container[RelayExpr]) -> RelayExpr:
    """Return an operation of two numbers, one of which is stored as integers if both come from products."""
    if not all(arg in products and uses.get(arg) == 1 for arg in node.args):
        return node
    for at, arg in enumerate(node.args):
        stored = _with_stored(arg, uses)
        if stored is not None:
            args = [stored if i == at else other for i, other in enumerate(node.args)]
            return Call(node.op, args, node.attrs, span=node.span)
    return node


def _with_stored(value: Expr, uses: Uses) -> Expr | None:
    """Return a number that is rounded, and then computed with constants at most, with its integers stored."""
    if not (isinstance(value, Call) and isinstance(value.op, Op)) or uses.get(value) != 1:
        return None
    if is_call(value, _ROUNDED):
        integers = build("annotation.stop_fusion", _integers(value))
        return _numbers(integers, value.args[1])
    if entry(value.op).pattern not in _FUSED or not all(isinstance(arg, Constant) for arg in value.args[1:]):
        return None
    inner = _with_stored(value.args[0], uses)
    return None if inner is None else Call(value.op, [inner, *value.args[1:]], value.attrs, span=value.span)


def _integers(rounded: Call) -> Call:
    return build(_QUANTIZED, *rounded.args, dtype=rounded.attrs.dtype)


def _numbers(integers: Expr, zero: Expr) -> Expr:
    """Return integers less their zero point as float32."""
    known = number_of(zero)
    wide = build("cast", integers, dtype="int32")
    if known != 0:
        offset = build("cast", zero, dtype="int32") if known is None else const(int(known), "int32")
        wide = build("subtract", wide, offset)
    return build("cast", wide, dtype="float32")


def _pooled(pool: Call, uses: Uses) -> RelayExpr:
    """Return the maxima of rounded numbers times a scale as those of the integers, or a pool as it is."""
    scaled = pool.args[0]
    if not is_call(scaled, "multiply") or uses.get(scaled) != 1:
        return pool
    rounded, scale = scaled.args[0], number_of(scaled.args[1])
    if not is_call(rounded, _ROUNDED) or uses.get(rounded) != 1 or scale is None or scale <= 0:
        return pool
    if not _has_elements_everywhere(pool):
        return pool
    maxima = Call(pool.op, [_integers(rounded)], pool.attrs, span=pool.span)
    return build("multiply", _numbers(maxima, rounded.args[1]), scaled.args[1])


def _has_elements_everywhere(pool: Call) -> bool:
    """Say whether every window certainly has an element, for integers have no number below all others."""
    if pool.attrs.ceil_mode:
        return False
    sizes, padding = [int(k) for k in pool.attrs.pool_size], [int(p) for p in pool.attrs.padding]
    dilation = [int(d) for d in pool.attrs.dilation]
    return all(d == 1 for d in dilation) and max(padding, default=0) < min(sizes)


def _quantized_again(node: Call) -> RelayExpr:
    """Return integers that are dequantised and quantised by the same scale and zero point as they are."""
    ratio, zero = node.args
    if not is_call(ratio, "divide") or not is_call(ratio.args[0], "multiply"):
        return node
    numbers, scale, again = ratio.args[0].args[0], number_of(ratio.args[0].args[1]), number_of(ratio.args[1])
    if scale is None or scale != again or not _LEAST < scale < _MOST or not is_call(numbers, "cast"):
        return node
    wide = numbers.args[0]
    offset: float | None = 0.0
    if is_call(wide, "subtract"):
        wide, offset = wide.args[0], number_of(wide.args[1])
    if not is_call(wide, "cast") or type_of(wide).dtype != "int32" or offset is None or offset != number_of(zero):
        return node
    integers = wide.args[0]
    return integers if type_of(integers).dtype == type_of(node).dtype else node
