"""Which global functions of a module refer to which."""

from __future__ import annotations

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError, suggest
from ..ir import Function, post_order

__all__ = ["CallGraph"]


class CallGraph:
    """The references among the global functions of a module, as they are when it is made.

    Parameters
    ----------
    module : tvm.IRModule
        The module.

    Examples
    --------
    >>> import tvm
    >>> from vmkit import relay
    >>> x, helper = relay.var("x", "float32"), relay.GlobalVar("helper")
    >>> y = relay.var("y", "float32")
    >>> mod = tvm.IRModule({helper: relay.Function([x], x), "main": relay.Function([y], helper(helper(y)))})
    >>> graph = relay.analysis.CallGraph(mod)
    >>> graph.ref_count("helper"), graph.global_call_count("main"), graph.is_recursive("main")
    (1, 1, False)
    """

    def __init__(self, module: tvm.IRModule) -> None:
        self._module = module
        # A function that refers to another several times does so once here, as in Relay.
        self._called: dict[GlobalVar, list[GlobalVar]] = {
            gvar: [n for n in post_order(f) if isinstance(n, GlobalVar)] if isinstance(f, Function) else []
            for gvar, f in module.functions.items()
        }

    @property
    def module(self) -> tvm.IRModule:
        """The module."""
        return self._module

    def _get_global_var(self, var: str | GlobalVar) -> GlobalVar:
        if not isinstance(var, str | GlobalVar):
            raise ValueError(f"a global function is named by its name or GlobalVar, not by {type(var).__name__}")
        if isinstance(var, GlobalVar) and var in self._called:
            return var
        name = var if isinstance(var, str) else var.name_hint
        known = {gvar.name_hint: gvar for gvar in self._called}
        if name not in known:
            raise ModelError(f"the module has no function {name!r}{suggest(name, known)}")
        return known[name]

    def ref_count(self, var: str | GlobalVar) -> int:
        """Return how many global functions refer to one, itself included where it is recursive."""
        wanted = self._get_global_var(var)
        return sum(wanted in called for called in self._called.values())

    def global_call_count(self, var: str | GlobalVar) -> int:
        """Return how many global functions one refers to."""
        return len(self._called[self._get_global_var(var)])

    def is_recursive(self, var: str | GlobalVar) -> bool:
        """Say whether a global function refers to itself."""
        wanted = self._get_global_var(var)
        return wanted in self._called[wanted]

    def print_var(self, var: str | GlobalVar) -> str:
        """Return the references of one global function as text."""
        gvar = self._get_global_var(var)
        lines = [f"Call graph node: {gvar.name_hint}, #refs = {self.ref_count(gvar)}"]
        lines += [f"  call site: <{gvar.name_hint}> calls {callee.name_hint}" for callee in self._called[gvar]]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        names = sorted(gvar.name_hint for gvar in self._called)
        return "CallGraph:\n" + "".join(map(self.print_var, names))
