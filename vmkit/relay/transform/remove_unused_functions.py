"""Functions that no entry function reaches are removed."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError, suggest
from ..ir import Function, post_order, with_functions
from .registry import ModuleTransform, relay_pass

__all__ = ["RemoveUnusedFunctions"]


@relay_pass(opt_level=1)
def RemoveUnusedFunctions(entry_functions: Sequence[str] | None = None) -> ModuleTransform:
    """Return the pass that keeps the entry functions of a module, and what these use.

    Parameters
    ----------
    entry_functions : sequence of str, optional
        The names of the entry functions; by default ``["main"]``.
    """
    wanted = ["main"] if entry_functions is None else list(entry_functions)

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        functions = dict(mod.functions.items())
        by_name = {v.name_hint: v for v in functions}
        missing = [name for name in wanted if name not in by_name]
        if missing:
            raise ModelError(f"the module has no function {missing[0]!r}{suggest(missing[0], by_name)}")
        kept = {by_name[name] for name in wanted}
        waiting = list(kept)
        while waiting:
            function = functions[waiting.pop()]
            nodes = post_order(function) if isinstance(function, Function) else ()
            new = {n for n in nodes if isinstance(n, GlobalVar) and n in functions} - kept
            kept |= new
            waiting += new
        return with_functions(mod, {v: f for v, f in functions.items() if v in kept})

    return on_module
