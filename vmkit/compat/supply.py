"""``tvm.ir.supply``: names, and global variables, that are not in use yet."""

from __future__ import annotations

from collections.abc import Iterable

import tvm
from tvm.ir import GlobalVar
from tvm.ir.supply import UniqueNameSupply

from .backend_names import mangle_module_name

__all__ = ["GlobalVarSupply", "NameSupply"]

NameSupply = UniqueNameSupply


class GlobalVarSupply:
    """Gives global variables of fresh names, and the one variable of each name.

    Parameters
    ----------
    value : NameSupply, IRModule or iterable of IRModule, optional
        Where names come from, or the modules whose names are taken; those of one module get its name before them.
    """

    def __init__(self, value: UniqueNameSupply | tvm.IRModule | Iterable[tvm.IRModule] | None = None) -> None:
        self._names = value if isinstance(value, UniqueNameSupply) else UniqueNameSupply(_prefix(value))
        self._known: dict[str, GlobalVar] = {}
        if value is None or isinstance(value, UniqueNameSupply):
            return
        modules: Iterable[tvm.IRModule] = [value] if isinstance(value, tvm.IRModule) else value
        for mod in modules:
            for gvar in mod.get_global_vars():
                self.reserve_global(gvar)

    def fresh_global(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """Return a variable of a name that is not in use, made from one."""
        made = GlobalVar(self._names.fresh_name(name, add_prefix))
        self._known[made.name_hint] = made
        return made

    def unique_global_for(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """Return the variable of a name, which is made when it is first asked for."""
        final = str(self._names.reserve_name(name, add_prefix))
        return self._known.setdefault(final, GlobalVar(final))

    def reserve_global(self, global_var: GlobalVar, allow_conflict: bool = False) -> None:
        """Take a variable's name, as it is; ValueError for one that another has, unless `allow_conflict`."""
        name = str(global_var.name_hint)
        if not allow_conflict and name in self._known:
            raise ValueError(f"there is a global variable {name} already")
        self._names.reserve_name(name, False)
        self._known[name] = global_var


def _prefix(value: object) -> str:
    if not isinstance(value, tvm.IRModule):
        return ""
    return mangle_module_name(str((value.attrs or {}).get("mod_name", "default")))
