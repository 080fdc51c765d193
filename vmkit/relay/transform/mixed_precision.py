"""Mixed precision: what gains from it is computed with numbers of a lower precision."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import tvm
from tvm.ir import GlobalVar

from ...errors import OptionError, UnsupportedOperatorError
from ..analysis.infer_type import infer_module, inferred
from ..expr_functor import ExprMutator
from ..ir import (
    Call,
    Clause,
    Expr,
    Function,
    If,
    Let,
    Match,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    is_call,
    post_order,
    with_functions,
)
from ..op.attrs import Attrs
from ..op.mixed_precision import (
    MIXED_PRECISION_ALWAYS,
    MIXED_PRECISION_FOLLOW,
    MIXED_PRECISION_NEVER,
    conversion_of,
    register_mixed_precision_conversion,
)
from ..op.registry import build
from .known_type import type_of, with_type_of
from .pass_options import relay_option
from .registry import ModuleTransform, relay_pass

__all__ = [
    "MIXED_PRECISION_ALWAYS",
    "MIXED_PRECISION_FOLLOW",
    "MIXED_PRECISION_NEVER",
    "ToMixedPrecision",
    "register_mixed_precision_conversion",
]

logger = logging.getLogger(__name__)


@relay_pass(opt_level=0)
def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> ModuleTransform:
    """Return the pass that computes with numbers of lower precision where that pays and is sound.

    Operators that always gain (convolutions, products of matrices) get casts before them. Those that can follow do so
    where all their operands are in lower precision, or are variables or constants. The others get casts back. The
    parameters of functions keep their types, and so do the results of functions that others call; the result of an
    entry function is what its last operator gives, unless the ``PassContext`` has the option
    ``relay.ToMixedPrecision.keep_orig_output_dtype``.

    Parameters
    ----------
    mixed_precision_type : str
        A floating data type.
    missing_op_mode : int
        What to do with operators that no conversion is registered for: 0, an error; 1, a warning; 2, nothing. They
        follow.
    """
    if "float" not in mixed_precision_type:
        raise OptionError(f"mixed_precision_type is a floating data type, not {mixed_precision_type!r}")
    if missing_op_mode not in (0, 1, 2):
        raise OptionError(f"missing_op_mode is 0, 1 or 2, not {missing_op_mode!r}")

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        mod = inferred(mod)
        functions = {v: f for v, f in mod.functions.items() if isinstance(f, Function)}
        called = {n for f in functions.values() for n in post_order(f) if isinstance(n, GlobalVar)}
        keeps_result = relay_option("relay.ToMixedPrecision.keep_orig_output_dtype", default=False)
        missing: Counter[str] = Counter()
        result = with_functions(mod)
        for gvar, function in functions.items():
            is_free = gvar not in called and not keeps_result
            result[gvar] = _Mixing(mixed_precision_type, missing).converted(function, is_free)
        _report(missing, missing_op_mode)
        return infer_module(result)

    return on_module


def _report(missing: Counter[str], mode: int) -> None:
    if not missing or mode == 2:
        return
    names = ", ".join(f"{name} ({count})" for name, count in sorted(missing.items()))
    if mode == 0:
        raise UnsupportedOperatorError(f"no mixed precision conversion is registered for {names}")
    logger.warning("operators without a mixed precision conversion follow their operands: %s", names)


def _is_float(dtype: str) -> bool:
    return "float" in dtype


class _Mixing(ExprMutator):
    def __init__(self, dtype: str, missing: Counter[str]) -> None:
        super().__init__()
        self.dtype = dtype
        self.missing = missing
        self.casts: dict[tuple[Any, str], Any] = {}
        self.entry: Function | None = None

    def converted(self, function: Function, is_free: bool) -> Function:
        """Return a function in lower precision, its result as well where that `is_free` to change."""
        self.entry = function if is_free else None
        return cast("Function", self.visit(function))

    # -- casts

    def cast(self, expr: RelayExpr, dtype: str) -> RelayExpr:
        """Return a tensor cast, once; a cast back is what was cast."""
        known = type_of(expr).dtype
        if known == dtype or not _is_float(known):
            return expr
        if (expr, dtype) not in self.casts:
            made = build("cast", expr, dtype=dtype)
            type_of(made)
            self.casts[expr, dtype] = made
            self.casts[made, known] = expr
        return self.casts[expr, dtype]

    def lowered(self, expr: RelayExpr) -> RelayExpr:
        """Return a value with all its floating tensors in lower precision."""
        return self.mapped(expr, type_of(expr), lambda tensor, ty: self.cast(tensor, self.dtype))

    def restored(self, expr: RelayExpr, ty: Type) -> RelayExpr:
        """Return a value in the precision that it had."""
        return self.mapped(expr, ty, lambda tensor, wanted: self.cast(tensor, wanted.dtype))

    def mapped(self, expr: RelayExpr, ty: Type, change: Callable[[RelayExpr, TensorType], RelayExpr]) -> RelayExpr:
        if isinstance(ty, TensorType):
            return change(expr, ty)
        if not isinstance(ty, TupleType):
            return expr
        fields = expr.fields if isinstance(expr, Tuple) else [TupleGetItem(expr, i) for i in range(len(ty.fields))]
        changed = [self.mapped(f, t, change) for f, t in zip(fields, ty.fields, strict=True)]
        if all(a.same_as(b) for a, b in zip(changed, fields, strict=True)):
            return expr
        return Tuple(changed)

    # -- expressions

    def visit_call(self, call: Call) -> RelayExpr:
        args = [self.visit(a) for a in call.args]
        if not isinstance(call.op, Op):
            wanted = [a.checked_type for a in call.args]
            args = [self.restored(a, t) for a, t in zip(args, wanted, strict=True)]
            return with_type_of(Call(self.visit(call.op), args, call.attrs, list(call.type_args), call.span), call)
        category, accumulated, result = self.conversion(call)
        if category == MIXED_PRECISION_FOLLOW:
            follows = all(self.may_follow(a) for a in args)
            category = MIXED_PRECISION_ALWAYS if follows else MIXED_PRECISION_NEVER
        if category == MIXED_PRECISION_NEVER:
            args = [self.restored(a, old.checked_type) for a, old in zip(args, call.args, strict=True)]
            return Call(call.op, args, call.attrs, span=call.span)
        made = Call(call.op, [self.lowered(a) for a in args], _accumulating(call.attrs, accumulated), span=call.span)
        ty = type_of(made)
        return self.cast(made, result) if accumulated != result and isinstance(ty, TensorType) else made

    def conversion(self, call: Call) -> tuple[int, str, str]:
        registered = conversion_of(call.op.name)
        if registered is None:
            self.missing[call.op.name] += 1
            return MIXED_PRECISION_FOLLOW, self.dtype, self.dtype
        if is_call(call, "clip") and not self.holds(call.attrs.a_min, call.attrs.a_max):
            return MIXED_PRECISION_NEVER, self.dtype, self.dtype
        category, accumulated, result = registered(call, self.dtype)
        return int(category), str(accumulated), str(result)

    def holds(self, *numbers: float) -> bool:
        """Say whether numbers are in the range of the lower precision, of which some types have a small one."""
        least, most = (limit(self.dtype).value for limit in (tvm.tirx.min_value, tvm.tirx.max_value))
        return all(least <= number <= most for number in numbers)

    def may_follow(self, arg: RelayExpr) -> bool:
        return hasattr(arg, "data") or isinstance(arg, Var) or self.is_lowered(type_of(arg))

    def is_lowered(self, ty: Type) -> bool:
        if isinstance(ty, TupleType):
            return all(self.is_lowered(f) for f in ty.fields)
        return isinstance(ty, TensorType) and (ty.dtype == self.dtype or not _is_float(ty.dtype))

    def visit_let(self, let: Let) -> RelayExpr:
        chain = []
        body: Any = let
        while isinstance(body, Let):
            value = self.visit(body.value)
            variable = body.var
            if not isinstance(body.value, Function):  # whose type stays, and which may refer to its variable
                variable = Var(variable.name_hint, type_of(value), variable.span)
                self.memo_map[body.var] = variable
            chain.append((variable, value, body.span))
            body = body.body
        result = self.visit(body)
        ty = type_of(result)
        for variable, value, span in reversed(chain):
            result = Let(variable, value, result, span)
            result.checked_type_ = ty
        return result

    def visit_function(self, fn: Function) -> RelayExpr:
        body = self.visit(fn.body)
        is_free = self.entry is not None and fn.same_as(self.entry)
        if not is_free:
            body = self.restored(body, fn.checked_type.ret_type)
        ret_type = None if is_free else fn.ret_type
        made = Function(list(fn.params), body, ret_type, list(fn.type_params), fn.attrs, fn.span)
        return made if is_free else with_type_of(made, fn)

    def visit_if(self, ite: If) -> RelayExpr:
        cond = self.visit(ite.cond)
        then, other = self.agreeing([self.visit(ite.true_branch), self.visit(ite.false_branch)], ite.checked_type)
        return self.like(If(cond, then, other, ite.span), then)

    def visit_match(self, match: Match) -> RelayExpr:
        data = self.restored(self.visit(match.data), match.data.checked_type)
        sides = self.agreeing([self.visit(c.rhs) for c in match.clauses], match.checked_type)
        clauses = [Clause(c.lhs, side) for c, side in zip(match.clauses, sides, strict=True)]
        made = Match(data, clauses, match.complete, match.span)
        return self.like(made, sides[0]) if sides else with_type_of(made, match)

    def like(self, made: Expr, part: RelayExpr) -> Expr:
        """Note that an expression has the type of a part of it."""
        made.checked_type_ = type_of(part)
        return made

    def agreeing(self, exprs: Sequence[RelayExpr], ty: Type) -> list[RelayExpr]:
        """Return alternatives as they are, where their precision is the same, or else in what it was."""
        lowered = [self.is_lowered(type_of(e)) for e in exprs]
        return list(exprs) if all(lowered) else [self.restored(e, ty) for e in exprs]

    def visit_ref_create(self, ref: RefCreate) -> RelayExpr:
        return with_type_of(RefCreate(self.restored(self.visit(ref.value), ref.value.checked_type), ref.span), ref)

    def visit_ref_write(self, ref: RefWrite) -> RelayExpr:
        value = self.restored(self.visit(ref.value), ref.value.checked_type)
        return with_type_of(RefWrite(self.visit(ref.ref), value, ref.span), ref)

    def visit_ref_read(self, ref: RefRead) -> RelayExpr:
        return with_type_of(super().visit_ref_read(ref), ref)

    def visit_tuple_getitem(self, item: TupleGetItem) -> RelayExpr:
        return TupleGetItem(self.visit(item.tuple_value), item.index, item.span)


def _accumulating(attrs: Attrs | None, dtype: str) -> Attrs | None:
    """Return attributes that ask for a result of a data type, where they name a floating one or none."""
    if attrs is None:
        return None
    names = [f.name for f in attrs.declared]
    asked = "out_dtype" if "out_dtype" in names else "dtype" if attrs.type_key == "relay.attrs.InitOpAttrs" else None
    if asked is None or not (getattr(attrs, asked) in ("", None) or _is_float(getattr(attrs, asked))):
        return attrs
    return type(attrs)(**{**{n: getattr(attrs, n) for n in names}, asked: dtype})
