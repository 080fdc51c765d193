"""The table of passes: a pass is one decorated function in one file, and belongs to the package of that file.

>>> @relay_pass(opt_level=0)
... def Nothing() -> ModuleTransform:
...     return lambda mod: mod
>>> Nothing().info.name, "Nothing" in PASSES
('Nothing', True)
>>> del PASSES["Nothing"]; PASS_NAMES.discard("Nothing")
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import tvm

from ..._later import LATER
from ...errors import suggest
from ..analysis.infer_type import infer_changed, typed
from ..diagnostics import reported
from ..ir import Function, with_functions

__all__ = [
    "PASSES",
    "PASS_NAMES",
    "FunctionTransform",
    "ModuleTransform",
    "is_changeable",
    "on_functions",
    "passes_by_name",
    "per_function",
    "relay_pass",
]

ModuleTransform = Callable[[tvm.IRModule], tvm.IRModule]
FunctionTransform = Callable[[Function], Function]

# Those of all packages, by the functions that make them.
PASSES: dict[str, Callable[..., tvm.transform.Pass]] = {}
# What ``disabled_pass`` may name. Relay calls a few passes otherwise than the functions that make them.
PASS_NAMES: set[str] = set()

_LEFT_ALONE = ("Compiler", "SkipOptimization")


def relay_pass(
    opt_level: int, name: str = ""
) -> Callable[[Callable[..., ModuleTransform]], Callable[..., tvm.transform.Pass]]:
    """Register the decorated function, which makes a transform of modules from options, as a pass.

    Parameters
    ----------
    opt_level : int
        The optimisation level from which a ``Sequential`` runs it.
    name : str
        The name of the pass, where it is not that of the function.
    """

    def decorate(make: Callable[..., ModuleTransform]) -> Callable[..., tvm.transform.Pass]:
        pass_name = name or make.__name__

        def construct(*args: Any, **kwargs: Any) -> tvm.transform.Pass:
            transform = make(*args, **kwargs)

            def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
                with reported(mod):
                    return transform(mod)

            return tvm.transform.module_pass(run, opt_level=opt_level, name=pass_name)

        functools.update_wrapper(construct, make)
        PASSES[make.__name__] = construct
        PASS_NAMES.add(pass_name)
        return construct

    return decorate


def passes_by_name(
    package: str, title: str, others: Iterable[str]
) -> tuple[Callable[[str], Callable[..., tvm.transform.Pass]], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``, which serve the passes that are defined in it.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.
    title : str
        What it is called where a name is not known.
    others : iterable of str
        The other names of the package.
    """

    def own() -> dict[str, Callable[..., tvm.transform.Pass]]:
        later = LATER.get(package, {})
        return {n: make for n, make in PASSES.items() if n in later or make.__module__.startswith(f"{package}.")}

    def get(name: str) -> Callable[..., tvm.transform.Pass]:
        passes = own()
        if name not in passes:
            raise AttributeError(f"{title} has no pass {name!r}{suggest(name, passes)}")
        return passes[name]

    return get, lambda: sorted({*others, *own()})


def per_function(change: FunctionTransform) -> ModuleTransform:
    """Return a transform of modules from one of typed functions; see :func:`on_functions`."""
    return lambda mod: on_functions(typed(mod), change)


def is_changeable(function: tvm.ir.BaseFunc) -> TypeGuard[Function]:
    """Say whether passes change something: a function of Relay's, for no other compiler and not to be skipped."""
    return isinstance(function, Function) and not any(function.attrs.get(key) for key in _LEFT_ALONE)


def on_functions(mod: tvm.IRModule, change: FunctionTransform, infer: ModuleTransform = infer_changed) -> tvm.IRModule:
    """Return a module with its Relay functions changed, and its types inferred again where any was.

    Functions for another compiler, and those marked to be skipped, stay as they are. `infer` may write types into the
    nodes that it gets where `mod` is typed: what has none then is what `change` made.
    """
    result = with_functions(mod)
    is_changed = False
    for gvar, function in mod.functions.items():
        if not is_changeable(function):
            continue
        changed = change(function)
        if not changed.same_as(function):
            result[gvar] = changed
            is_changed = True
    return infer(result) if is_changed else mod
