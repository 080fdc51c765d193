"""Passes over one Relay function at a time, written by users."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tvm

from ...errors import OptionError, suggest
from ..analysis.infer_type import inferred
from ..ir import Function
from .registry import PASS_NAMES, PASSES, on_functions

__all__ = ["FunctionPass", "function_pass"]

FunctionPass = tvm.transform.ModulePass


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
) -> Any:
    """Return a pass that changes each Relay function of a module; may be used as a decorator.

    Parameters
    ----------
    pass_func : callable or class, optional
        ``f(function, module, pass_context) -> function``, or a class with such a method ``transform_function``; the
        class is then called with its own arguments to make the pass.
    opt_level : int
        The optimisation level from which a ``Sequential`` runs it.
    name : str, optional
        The name; by default that of the function or class.
    required : sequence of str, optional
        Passes to run before. Types need not be among them: they are inferred again after a change.

    Examples
    --------
    >>> from vmkit import relay
    >>> @relay.transform.function_pass(opt_level=1)
    ... def unchanged(function, mod, context):
    ...     return function
    >>> unchanged.info.name
    'unchanged'
    """
    if opt_level is None:
        raise ValueError("function_pass needs opt_level, the level from which a Sequential runs it")

    def make(given: Any) -> Any:
        pass_name = name or given.__name__
        PASS_NAMES.add(pass_name)
        if inspect.isclass(given):
            return _made_by_class(given, opt_level, pass_name, list(required or ()))
        return _made(given, opt_level, pass_name, list(required or ()))

    return make if pass_func is None else make(pass_func)


def _passes(names: list[str]) -> list[tvm.transform.Pass]:
    for name in names:
        if name not in PASSES:
            raise OptionError(f"a required pass {name!r} is not known{suggest(name, PASSES)}")
    return [PASSES[name]() for name in names]


def _made(change: Callable[..., Any], opt_level: int, name: str, required: list[str]) -> tvm.transform.Pass:
    before = _passes(required)

    def on_module(mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        for each in before:
            mod = each(mod)

        def checked(function: Function) -> Function:
            changed = change(function, mod, context)
            if not isinstance(changed, Function):
                raise TypeError(f"pass {name} must return a relay.Function, not {type(changed).__name__}")
            return changed

        return on_functions(mod, checked, inferred)

    return tvm.transform.module_pass(on_module, opt_level=opt_level, name=name)


def _made_by_class(cls: type, opt_level: int, name: str, required: list[str]) -> Callable[..., tvm.transform.Pass]:
    @functools.wraps(cls, updated=())
    def construct(*args: Any, **kwargs: Any) -> tvm.transform.Pass:
        return _made(cls(*args, **kwargs).transform_function, opt_level, name, required)

    return construct
