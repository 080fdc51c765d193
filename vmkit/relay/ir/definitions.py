"""The data types that a module defines.

They are global infos of the ``tvm.IRModule``, under the key ``"type_definitions"``: what belongs to the module itself
rather than to one of its functions.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm.ir import GlobalVar

from ...errors import ModelError, suggest
from .adt import Constructor, TypeData
from .types import GlobalTypeVar

__all__ = ["define_type", "find_constructor", "find_type", "type_definitions", "with_functions"]

_KEY = "type_definitions"


def type_definitions(mod: tvm.IRModule) -> dict[str, TypeData]:
    """Return the data types that a module defines, by name, in the order of their names."""
    return {data.header.name_hint: data for data in mod.global_infos.get(_KEY, ())}


def define_type(mod: tvm.IRModule, *definitions: TypeData) -> None:
    """Add data types to a module, in place; one that is defined already is replaced."""
    if not definitions:
        # A module with a list of none would differ from one without a list.
        return
    known = type_definitions(mod)
    known.update((data.header.name_hint, data) for data in definitions)
    # The order means nothing: modules that define the same are equal.
    mod.update_global_info(_KEY, [known[name] for name in sorted(known)])


def find_type(mod: tvm.IRModule, name: str | GlobalTypeVar) -> TypeData:
    """Return the definition of a data type; ModelError with close names when the module has none of that name."""
    known = type_definitions(mod)
    name = name if isinstance(name, str) else name.name_hint
    if name not in known:
        raise ModelError(f"the module defines no type {name!r}{suggest(name, known)}")
    return known[name]


def find_constructor(mod: tvm.IRModule, type_name: str, name: str) -> Constructor:
    """Return a constructor of a data type; ModelError with close names when there is none of that name."""
    constructors = {c.name_hint: c for c in find_type(mod, type_name).constructors}
    if name not in constructors:
        raise ModelError(f"type {type_name} has no constructor {name!r}{suggest(name, constructors)}")
    return constructors[name]


def with_functions(mod: tvm.IRModule, functions: Mapping[GlobalVar, tvm.ir.BaseFunc] | None = None) -> tvm.IRModule:
    """Return a module with other functions (by default the same) and all else as in `mod`."""
    chosen = dict(mod.functions.items()) if functions is None else dict(functions)
    return tvm.IRModule(chosen, attrs=mod.attrs, global_infos=mod.global_infos)
