"""Operators that train and infer differently become what they are at inference: products, sums, nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import tvm

from ..analysis.infer_type import infer_changed, typed
from ..ir import Call, RelayExpr, Tuple, TupleGetItem, const, is_call, rewrite, with_functions
from ..op.registry import build
from .registry import ModuleTransform, is_changeable, relay_pass

__all__ = ["SimplifyInference", "simplify_inference"]


@relay_pass(opt_level=0)
def SimplifyInference() -> ModuleTransform:
    """Return the pass that takes operators of training apart; see :func:`simplify_inference`."""
    return lambda mod: simplify_inference(typed(mod))


def simplify_inference(mod: tvm.IRModule, where: Callable[[Call], bool] = lambda call: True) -> tvm.IRModule:
    """Return a typed module without batch normalisation and dropout.

    Batch normalisation becomes a scale and a shift for each channel, which constant folding computes and which fuse
    into the operator before them; dropout becomes its input.

    Parameters
    ----------
    mod : tvm.IRModule
        The module.
    where : callable
        Says of a call of one of these operators whether it is meant; by default all are.
    """

    def simplified(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        if is_call(node, *_RULES) and where(cast("Call", original)):
            return _RULES[node.op.name](node, cast("Call", original))
        return node

    result = with_functions(mod)
    for gvar, function in mod.functions.items():
        if is_changeable(function):
            result[gvar] = rewrite(function, {}, simplified)
    return infer_changed(result)


def _batch_norm(call: Call, original: Call) -> Tuple:
    data, gamma, beta, mean, variance = call.args
    ty = original.args[0].checked_type
    rank = len(ty.shape)
    attrs = call.attrs
    # These very expressions, in this order, are what scripts compare with.
    scale = const(1.0, ty.dtype) / build("sqrt", variance + const(attrs.epsilon, ty.dtype))
    scale = scale * gamma if attrs.scale else scale
    shift = build("negative", mean) * scale
    shift = shift + beta if attrs.center else shift
    after = rank - 1 - attrs.axis % rank
    scale, shift = (build("expand_dims", v, axis=1, num_newaxis=after) if after else v for v in (scale, shift))
    return Tuple([data * scale + shift, mean, variance])


def _dropout(call: Call, original: Call) -> Tuple:
    return Tuple([call.args[0], build("ones_like", call.args[0])])


_RULES: dict[str, Callable[[Call, Call], Tuple]] = {"nn.batch_norm": _batch_norm, "nn.dropout": _dropout}
