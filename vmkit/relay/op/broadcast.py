"""Elementwise operators of several inputs, broadcast as numpy does, unknown dimensions included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ...values.host_memory import aligned_array
from ..ir import dims
from ..ir.types import Dim, TensorType, Type, type_text
from .elementwise import EXACT, require_tensor
from .kernel import guarded_division
from .ordering import has_nan, holds_numbers, is_nan, larger, smaller
from .registry import Mixed, OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = [
    "agree",
    "broadcast_dim",
    "broadcast_index",
    "broadcast_lowering",
    "broadcast_result",
    "broadcast_shapes",
    "differ",
    "ordered",
    "pad_shapes",
]


def broadcast_shapes(*shapes: Sequence[Dim]) -> list[Dim]:
    """Return the shape that several shapes broadcast to; TypeCheckError when they cannot."""
    rank = max(len(s) for s in shapes)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for position, dim in enumerate([1] * (rank - len(shape)) + list(shape)):
            joined = dims.broadcast(result[position], dim)
            if joined is None:
                raise TypeCheckError(
                    f"dimension {position} of the result would be both {result[position]} and {dim}: "
                    "they neither agree nor is one of them 1"
                )
            result[position] = joined
    return result


def broadcast_lowering(context: LowerContext, combine: Callable[..., tirx.Expr], *values: relax.Expr) -> relax.Expr:
    """Return ``combine`` of the elements of several lowered tensors, broadcast against each other.

    Dimensions that are not known to be equal are compared at run time, and an operand whose dimension turns out to be
    1 is read at index 0.
    """
    padded = pad_shapes([context.shape(v) for v in values])
    result = broadcast_result(context, padded)
    rank = len(result)

    def compute(tensors: list[te.Tensor], shapes: list[list[Dim]], whole: list[Dim]) -> te.Tensor:
        def element(*indices: tirx.Expr) -> tirx.Expr:
            reads = []
            for tensor, shape in zip(tensors, shapes, strict=True):
                skip = rank - len(tensor.shape)
                reads.append(tensor(*broadcast_index(shape[skip:], whole[skip:], indices[skip:])))
            return combine(*reads)

        return te.compute([dims.as_expr(d) for d in whole], element, name="broadcast")

    # To fusion, an operator that maps the elements of one whole operand is elementwise whatever else it reads; as a
    # broadcast it would not join the convolution or product before it.
    whole = any(all(dims.equal(a, b) for a, b in zip(p, result, strict=True)) for p in padded)
    pattern = OpPattern.ELEMWISE if whole else OpPattern.BROADCAST
    return context.te(compute, list(values), padded, result, pattern=pattern)


def pad_shapes(shapes: Sequence[list[Dim]]) -> list[list[Dim]]:
    """Return shapes with as many ones in front as give all of them the same rank."""
    rank = max(len(s) for s in shapes)
    return [[*[1] * (rank - len(s)), *s] for s in shapes]


def broadcast_result(context: LowerContext, shapes: Sequence[Sequence[Dim]]) -> list[Dim]:
    """Return the shape that shapes of one rank broadcast to when run, checked at run time."""
    return [broadcast_dim(context, f"dimension {i}", column) for i, column in enumerate(zip(*shapes, strict=True))]


def broadcast_dim(context: LowerContext, what: str, column: Sequence[Dim]) -> Dim:
    """Return one dimension of the result, with a run-time check for every operand that may not fit.

    `what` is what the check calls the dimension.
    """
    distinct: list[Dim] = []
    alternatives: list[Dim] = []
    for dim in column:
        if not (isinstance(dim, int) and dim == 1):
            _add_distinct(distinct, [dim])
            _add_distinct(alternatives, _alternatives(dim))
    if not distinct:
        return 1
    fixed = [d for d in distinct if isinstance(d, int)]
    if not fixed:
        # What an earlier broadcast made of the same dimensions is the result again, and was checked there: without
        # this, the result of a chain of operators would double with each of them.
        for dim in distinct:
            covered = [dim, *_alternatives(context.origin(dim))]
            if all(any(dims.equal(a, c) for c in covered) for a in alternatives):
                return dim
    whole = [a for a in alternatives if not any(dims.absorbs(b, a) for b in alternatives)]
    result = fixed[0] if fixed else _first_not_one(whole)
    if len(distinct) > 1:
        name = context.current.name if context.current is not None else "broadcast"
        for dim in distinct:
            # What is the first of dimensions that is not 1 is the result, too, where these are the first of all.
            if isinstance(dim, int) or (not fixed and _begin(whole, _alternatives(dim))):
                continue
            context.require_equal(
                dim,
                result if dims.absorbs(result, dim) else dims.select(dim == 1, dim, result),
                f"{name}: {what} is {{actual}} in one input and {{expected}} in another; "
                "they neither agree nor is one of them 1",
            )
    return result


def _add_distinct(found: list[Dim], more: Sequence[Dim]) -> None:
    found += [d for d in more if not any(dims.equal(d, f) for f in found)]


def _alternatives(dim: Dim) -> list[Dim]:
    """Return the dimensions of which `dim` is the first that is not 1; itself where no broadcast made it."""
    if isinstance(dim, tirx.Select) and isinstance(dim.condition, tirx.EQ):
        first = dim.condition.a
        if dims.equal(dim.condition.b, 1) and dims.equal(first, dim.false_value):
            return [first, *_alternatives(dims.simplify(dim.true_value))]
    return [dim]


def _begin(whole: Sequence[Dim], first: Sequence[Dim]) -> bool:
    return len(first) <= len(whole) and all(dims.equal(a, b) for a, b in zip(first, whole, strict=False))


def _first_not_one(column: Sequence[Dim]) -> Dim:
    result = column[-1]
    for dim in reversed(column[:-1]):
        result = dims.select(dim == 1, result, dim)
    return result


def broadcast_index(shape: Sequence[Dim], result: Sequence[Dim], indices: Sequence[tirx.Expr]) -> list[tirx.Expr]:
    """Return the indices at which an operand of a shape is read for an element of the result, in a kernel."""
    chosen = []
    for dim, whole, index in zip(shape, result, indices, strict=True):
        if dims.equal(dim, whole) or dims.absorbs(whole, dim):
            chosen.append(index)
        elif isinstance(dim, int):
            chosen.append(tirx.IntImm("int64", 0))
        else:
            chosen.append(tirx.Select(dim == 1, tirx.IntImm("int64", 0), index))
    return chosen


def _broadcast_relation(attrs: None, lhs: Type, rhs: Type) -> Type:
    a, b = require_tensor(lhs, "lhs"), require_tensor(rhs, "rhs")
    if a.dtype != b.dtype:
        raise TypeCheckError(f"the inputs' data types differ: {a.dtype} and {b.dtype}; cast one of them")
    return TensorType(broadcast_shapes(a.shape[:], b.shape[:]), a.dtype)


def _comparison_relation(attrs: None, lhs: Type, rhs: Type) -> Type:
    return TensorType(list(_broadcast_relation(attrs, lhs, rhs).shape), "bool")


def _only(*kinds: str) -> Callable[..., Type]:
    """Return the broadcast relation for data types that start with one of `kinds`."""

    def relation(attrs: None, lhs: Type, rhs: Type) -> Type:
        result = _broadcast_relation(attrs, lhs, rhs)
        if not result.dtype.startswith(kinds):
            raise TypeCheckError(f"the inputs must be {' or '.join(kinds)} tensors, not {type_text(lhs)}")
        return result

    return relation


def _binary(
    name: str,
    combine: Callable[[tirx.Expr, tirx.Expr], tirx.Expr],
    doc: str,
    *,
    level: int = 1,
    relation: Callable[..., Type] = _broadcast_relation,
    mixed: Mixed | None = None,
    limited: Callable[[tirx.Expr, tirx.Expr], tirx.Expr] | None = None,
    on_arrays: Callable[[np.ndarray, np.ndarray], np.ndarray | None] | None = None,
) -> None:
    """Register an operator of two tensors; `limited` is what is quicker where the first of them holds numbers alone."""

    def lower(context: LowerContext, attrs: None, lhs: relax.Expr, rhs: relax.Expr) -> relax.Expr:
        chosen = combine
        if limited is not None and holds_numbers(lhs):
            chosen = limited
        elif limited is not None and holds_numbers(rhs):
            chosen = lambda a, b: limited(b, a)  # noqa: E731
        return broadcast_lowering(context, chosen, lhs, rhs)

    body = {
        "__doc__": doc + " The inputs are broadcast.",
        "relation": staticmethod(relation),
        "lower": staticmethod(lower),
    }
    if on_arrays is not None:
        body["on_arrays"] = staticmethod(lambda attrs, lhs, rhs: on_arrays(lhs, rhs))
    operator(name, "lhs", "rhs", level=level, pattern=OpPattern.BROADCAST, mixed=mixed)(type(name, (), body))


def _shift(
    name: str, shift: Callable[[tirx.Expr, tirx.Expr], tirx.Expr]
) -> Callable[[tirx.Expr, tirx.Expr], tirx.Expr]:
    """Return a shift, which Relay's types allow of all numbers, though a kernel can only shift integers."""

    def combine(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        if not str(a.ty.dtype).startswith(("int", "uint")):
            raise TypeCheckError(f"{name}: the inputs must be int or uint tensors, not of {a.ty.dtype}; cast them")
        return shift(a, b)

    return combine


def _is_floating(value: tirx.Expr) -> bool:
    return str(value.ty.dtype).startswith(("float", "bfloat"))


_div, _floordiv, _truncdiv = (guarded_division(f, is_remainder=False) for f in (tirx.div, tirx.floordiv, tirx.truncdiv))
_floormod, _truncmod = (guarded_division(f, is_remainder=True) for f in (tirx.floormod, tirx.truncmod))


def _divide(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    return a / b if _is_floating(a) else _div(a, b)


def _trunc_divide(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    return tirx.trunc(a / b) if _is_floating(a) else _truncdiv(a, b)


def _floor_divide(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    return tirx.floor(a / b) if _is_floating(a) else _floordiv(a, b)


def _floor_mod(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    return a - tirx.floor(a / b) * b if _is_floating(a) else _floormod(a, b)


def _mod(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    if not _is_floating(a):
        return _truncmod(a, b)
    dtype = str(a.ty.dtype)
    wide = "float64" if dtype == "float64" else "float32"
    # TVM's own fmod is known to no code generator for CPUs.
    function = "fmod" if wide == "float64" else "fmodf"
    return tirx.call_pure_extern(wide, function, a.astype(wide), b.astype(wide)).astype(dtype)


def agree(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Compare for equality; NaN, which is no number, equals nothing, not even itself."""
    dtype = str(a.ty.dtype)
    if dtype == "bool":
        return tirx.Not(differ(a, b))
    # TVM takes x == x for true in any type. LLVM makes one comparison of the two.
    return tirx.all(a <= b, b <= a) if has_nan(dtype) else tirx.EQ(a, b)


def differ(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Compare for inequality; bool, of which TVM's comparison is taken for one of floats by LLVM, by logic."""
    if str(a.ty.dtype) == "bool":
        return tirx.all(tirx.any(a, b), tirx.Not(tirx.all(a, b)))
    # LLVM is asked for numbers that differ; NaN, which is no number, differs from everything.
    return tirx.any(tirx.NE(a, b), is_nan(a), is_nan(b)) if has_nan(str(a.ty.dtype)) else tirx.NE(a, b)


def ordered(
    compare: Callable[[tirx.Expr, tirx.Expr], tirx.Expr],
) -> Callable[[tirx.Expr, tirx.Expr], tirx.Expr]:
    """Return a comparison that takes bool as integers, for LLVM knows no order of bool."""

    def combine(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        if str(a.ty.dtype) != "bool":
            return compare(a, b)
        return compare(a.astype("int8"), b.astype("int8")).astype("bool")

    return combine


def _by_numpy(combine: np.ufunc, kinds: str = "iuf") -> Callable[[np.ndarray, np.ndarray], np.ndarray | None]:
    """Return what a function of numpy gives for arrays of the kinds of data types in which it computes as kernels.

    It is in memory that kernels can read, so that weights are not copied once more.
    """

    def combined(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        if a.dtype.name not in EXACT or a.dtype.kind not in kinds:
            return None
        with np.errstate(all="ignore"):
            return combine(a, b, out=aligned_array(np.broadcast_shapes(a.shape, b.shape), a.dtype))

    return combined


_binary("add", lambda a, b: a + b, "Sum.", mixed="follow", on_arrays=_by_numpy(np.add))
_binary("subtract", lambda a, b: a - b, "Difference.", mixed="follow", on_arrays=_by_numpy(np.subtract))
_binary("multiply", lambda a, b: a * b, "Product.", mixed="follow", on_arrays=_by_numpy(np.multiply))
_binary(
    "divide",
    _divide,
    "Quotient; of integers, rounded towards zero.",
    mixed="follow",
    on_arrays=_by_numpy(np.divide, "f"),
)
_binary("floor_divide", _floor_divide, "Quotient rounded down.")
_binary("floor_mod", _floor_mod, "Remainder of the quotient rounded down.")
_binary("mod", _mod, "Remainder of the quotient rounded towards zero.")
_binary("trunc_divide", _trunc_divide, "Quotient rounded towards zero.")
_binary("trunc_mod", _mod, "Remainder of the quotient rounded towards zero.")
_binary("power", tirx.power, "Power.", mixed="never")
_binary("maximum", ordered(larger), "Larger of the two.", level=4, mixed="follow", limited=ordered(tirx.max))
_binary("minimum", ordered(smaller), "Smaller of the two.", level=4, mixed="follow", limited=ordered(tirx.min))
_binary("left_shift", _shift("left_shift", lambda a, b: a << b), "Bits shifted left.", level=4)
_binary("right_shift", _shift("right_shift", lambda a, b: a >> b), "Bits shifted right.", level=4)
_binary("bitwise_and", lambda a, b: a & b, "Bitwise and.", level=4, relation=_only("int", "uint", "bool"))
_binary("bitwise_or", lambda a, b: a | b, "Bitwise or.", level=4, relation=_only("int", "uint", "bool"))
_binary("bitwise_xor", lambda a, b: a ^ b, "Bitwise exclusive or.", level=4, relation=_only("int", "uint", "bool"))
_binary("logical_and", lambda a, b: tirx.all(a, b), "Logical and.", level=4, relation=_only("bool"))
_binary("logical_or", lambda a, b: tirx.any(a, b), "Logical or.", level=4, relation=_only("bool"))
_binary("logical_xor", differ, "Logical exclusive or.", level=4, relation=_only("bool"))
_binary("equal", agree, "Whether the elements are equal.", level=4, relation=_comparison_relation)
_binary("not_equal", differ, "Whether the elements differ.", level=4, relation=_comparison_relation)
_binary(
    "less", ordered(lambda a, b: a < b), "Whether lhs is less.", level=4, relation=_comparison_relation, mixed="follow"
)
_binary(
    "less_equal",
    ordered(lambda a, b: a <= b),
    "Whether lhs is less or equal.",
    level=4,
    relation=_comparison_relation,
    mixed="follow",
)
_binary(
    "greater",
    ordered(lambda a, b: a > b),
    "Whether lhs is greater.",
    level=4,
    relation=_comparison_relation,
    mixed="follow",
)
_binary(
    "greater_equal",
    ordered(lambda a, b: a >= b),
    "Whether lhs is greater or equal.",
    level=4,
    relation=_comparison_relation,
    mixed="follow",
)


@operator("where", "condition", "x", "y", level=4, pattern=OpPattern.BROADCAST, mixed="follow")
class Where:
    """Elements of x where the condition holds (is not zero), else of y. All three are broadcast."""

    @staticmethod
    def relation(attrs: None, condition: Type, x: Type, y: Type) -> Type:
        c = require_tensor(condition, "condition")
        result = _broadcast_relation(attrs, x, y)
        return TensorType(broadcast_shapes(list(c.shape), list(result.shape)), result.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: None, condition: relax.Expr, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        return broadcast_lowering(
            context,
            lambda c, a, b: tirx.Select(c != 0, a, b) if str(c.ty.dtype) != "bool" else tirx.Select(c, a, b),
            condition,
            x,
            y,
        )
