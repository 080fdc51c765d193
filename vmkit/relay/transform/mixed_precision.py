"""Mixed precision: what gains from it is computed with numbers of a lower precision."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import cast

import tvm
from tvm.ir import GlobalVar

from ...errors import OptionError, UnsupportedOperatorError
from ..analysis.infer_type import infer_module, inferred
from ..ir import Call, Function, RelayExpr, TensorType, Var, is_call, post_order, with_functions
from ..op.attrs import Attrs
from ..op.mixed_precision import (
    MIXED_PRECISION_ALWAYS,
    MIXED_PRECISION_FOLLOW,
    MIXED_PRECISION_NEVER,
    conversion_of,
    register_mixed_precision_conversion,
)
from ..pass_options import relay_option
from .known_type import type_of
from .precision_change import PrecisionChange, is_float
from .registry import ModuleTransform, is_changeable, relay_pass

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
            if not is_changeable(function):
                continue
            is_free = gvar not in called and not keeps_result
            result[gvar] = _Mixing(mixed_precision_type, missing).mixed(function, is_free)
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


class _Mixing(PrecisionChange):
    def __init__(self, dtype: str, missing: Counter[str]) -> None:
        super().__init__(dtype)
        self.missing = missing
        self.entry: Function | None = None

    def mixed(self, function: Function, is_free: bool) -> Function:
        """Return a function in lower precision, its result as well where that `is_free` to change."""
        self.entry = function if is_free else None
        return cast("Function", self.visit(function))

    def keeps_result(self, function: Function) -> bool:
        return self.entry is None or not function.same_as(self.entry)

    def changed_call(self, call: Call, args: Sequence[RelayExpr]) -> RelayExpr:
        category, accumulated, result = self.conversion(call)
        if category == MIXED_PRECISION_FOLLOW:
            follows = all(self.may_follow(a) for a in args)
            category = MIXED_PRECISION_ALWAYS if follows else MIXED_PRECISION_NEVER
        if category == MIXED_PRECISION_NEVER:
            return Call(call.op, self.restored_args(call, args), call.attrs, span=call.span)
        attrs = _accumulating(call.attrs, accumulated)
        made = Call(call.op, [self.converted(a) for a in args], attrs, span=call.span)
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
        return hasattr(arg, "data") or isinstance(arg, Var) or self.is_converted(type_of(arg))


def _accumulating(attrs: Attrs | None, dtype: str) -> Attrs | None:
    """Return attributes that ask for a result of a data type, where they name a floating one or none."""
    if attrs is None:
        return None
    names = [f.name for f in attrs.declared]
    asked = "out_dtype" if "out_dtype" in names else "dtype" if attrs.type_key == "relay.attrs.InitOpAttrs" else None
    if asked is None or not (getattr(attrs, asked) in ("", None) or is_float(getattr(attrs, asked))):
        return attrs
    return type(attrs)(**{**{n: getattr(attrs, n) for n in names}, asked: dtype})
