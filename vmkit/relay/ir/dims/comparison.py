"""What is sure about two dimensions: which is larger, whether they are equal, and what they broadcast to."""

from __future__ import annotations

from functools import lru_cache

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from ..dim import Any, Dim
from .arithmetic import add, maximum, minimum, sub
from .bounds import bounds
from .expressions import REMEMBERED, as_expr, has_too_many_choices, is_any, symbols
from .limits import is_limited, is_never_less, rows

__all__ = ["absorbs", "at_least", "broadcast", "equal", "larger", "more_than", "same_size", "smaller"]


def equal(a: Dim, b: Dim) -> bool | None:
    """Say whether two dimensions are equal: True, False, or None when only run time can tell."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if is_any(a) or is_any(b):
        return None
    if tvm_ffi.structural_equal(as_expr(a), as_expr(b)):
        return True
    if _varies(a, b) or _varies(b, a):
        return None
    match a, b:
        case tirx.Select(), tirx.Select() if tvm_ffi.structural_equal(a.condition, b.condition):
            parts = {equal(a.true_value, b.true_value), equal(a.false_value, b.false_value)}
            return parts.pop() if len(parts) == 1 else None
    difference = sub(a, b)
    if isinstance(difference, int):
        return difference == 0
    return None


def _varies(a: Dim, b: Dim) -> bool:
    """Say whether `a` is a symbol that `b` surely differs from by no constant, which takes no proof to see.

    So it is where `b` has not the symbol, and where a choice of `b` has not: the first of several that is not 1.
    """
    if not isinstance(a, tvm.ir.Var) or isinstance(b, int):
        return isinstance(a, tvm.ir.Var)
    if isinstance(b, tvm.ir.Var):
        return not a.same_as(b)
    if isinstance(b, tirx.Select) and isinstance(b.condition, tirx.EQ):
        decides = symbols([b.condition.a, b.condition.b])
        other = b.true_value
        is_free = isinstance(other, tvm.ir.Var) and not any(other.same_as(each) for each in decides)
        return _varies(a, b.false_value) or (is_free and _varies(a, other))
    return not any(a.same_as(each) for each in symbols([b]))


def at_least(a: Dim, b: Dim) -> bool | None:
    """Say whether `a` is no less than `b` whatever the sizes are: True, False, or None when only run time can tell.

    A symbol is a size, so it is not negative.
    """
    if is_any(a) or is_any(b):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    return _at_least(a, b)


@lru_cache(REMEMBERED)
def _at_least(a: Dim, b: Dim) -> bool | None:
    least, most = bounds(sub(a, b))
    if least is not None and least >= 0:
        return True
    if most is not None and most < 0:
        return False
    if has_too_many_choices(a) or has_too_many_choices(b):
        return None
    analyzer = Analyzer()
    for symbol in symbols([a, b]):
        analyzer.bind(symbol, tvm.ir.Range(tirx.IntImm("int64", 0), tirx.IntImm("int64", 1 << 40)))
    x, y = as_expr(a), as_expr(b)
    if analyzer.can_prove(x >= y):
        return True
    if analyzer.can_prove(x < y):
        return False
    if not is_limited(x) and not is_limited(y):
        return None
    return is_never_less(x, y, lambda p, q: analyzer.can_prove(p >= q)) or None


def more_than(a: Dim, b: Dim) -> bool | None:
    """Say whether `a` is more than `b` whatever the sizes are: True, False, or None when only run time can tell."""
    return at_least(a, add(b, 1))


def same_size(a: Dim, b: Dim) -> bool | None:
    """Say what :func:`equal` does, and False also where one is more than the other because no size is negative."""
    same = equal(a, b)
    if same is None and (more_than(a, b) or more_than(b, a)):
        return False
    return same


def larger(a: Dim, b: Dim) -> Dim:
    """Return the larger of two, without a comparison left where none is needed."""
    is_first = at_least(a, b)
    if is_first is None and at_least(b, a):
        return b
    return maximum(a, b) if is_first is None else a if is_first else b


def smaller(a: Dim, b: Dim) -> Dim:
    """Return the smaller of two, without a comparison left where none is needed."""
    is_second = at_least(a, b)
    if is_second is None and at_least(b, a):
        return a
    return minimum(a, b) if is_second is None else b if is_second else a


def broadcast(a: Dim, b: Dim) -> Dim | None:
    """Return the dimension that `a` and `b` broadcast to; None when they cannot.

    An unknown dimension beside an int other than 1 must be that int or 1, so the result is the int. Two unknown
    dimensions, or two different symbols, give ``Any``, unless one of them :func:`absorbs` the other.
    """
    if isinstance(a, int) and a == 1:
        return b
    if isinstance(b, int) and b == 1:
        return a
    same = equal(a, b)
    if same:
        return a
    if isinstance(a, int) and isinstance(b, int):
        return None
    if isinstance(a, int):
        return a
    if isinstance(b, int):
        return b
    if absorbs(a, b):
        return a
    return b if absorbs(b, a) else Any()


def absorbs(a: Dim, b: Dim) -> bool:
    """Say whether `a` is what `a` and `b` broadcast to: `b` is a slice of what is `a` long if the slice is whole.

    A table of 512 rows of which the first `a` are taken has ``min(a, 512)``, and of which `a` are taken from `p` on
    ``max(min(p + a, 512) - min(p, 512), 0)``. Where these are not `a`, they are cut off at the table's end, and there
    is nothing to broadcast.
    """
    if isinstance(a, int) or is_any(a) or not is_limited(b) or is_limited(a):
        return False
    parts = [part for row in rows(b) for part in row]
    is_cut_to_one = any(equal(part, 1) for part in parts)
    return not is_cut_to_one and any(equal(a, part) for part in parts) and bool(at_least(a, b))
