"""Operators of a Relax module that TVM has no kernel for: an error that names them, in place of what TVM says.

TVM fails within its passes, or leaves a call as it is until bytecode is made of it. Only then is each of the module's
calls tried by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import ir, relax

from ..errors import UnsupportedOperatorError
from ..relax.dispatch import CHOSEN_BY_TARGET
from ..relax.legalization import kernels_for_the_target, kernels_of_operators
from ..relax.positions import has_known_shapes
from ..relax.rewrite import nested_bindings
from ..runtime.failures import useful_line

__all__ = ["unsupported_operators_error"]


def unsupported_operators_error(error: Exception, mod: tvm.IRModule | None) -> UnsupportedOperatorError | None:
    """Return the error that names the operators of a module which a step failed for, None for another failure."""
    problems = {} if mod is None else dict(_problems(mod, str(error)))
    if not problems:
        return None
    return UnsupportedOperatorError("\n".join(f"{name}: {problem}" for name, problem in problems.items()), problems)


def _problems(mod: tvm.IRModule, said: str) -> Iterator[tuple[str, str]]:
    """Yield operators of a module, with the types that one is called with, and what is wrong with that call."""
    tried: set[tuple[str, str]] = set()
    for function in mod.functions.values():
        for binding in nested_bindings(function.body) if isinstance(function, relax.Function) else ():
            call = binding.value
            if not (isinstance(call, relax.Call) and isinstance(call.op, ir.Op) and call.op.name.startswith("relax.")):
                continue
            name = f"{call.op.name} of {', '.join(str(each.ty) for each in call.args)}"
            if (name, str(call.attrs)) in tried:
                continue
            tried.add((name, str(call.attrs)))
            problem = _problem(call, said)
            if problem is not None:
                yield name, problem


def _problem(call: relax.Call, said: str) -> str | None:
    """Return what is wrong with the call of an operator, None if nothing, or if it is no matter of kernels."""
    if call.op.get_attr("FLegalize") is None and call.op.name not in CHOSEN_BY_TARGET:
        is_left = "cannot emit" in said and f"R.{call.op.name.removeprefix('relax.')}(" in said
        return "TVM has no kernel for it" if is_left else None
    try:
        # Instruments and whatever else is the caller's have nothing to do with it.
        with tvm.transform.PassContext():
            alone = _alone(call)
            for each in (*kernels_for_the_target(), kernels_of_operators()):
                alone = each(alone)
    except Exception as error:
        return useful_line(error)
    left = [binding.value for binding in nested_bindings(alone["main"].body)]
    if has_known_shapes(call.ty) or not any(isinstance(v, relax.Call) and v.op.same_as(call.op) for v in left):
        return None
    return (
        "it is computed only where the shape of its result is known when it is compiled; give dimensions that are "
        "equal the same symbol, or state the shapes of its operands by relax.match_cast"
    )


def _alone(call: relax.Call) -> tvm.IRModule:
    """Return a module that does nothing but call an operator, with parameters of the types that it is called with."""
    params: list[relax.Var] = []

    def given(arg: relax.Expr) -> relax.Expr:
        if isinstance(arg, relax.Tuple):
            return relax.Tuple([given(each) for each in arg.fields])
        if not isinstance(arg.ty, relax.TensorType | relax.TupleType):
            return arg
        params.append(relax.Var(f"given{len(params)}", arg.ty))
        return params[-1]

    same = relax.Call(call.op, [given(arg) for arg in call.args], call.attrs, list(call.ty_args), call.span)
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(same))
    return builder.get()
