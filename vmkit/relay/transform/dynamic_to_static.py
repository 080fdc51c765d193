"""Operators that read a shape at run time, where it is known when compiling, become those that have it as attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm

from ..analysis.infer_type import infer_module, typed
from ..ir import (
    Call,
    Constant,
    Function,
    Op,
    RelayExpr,
    TensorType,
    Tuple,
    const,
    is_call,
    post_order,
    rewrite,
    with_functions,
)
from ..op.registry import build, entry
from .evaluation import Evaluate, evaluate_now
from .known_values import taken_branch
from .registry import ModuleTransform, is_changeable, relay_pass

__all__ = ["DynamicToStatic", "dynamic_to_static"]


@relay_pass(opt_level=2)
def DynamicToStatic(*, evaluate: Evaluate = evaluate_now) -> ModuleTransform:
    """Return the pass that makes operators static whose shapes are known; see :func:`dynamic_to_static`."""
    return lambda mod: dynamic_to_static(typed(_with_branches_taken(mod)), evaluate)


def _with_branches_taken(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module, which may have no types yet, with one branch for each If on a constant.

    It comes before type inference, for which the branches of an If have one type: those of such an If need not.
    """
    result = with_functions(mod)
    for gvar, function in mod.functions.items():
        if is_changeable(function):
            result[gvar] = rewrite(function, {}, lambda node, _: taken_branch(node))
    return result


def dynamic_to_static(mod: tvm.IRModule, evaluate: Evaluate) -> tvm.IRModule:
    """Return a typed module in which ``dyn`` operators are static where what they read follows from constants.

    The shape of a tensor whose type is static counts as a constant. A type that becomes static may make another
    operator so: the pass goes on until nothing changes.

    Parameters
    ----------
    mod : tvm.IRModule
        The module.
    evaluate : callable
        Runs ``main`` of a module without parameters and returns the fields of its tuple result as arrays.
    """
    while True:
        changed = _round(mod, evaluate)
        if changed is None:
            return mod
        mod = changed


def _round(mod: tvm.IRModule, evaluate: Evaluate) -> tvm.IRModule | None:
    functions = {v: f for v, f in mod.functions.items() if is_changeable(f)}
    calls = [n for f in functions.values() for n in post_order(f) if _is_dynamic(n)]
    known = _known(dict.fromkeys(arg for call in calls for arg in call.args), evaluate)
    made: dict[Any, Any] = {}
    for call in calls:
        values = [known.get(arg) for arg in call.args]
        changed = _RULES[call.op.name](call, *values) if call.op.name in _RULES else None
        if changed is not None:
            made[call] = changed
    if not made:
        return None
    result = with_functions(mod)
    for gvar, function in functions.items():
        result[gvar] = rewrite(function, {}, lambda node, original: _moved(node, original, made))
    return infer_module(result)


def _moved(node: RelayExpr, original: RelayExpr, made: dict[RelayExpr, Call]) -> RelayExpr:
    """Return what replaces a call, on the operands as they are now."""
    if original not in made:
        return node
    static = made[original]
    position = {arg: i for i, arg in enumerate(original.args)}
    return Call(static.op, [node.args[position[a]] if a in position else a for a in static.args], static.attrs)


def _is_dynamic(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name.startswith("dyn.")


def _known(exprs: dict[RelayExpr, None], evaluate: Evaluate) -> dict[Any, np.ndarray]:
    """Return the values of those expressions that follow from constants and static shapes."""
    found: dict[Any, np.ndarray] = {}
    computed = []
    for expr in exprs:
        value = _immediate(expr)
        if value is not None:
            found[expr] = value
        elif _is_closed(expr):
            computed.append(expr)
    if computed:
        shapes = {n: const(v) for e in computed for n in post_order(e) if (v := _immediate(n)) is not None}
        body = Tuple([rewrite(e, shapes) for e in computed])
        values = evaluate(infer_module(tvm.IRModule({"main": Function([], body)})))
        found.update((e, v.numpy()) for e, v in zip(computed, values, strict=True))
    return found


def _immediate(expr: RelayExpr) -> np.ndarray | None:
    if isinstance(expr, Constant):
        return expr.data.numpy()
    if is_call(expr, "shape_of"):
        shape = _static_shape(expr.args[0])
        return None if shape is None else np.array(shape, expr.attrs.dtype)
    return None


def _static_shape(expr: RelayExpr) -> list[int] | None:
    ty = expr.checked_type_
    if not isinstance(ty, TensorType) or not all(isinstance(d, int) for d in ty.shape):
        return None
    return [int(d) for d in ty.shape]


class _Immediate:
    """The expressions whose values are at hand: a walk stops there."""

    def __contains__(self, expr: RelayExpr) -> bool:
        return _immediate(expr) is not None


def _is_closed(expr: RelayExpr) -> bool:
    """Say whether a tensor expression is made of pure operators, constants and static shapes alone."""
    if not isinstance(expr.checked_type_, TensorType):
        return False
    return all(
        isinstance(n, Op | Tuple) or (isinstance(n, Call) and isinstance(n.op, Op) and entry(n.op).is_pure)
        for n in post_order(expr, stop=_Immediate())
    )


def _attrs(call: Call) -> dict[str, Any]:
    return {f.name: getattr(call.attrs, f.name) for f in call.attrs.declared}


def _ints(value: np.ndarray) -> list[int]:
    return [int(v) for v in np.atleast_1d(value)]


def _static(call: Call, args: Sequence[RelayExpr], **read: Any) -> Call:
    """Return a call of the operator without ``dyn.``: the attributes of a call, and what it read beside its data."""
    made = entry(call.op.name.removeprefix("dyn."))
    assert made.attrs is not None
    names = {f.name for f in made.attrs.declared}
    values = {} if call.attrs is None else _attrs(call)
    return made.call(*args, **{n: v for n, v in {**values, **read}.items() if n in names})


Rule = Callable[..., Call | None]
Known: TypeAlias = np.ndarray | None
"""The value of an argument, where that follows from constants and static shapes."""


def _reading(name: str) -> Rule:
    """Return the rule of an operator of data and a vector that becomes one attribute."""

    def rule(call: Call, data: Known, vector: Known) -> Call | None:
        return None if vector is None else _static(call, call.args[:1], **{name: _ints(vector)})

    return rule


def _filled(call: Call, shape: Known) -> Call | None:
    return None if shape is None else _static(call, [], shape=_ints(shape))


def _strided_slice(call: Call, data: Known, begin: Known, end: Known, strides: Known) -> Call | None:
    if begin is None or end is None or strides is None:
        return None
    return _static(call, call.args[:1], begin=_ints(begin), end=_ints(end), strides=_ints(strides))


def _topk(call: Call, data: Known, k: Known) -> Call | None:
    return None if k is None else _static(call, call.args[:1], k=int(k.reshape(())))


def _one_hot(call: Call, indices: Known, on: Known, off: Known, depth: Known) -> Call | None:
    return None if depth is None else _static(call, call.args[:3], depth=int(depth.reshape(())))


def _pad(call: Call, data: Known, width: Known, value: Known) -> Call | None:
    if width is None:
        return None
    return _static(call, [call.args[0], call.args[2]], pad_width=[[int(v) for v in pair] for pair in width])


def _expand_dims(call: Call, data: Known, axis: Known) -> Call | None:
    return None if axis is None else _static(call, call.args[:1], axis=int(axis.reshape(())))


def _upsampling(call: Call, data: Known, height: Known, width: Known) -> Call | None:
    if height is None or width is None:
        return None
    return _static(call, call.args[:1], scale_h=float(height), scale_w=float(width))


def _upsampling3d(call: Call, data: Known, depth: Known, height: Known, width: Known) -> Call | None:
    if depth is None or height is None or width is None:
        return None
    return _static(call, call.args[:1], scale_d=float(depth), scale_h=float(height), scale_w=float(width))


def _resize2d(call: Call, data: Known, size: Known, roi: Known) -> Call | None:
    if size is None or roi is None:
        return None
    return _static(call, call.args[:1], size=_ints(size), roi=[float(v) for v in roi])


def _sparse_to_dense(call: Call, indices: Known, values: Known, default: Known, shape: Known) -> Call | None:
    if shape is None:
        return None
    return build("sparse_to_dense", call.args[0], _ints(shape), call.args[1], call.args[2])


_RULES: dict[str, Rule] = {
    "dyn.broadcast_to": _reading("shape"),
    "dyn.expand_dims": _expand_dims,
    "dyn.full": _reading("shape"),
    "dyn.image.resize2d": _resize2d,
    "dyn.nn.pad": _pad,
    "dyn.nn.upsampling": _upsampling,
    "dyn.nn.upsampling3d": _upsampling3d,
    "dyn.one_hot": _one_hot,
    "dyn.ones": _filled,
    "dyn.reshape": _reading("newshape"),
    "dyn.sparse_to_dense": _sparse_to_dense,
    "dyn.squeeze": _reading("axis"),
    "dyn.strided_slice": _strided_slice,
    "dyn.tile": _reading("reps"),
    "dyn.topk": _topk,
    "dyn.zeros": _filled,
}
