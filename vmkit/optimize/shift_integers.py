"""Integers of 8 bits are quantised to the type that products take."""

from __future__ import annotations

import numpy as np

from ..relay.ir import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Op,
    RelayExpr,
    Var,
    children,
    const,
    is_call,
    post_order,
    rewrite,
)
from ..relay.op.pointwise import MAX_POOLS, is_move
from ..relay.op.registry import build
from ..relay.transform.known_type import type_of, with_type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .constants import number_of

__all__ = ["ShiftIntegers"]

_QUANTIZED, _SHIFT = "contrib_quantized", 128
_WIDER = ("int16", "int32", "int64")

Users = dict[RelayExpr, list[RelayExpr]]


@relay_pass(opt_level=1)
def ShiftIntegers() -> ModuleTransform:
    """Return the pass that quantises to uint8 what products of integers take as such, and others as int8.

    Instructions multiply uint8 by int8, so that products shift data of int8 by 128. Where that is done to what was
    quantised to int8, quantising to uint8 with a zero point that is 128 more gives it at once; those who read the
    int8 otherwise widen it, and subtract 128. They would have to be written twice.
    """
    return per_function(_shifted)


def _shifted(function: Function) -> Function:
    users: Users = {}
    for node in post_order(function):
        for part in children(node):
            users.setdefault(part, []).append(node)
    shifted: set[RelayExpr] = set()  # what stands for int8, as uint8
    widened: dict[RelayExpr, Expr] = {}  # such integers as a wider type: themselves
    differences: dict[RelayExpr, Expr] = {}  # the same less 128: widened

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(node, Op | GlobalVar | Constructor | Constant | Var):
            return node
        first = node.args[0] if isinstance(node, Call) and node.args else None
        if is_call(node, _QUANTIZED) and _is_shifted(original, users):
            made: RelayExpr = _to_unsigned(node)
            shifted.add(made)
        elif first in shifted and is_call(node, "cast") and type_of(original.args[0]).dtype == "int8":
            # What a product takes as uint8 is the same expression by now, and reads as it is.
            dtype = type_of(original).dtype
            wide = build("cast", first, dtype=dtype)
            made = build("subtract", wide, const(_SHIFT, dtype))
            widened[wide], differences[made] = first, wide
        elif first in shifted and _is_choice(node):
            made = Call(node.op, node.args, node.attrs, span=node.span)
            shifted.add(made)
        elif first in differences and is_call(node, "add", "subtract"):
            made = with_type_of(_of_difference(node, differences[first]), original)
        elif first in widened and is_call(node, "cast") and type_of(original).dtype == "uint8":
            made = widened[first]
        else:
            made = with_type_of(node, original)
        type_of(made)
        return made

    return rewrite(function, {}, replace)


def _is_shifted(integers: RelayExpr, users: Users) -> bool:
    """Say whether integers are int8 that some product takes as uint8, and all else widens."""
    if type_of(integers).dtype != "int8" or number_of(integers.args[1]) is None:
        return False
    readers = _readers(integers, users)
    return readers is not None and any(_is_shift(reader, users) for reader in readers)


def _readers(integers: RelayExpr, users: Users) -> list[RelayExpr] | None:
    """Return what widens integers, moved or as the largest of some or not; None where they go elsewhere."""
    found: list[RelayExpr] = []
    for user in users.get(integers, []):
        if is_call(user, "cast") and type_of(user).dtype in _WIDER:
            found.append(user)
        elif _is_choice(user):
            inner = _readers(user, users)
            if inner is None:
                return None
            found += inner
        else:
            return None
    return found or None


def _is_choice(node: RelayExpr) -> bool:
    """Say whether a node only has elements of its one operand."""
    return (is_move(node) or is_call(node, *MAX_POOLS)) and len(node.args) == 1


def _is_shift(wide: RelayExpr, users: Users) -> bool:
    """Say whether int8 that was widened is shifted to uint8."""
    return any(
        is_call(user, "add")
        and number_of(user.args[1]) == _SHIFT
        and any(is_call(last, "cast") and type_of(last).dtype == "uint8" for last in users.get(user, []))
        for user in users.get(wide, [])
    )


def _to_unsigned(quantized: Call) -> Call:
    number, zero = quantized.args
    offset = const(np.uint8(int(number_of(zero) or 0) + _SHIFT))
    return build(_QUANTIZED, number, offset, dtype="uint8")


def _of_difference(node: Call, wide: Expr) -> RelayExpr:
    """Return a sum or difference of integers less 128 and a constant, of which 128 is made a part."""
    known = number_of(node.args[1])
    if known is None or type_of(node.args[1]).shape:
        return node
    total = (int(known) if node.op.name == "add" else -int(known)) - _SHIFT
    if total == 0:
        return wide
    dtype = type_of(wide).dtype
    limits = np.iinfo(dtype)
    return build("add", wide, const(total, dtype)) if limits.min <= total <= limits.max else node
