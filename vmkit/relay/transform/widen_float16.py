"""float16 as a type for storage: what a program computes in float16 is computed in float32, and rounded where it shows.

Processors whose vectors hold no float16 convert every operand and every result, and each result that is rounded to 11
bits adds an error. onnxruntime computes so too on CPUs, by pairs of casts that it takes out again.

What a program asks of float16 stays:

- Parameters and results of functions, references and algebraic data types, and so what loops carry, are float16. The
  loop of a recurrent layer, which is one operator in models, is none of these functions.
- Operators that only move elements of parameters and constants move float16: a table of embeddings stays small.
- Bit-casts, and what tells numbers apart (``unique``), see numbers that are rounded. Comparisons, roundings to integers
  and casts to them see those that are computed with beside them: what holds of a number, such as ``x - floor(x) >= 0``
  or that the root of what is not below 0 is a number, would hold no longer if a part of the program saw another.
- A cast to float16 and straight back rounds. One that operators of float16 follow marks where float16 begins, as
  converters of models put it, and is taken out, as by onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import cast

import tvm
from tvm.ir import GlobalVar

from ...errors import TypeCheckError
from ..analysis.infer_type import typed
from ..ir import Call, Function, RelayExpr, TensorType, TupleType, Type, is_call, post_order
from ..op.registry import REGISTRY, OpEntry, OpPattern, build
from ..recurrent_loop import RecurrentLoop
from .element_type import ElementTypeChange
from .known_type import type_of
from .precision_change import PrecisionChange, is_float
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["WidenFloat16"]

_NARROW, _WIDE = "float16", "float32"

# What asks for the bits of a number, or which numbers are one.
_EXACT = frozenset(("contrib.unique_rows", "reinterpret", "unique"))
# Injective operators read each element from a place; these also compute with what they read.
_INTERPOLATIONS = frozenset(
    [f"image.{name}" for name in ("affine_grid", "crop_and_resize", "grid_sample", "resize1d", "resize2d", "resize3d")]
    + [f"nn.{name}" for name in ("contrib_deformed_columns", "upsampling", "upsampling3d")]
)
_BROADCASTS = frozenset(("broadcast_to", "broadcast_to_like", "dyn.broadcast_to", "dyn.tile", "repeat", "tile"))
_FILLS = frozenset(("dyn.full", "full", "full_like", "ones_like", "zeros_like"))
_OTHER_MOVES = frozenset(("copy", "dyn.reshape", "scatter_elements", "scatter_nd", "trilu"))
# These give their input as it is.
_CHECKS = frozenset(("dyn.require", "require"))


@relay_pass(opt_level=1)
def WidenFloat16() -> ModuleTransform:
    """Return the pass that computes in float32 what a program computes in float16.

    Types of parameters and results stay. A result differs from that of the program by the roundings of intermediate
    results to float16, which are left out: it is nearer to what the program would give in float32.
    """

    def widened(mod: tvm.IRModule) -> tvm.IRModule:
        mod = typed(mod)
        layers = {v for v, f in mod.functions.items() if isinstance(f, Function) and RecurrentLoop.of(f) is not None}
        return on_functions(mod, lambda function: _widened(function, layers))

    return widened


def _widened(function: Function, layers: Set[GlobalVar]) -> Function:
    if not any(_has_narrow(node.checked_type) for node in post_order(function) if _is_typed(node)):
        return function
    change = ElementTypeChange(_NARROW, _WIDE) if RecurrentLoop.of(function) is not None else _Widening(layers)
    return cast("Function", change.visit(function))


def _is_typed(node: RelayExpr) -> bool:
    return getattr(node, "checked_type_", None) is not None


def _has_narrow(ty: Type) -> bool:
    if isinstance(ty, TupleType):
        return any(_has_narrow(f) for f in ty.fields)
    return isinstance(ty, TensorType) and ty.dtype == _NARROW


def _holds_floats(ty: Type) -> bool:
    if isinstance(ty, TupleType):
        return any(_holds_floats(f) for f in ty.fields)
    return isinstance(ty, TensorType) and is_float(ty.dtype)


def _is_of_tensors(ty: Type) -> bool:
    return all(map(_is_of_tensors, ty.fields)) if isinstance(ty, TupleType) else isinstance(ty, TensorType)


def _is_impure(entry: OpEntry) -> bool:
    return (entry.has_effect or not entry.is_pure) and entry.name not in _CHECKS


def _is_move(entry: OpEntry) -> bool:
    is_injective = entry.pattern == OpPattern.INJECTIVE and entry.name not in _INTERPOLATIONS
    return entry.moves or is_injective or entry.name in _BROADCASTS | _FILLS | _OTHER_MOVES | _CHECKS


class _Widening(PrecisionChange):
    def __init__(self, layers: Set[GlobalVar]) -> None:
        super().__init__(_WIDE)
        self.layers = layers
        self.wide = ElementTypeChange(_NARROW, _WIDE)
        # What the program casts from float32, of which the number before that is at hand.
        self.rounded: set[RelayExpr] = set()

    def changes(self, dtype: str) -> bool:
        return dtype == _NARROW

    def visit_call(self, call: Call) -> RelayExpr:
        if call.op not in self.layers:
            return super().visit_call(call)
        made = Call(call.op, [self.given_to_layer(a) for a in call.args], call.attrs, span=call.span)
        made.checked_type_ = self.wide.type(call.checked_type)
        return made

    def given_to_layer(self, arg: RelayExpr) -> RelayExpr:
        """Return an argument of a recurrent layer's loop; the buffer for its results is made for wide ones."""
        if is_call(arg, "buffer.create"):
            return Call(arg.op, [self.visit(a) for a in arg.args], self.wide.attributes(arg.attrs), span=arg.span)
        return self.converted(self.visit(arg))

    def changed_call(self, call: Call, args: Sequence[RelayExpr]) -> RelayExpr:
        if is_call(call, "cast") and is_float(call.attrs.dtype):
            return self.changed_cast(call, args[0])
        made = self.widened_call(call, args) if self.may_widen(call, args) else None
        if made is not None:
            return made
        return Call(call.op, self.restored_args(call, args), call.attrs, list(call.type_args), call.span)

    def changed_cast(self, call: Call, arg: RelayExpr) -> RelayExpr:
        """Return a cast between floats: of the number that is not rounded yet, unless the program rounds by it."""
        source, target = call.args[0].checked_type.dtype, call.attrs.dtype
        if source == _NARROW:
            is_rounding = is_call(call.args[0], "cast")
            value = self.restored(arg, call.args[0].checked_type) if is_rounding else self.known_wide(arg)
            return value if type_of(value).dtype == target else build("cast", value, dtype=target)
        made = Call(call.op, [arg], call.attrs, span=call.span)
        if source == _WIDE and target == _NARROW:
            type_of(made)
            self.casts[made, _WIDE] = arg
            self.rounded.add(made)
        return made

    def known_wide(self, arg: RelayExpr) -> RelayExpr:
        """Return a tensor as it was before it was rounded, where that is known."""
        return self.casts.get((arg, _WIDE), arg)

    def may_widen(self, call: Call, args: Sequence[RelayExpr]) -> bool:
        """Say whether a call of an operator is to be computed with wide numbers."""
        given, result = [a.checked_type for a in call.args], call.checked_type
        if not any(map(_has_narrow, given)) or not all(map(_is_of_tensors, [*given, result])):
            return False
        entry = REGISTRY[call.op.name]
        if entry.name in _EXACT or entry.name.startswith("annotation.") or _is_impure(entry):
            return False
        if _is_move(entry) or not _holds_floats(result):
            return any(self.is_wide(a, ty) for a, ty in zip(args, given, strict=True))
        return True

    def is_wide(self, arg: RelayExpr, was: Type) -> bool:
        """Say whether some tensor of a value is at hand as it was before it was rounded."""
        if isinstance(was, TupleType):
            ty = type_of(arg)
            parts = getattr(arg, "fields", None)
            if parts is None:
                return any(_has_narrow(w) and not _has_narrow(t) for w, t in zip(was.fields, ty.fields, strict=True))
            return any(self.is_wide(p, w) for p, w in zip(parts, was.fields, strict=True))
        return _has_narrow(was) and (type_of(arg).dtype == _WIDE or arg in self.rounded)

    def widened_call(self, call: Call, args: Sequence[RelayExpr]) -> RelayExpr | None:
        """Return a call with wide arguments; None where an operator has no such form."""
        made = Call(call.op, [self.converted(a) for a in args], self.wide.attributes(call.attrs), span=call.span)
        try:
            found = type_of(made)
        except TypeCheckError:
            return None
        return made if _is_widened(found, call.checked_type) else None

    def agreeing(self, exprs: Sequence[RelayExpr], ty: Type) -> list[RelayExpr]:
        if not any(self.is_wide(e, ty) for e in exprs if _is_of_tensors(ty)):
            return list(exprs)
        return [self.converted(e) for e in exprs]


def _is_widened(ty: Type, was: Type) -> bool:
    """Say whether a type is another, but for what is wide in it."""
    if isinstance(was, TupleType):
        return isinstance(ty, TupleType) and all(map(_is_widened, ty.fields, was.fields))
    return isinstance(ty, TensorType) and ty.dtype == (_WIDE if was.dtype == _NARROW else was.dtype)
