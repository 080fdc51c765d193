"""Passes over whole modules, written by users."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tvm

from .registry import PASS_NAMES

__all__ = ["module_pass"]

_own_module_pass = tvm.transform.module_pass


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Return a pass over modules, whose name ``required_pass`` and ``disabled_pass`` then know; or a decorator.

    Parameters
    ----------
    pass_func : callable or class, optional
        ``f(module, pass_context) -> module``, or a class with such a method ``transform_module``; the class is then
        called with its own arguments to make the pass.
    opt_level : int
        The optimisation level from which a ``Sequential`` runs it.
    name : str, optional
        The name; by default that of the function or class.
    required : sequence of str, optional
        Passes of TVM's to run before.
    traceable : bool
        Whether TVM's traces record it.

    Examples
    --------
    >>> from vmkit import PassContext, relay
    >>> @relay.transform.module_pass(opt_level=1)
    ... def as_it_is(mod, context):
    ...     return mod
    >>> list(PassContext(required_pass=["as_it_is"]).required_pass)
    ['as_it_is']
    """
    if opt_level is None:
        raise ValueError("module_pass needs opt_level, the level from which a Sequential runs it")

    def make(given: Callable[..., Any]) -> Any:
        PASS_NAMES.add(name or given.__name__)
        return _own_module_pass(given, opt_level, name, list(required or ()), traceable)

    if pass_func is None:
        return make
    if not inspect.isclass(pass_func) and not callable(pass_func):
        raise TypeError(f"a pass is made of a function or a class, not of {type(pass_func).__name__}")
    return make(pass_func)
