"""``tvm.ir.structural_equal`` and ``structural_hash``: as Relay's, they look at type arguments, too.

The instantiations of a polymorphic function's type parameters follow from the arguments of a call, so that here they
are no part of what a program is. Relay compared them, for calls of anything but operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi

from vmkit import relay
from vmkit.relay.ir import Call, Expr, Function, Op, post_order
from vmkit.relay.ir.structural import Comparable

__all__ = ["assert_structural_equal", "structural_equal", "structural_hash"]


def structural_equal(lhs: Comparable, rhs: Comparable, map_free_vars: bool = False) -> bool:
    """Say whether two programs, or parts of them, are equal; see :func:`vmkit.relay.structural_equal`."""
    return relay.structural_equal(lhs, rhs, map_free_vars) and _same_type_args(lhs, rhs)


def assert_structural_equal(lhs: Comparable, rhs: Comparable, map_free_vars: bool = False) -> None:
    """Raise ValueError where two things are not equal; see :func:`vmkit.relay.assert_structural_equal`."""
    relay.assert_structural_equal(lhs, rhs, map_free_vars)
    if not _same_type_args(lhs, rhs):
        raise ValueError(f"StructuralEqual check failed: type arguments of calls differ between\n{lhs}\nand\n{rhs}")


def structural_hash(node: Comparable, map_free_vars: bool = False) -> int:
    """Return a number that equal programs have in common; see :func:`vmkit.relay.structural_hash`."""
    found = relay.structural_hash(node, map_free_vars)
    arguments = [tvm_ffi.structural_hash(each, True) for each in _type_args(node)]
    return hash((found, *arguments)) if arguments else found


def _same_type_args(lhs: Comparable, rhs: Comparable) -> bool:
    left, right = list(_type_args(lhs)), list(_type_args(rhs))
    return len(left) == len(right) and all(map(_is_same, left, right))


def _is_same(left: tvm_ffi.Array, right: tvm_ffi.Array) -> bool:
    return bool(tvm_ffi.structural_equal(left, right, True))


def _type_args(node: Any) -> Iterator[tvm_ffi.Array]:  # noqa: ANN401 - as what is compared
    """Yield the type arguments of calls, in the order of the program; nothing for calls that have none."""
    if isinstance(node, tvm.IRModule):
        for function in (node.functions[v] for v in sorted(node.functions, key=lambda v: v.name_hint)):
            yield from _type_args(function)
    elif isinstance(node, Expr | Function):
        for each in post_order(node):
            if isinstance(each, Call) and not isinstance(each.op, Op) and len(each.type_args):
                yield each.type_args
