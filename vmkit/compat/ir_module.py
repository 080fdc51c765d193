"""What ``tvm.IRModule`` could do with Relay's functions and data types."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm.ir import BaseFunc, GlobalVar

from vmkit.errors import ModelError
from vmkit.relay.ir import (
    Constructor,
    Expr,
    Function,
    GlobalTypeVar,
    TupleWrapper,
    TypeData,
    define_type,
    find_type,
    free_vars,
    type_definitions,
)
from vmkit.relay.prelude.by_name import define_by_name
from vmkit.relay.text.printer import node_text

from .nodes import node_astext

__all__ = ["install_module_methods", "is_relay_module"]

Key: TypeAlias = str | GlobalVar | GlobalTypeVar
"""What names a function or a data type of a module."""

_own_init = tvm.IRModule.__init__
_own_get, _own_set = tvm.IRModule.__getitem__, tvm.IRModule.__setitem__
_own_contains, _own_str = tvm.IRModule.__contains__, tvm.IRModule.__str__
_own_from_expr, _own_global_var = tvm.IRModule.from_expr, tvm.IRModule.get_global_var


def install_module_methods() -> None:
    """Give ``tvm.IRModule`` its methods for Relay; those for other functions stay."""
    module: Any = tvm.IRModule
    module.__init__ = _init
    module.__getitem__, module.__setitem__, module.__contains__ = _get, _set, _contains
    module.__str__, module.astext = _text, node_astext
    module.from_expr = staticmethod(from_expr)
    module.get_global_var = _global_var
    module.get_global_type_var, module.get_global_type_vars = _global_type_var, _global_type_vars
    module.get_type, module.get_constructor = _type_and_constructors, _constructor
    module.type_definitions = property(_type_definitions)
    module.import_from_std = _import_from_std


def is_relay_module(mod: tvm.IRModule) -> bool:
    """Say whether a module has functions or data types of Relay's, and so is written in Relay's text."""
    return any(isinstance(f, Function) for f in mod.functions.values()) or bool(type_definitions(mod))


def _init(
    self: tvm.IRModule,
    functions: Mapping[GlobalVar, BaseFunc] | None = None,
    attrs: Mapping[Any, Any] | tvm.ir.DictAttrs | None = None,
    global_infos: Mapping[str, Sequence[tvm.ir.GlobalInfo]] | None = None,
) -> None:
    # Relay's second argument was the mapping of its data types.
    if isinstance(attrs, Mapping) and attrs and all(isinstance(d, TypeData) for d in attrs.values()):
        _own_init(self, functions)
        define_type(self, *attrs.values())
    else:
        _own_init(self, functions, attrs or None, global_infos)


def _get(self: tvm.IRModule, key: Key) -> BaseFunc | TypeData:
    if isinstance(key, GlobalTypeVar):
        return find_type(self, key)
    if isinstance(key, str) and not _has(self, key):
        define_by_name(self, key)
    return _own_get(self, key)


def _has(self: tvm.IRModule, name: str) -> bool:
    return name in {variable.name_hint for variable in self.get_global_vars()}


def _global_var(self: tvm.IRModule, name: str) -> GlobalVar:
    if not _has(self, name):
        define_by_name(self, name)
    return _own_global_var(self, name)


def _set(self: tvm.IRModule, key: Key, value: BaseFunc | Expr | TypeData) -> None:
    if isinstance(value, TypeData):
        define_type(self, value)
    elif isinstance(key, GlobalTypeVar):
        raise TypeError(f"the data type {key.name_hint} is a TypeData, not a {type(value).__name__}")
    elif isinstance(value, Expr):
        _own_set(self, key, Function(free_vars(value), value))
    else:
        _own_set(self, key, value)


def _contains(self: tvm.IRModule, key: Key) -> bool:
    if isinstance(key, GlobalTypeVar):
        return key.name_hint in type_definitions(self)
    return _own_contains(self, key)


def _text(self: tvm.IRModule) -> str:
    """Return what ``print`` shows: neither a header nor the metadata, which ``astext`` has."""
    return f"{node_text(self)}\n" if is_relay_module(self) else _own_str(self)


def from_expr(
    expr: Expr | BaseFunc | TupleWrapper,
    functions: Mapping[GlobalVar, BaseFunc] | None = None,
    type_defs: Mapping[GlobalTypeVar, TypeData] | None = None,
) -> tvm.IRModule:
    """Return a module of an expression, its free variables the parameters; as in Relay, no types are inferred.

    Its name is the function's ``global_symbol``, by default ``main``, with a number where that is taken.
    """
    if isinstance(expr, TupleWrapper):
        expr = expr.astuple()
    if not isinstance(expr, Expr | Function):
        return _own_from_expr(expr, functions)
    main = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
    others = dict(functions or {})
    name = str(main.attrs.get("global_symbol") or _free_name("main", {v.name_hint for v in others}))
    mod = tvm.IRModule({**others, GlobalVar(name): main})
    define_type(mod, *dict(type_defs or {}).values())
    return mod


def _free_name(name: str, taken: Collection[str]) -> str:
    """Return a name with the first number after it that makes it one that is not taken."""
    numbered = (f"{name}_{number}" for number in itertools.count())
    return name if name not in taken else next(n for n in numbered if n not in taken)


class _Definitions(dict[GlobalTypeVar, TypeData]):
    """A map whose items are a list, as those of TVM's own map were."""

    def items(self) -> list[tuple[GlobalTypeVar, TypeData]]:  # type: ignore[override]
        return list(super().items())


def _type_definitions(self: tvm.IRModule) -> _Definitions:
    return _Definitions((data.header, data) for data in type_definitions(self).values())


def _type(self: tvm.IRModule, name: str) -> TypeData:
    if name not in type_definitions(self):
        define_by_name(self, name)
    return find_type(self, name)


def _global_type_var(self: tvm.IRModule, name: str) -> GlobalTypeVar:
    return _type(self, name).header


def _global_type_vars(self: tvm.IRModule) -> list[GlobalTypeVar]:
    return [data.header for data in type_definitions(self).values()]


def _type_and_constructors(self: tvm.IRModule, name: str) -> tuple[GlobalTypeVar | Constructor, ...]:
    data = _type(self, name)
    return (data.header, *data.constructors)


def _constructor(self: tvm.IRModule, tag: int) -> Constructor:
    for data in type_definitions(self).values():
        for constructor in data.constructors:
            if constructor.tag == tag:
                return constructor
    raise ModelError(f"there is no constructor of tag {tag} in the module")


def _import_from_std(self: tvm.IRModule, file_to_import: str) -> None:
    from vmkit.relay.library import import_from_std

    import_from_std(self, file_to_import)
