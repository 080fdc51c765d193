"""All of TVM: to import this module is to end what :mod:`vmkit._tvm.importing` began.

It is a module so that the interpreter's locks on modules see to it that this happens once, whoever asks for it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, cast

import tvm_ffi
from tvm_ffi import registry

from .._deferred import deferred, without_collections
from . import OPERATOR_TABLE, RUNTIME_TABLES, watching_tables
from .importing import RUNTIME_ONLY, TvmFinder, without_torch
from .late_backends import held_back

__all__ = ["with_quick_refusals"]

# Classes that were imported without the library that has their C++.
_LATE_CLASSES = {"script.PrinterConfig": ("tvm.runtime.script_printer", "PrinterConfig")}

# Packages of TVM that the rest of it gets on without, an eighth of its modules: its tuner, its schedules for GPUs, its
# frontends and what trains networks. They are imported once they are asked for. By the package that has them.
_LATE = {"tvm.relax": ("frontend", "training"), "tvm.s_tir": ("dlight", "meta_schedule")}


def _complete() -> None:
    """Bring in the rest of TVM, if the process has only what runs programs."""
    module = sys.modules.get("tvm")
    if module is None:
        module = importlib.import_module("tvm")
    if type(module) is ModuleType:
        return
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    with _listing_functions_once(), without_collections():
        _load_compiler()
        with held_back(), _refusing_quickly(), without_torch(), _without_late():
            spec.loader.exec_module(module)
    module.__class__ = ModuleType
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, TvmFinder)]


def _load_compiler() -> None:
    """Load the compiler's library, and have the modules that are there know what came with it."""
    if os.environ.get(RUNTIME_ONLY) == "1":
        return
    base, libinfo = sys.modules["tvm.base"], sys.modules["tvm.libinfo"]
    from tvm_ffi.libinfo import load_lib_ctypes

    try:
        library = load_lib_ctypes("tvm", "tvm_compiler", "RTLD_LOCAL", extra_lib_paths=libinfo.package_lib_paths())
    except (OSError, RuntimeError):  # as TVM's own import has it: an installation that only runs programs
        registry._SKIP_UNKNOWN_OBJECTS = True
        return
    base._LOADED_LIBS["tvm_compiler"] = library
    for name in ("tvm.base", "tvm.runtime.module"):
        sys.modules[name].__dict__["_RUNTIME_ONLY"] = False
    for tables in RUNTIME_TABLES:
        importlib.reload(sys.modules[tables])
    for key, (home, name) in _LATE_CLASSES.items():
        tvm_ffi.register_object(key)(getattr(sys.modules[home], name))


@contextlib.contextmanager
def _listing_functions_once() -> Iterator[None]:
    """Have the names of all functions listed once, and each of fifty tables search only names that it may have.

    Otherwise each goes through all names, which takes half of the import. A table takes the names that begin as it
    does and have no dot behind, after one character: those of its own package, and those beside it that begin so.
    """
    list_all, register = registry.list_global_func_names, registry.core._register_global_func
    packages: dict[str, dict[str, None]] = {}  # names by what is before their last dot
    listed_with = 0  # libraries
    is_own = True
    table: str | None = None  # the one that is being filled

    def add(name: str) -> None:
        packages.setdefault(name.rpartition(".")[0], {})[name] = None

    def listed() -> list[str]:
        nonlocal listed_with
        libraries = len(sys.modules["tvm.base"].__dict__["_LOADED_LIBS"])
        if libraries != listed_with or not is_own:
            for name in list_all():
                add(name)
            listed_with = libraries
        if table is None:
            return [name for names in packages.values() for name in names]
        beside = packages.get(table.rpartition(".")[0], {})
        return [*packages.get(table, ()), *(name for name in beside if name.startswith(table))]

    def search(namespace: str, module: str) -> None:
        nonlocal table, is_own
        # Backends that others wrote are loaded last, with libraries of their own.
        table, is_own = namespace.removeprefix("tvm."), module.startswith("tvm.") and "tvm.backend." not in module

    def search_all(_: str | None) -> None:
        nonlocal table
        table = None

    def registering(name: str, pyfunc: Callable[..., Any] | tvm_ffi.Function, override: bool) -> tvm_ffi.Function:
        registered = register(name, pyfunc, override)
        add(name)
        return registered

    registry.list_global_func_names, registry.core._register_global_func = listed, registering
    try:
        with watching_tables(search_all, before=search):
            yield
    finally:
        registry.list_global_func_names, registry.core._register_global_func = list_all, register


@contextlib.contextmanager
def _without_late() -> Iterator[None]:
    """Have the packages of :data:`_LATE` not imported now, but by the first who asks the package that has them."""
    missing = [
        f"{home}.{name}" for home, names in _LATE.items() for name in names if f"{home}.{name}" not in sys.modules
    ]
    for name in missing:
        # A module that imports it inside has this instead, and uses it in functions alone.
        sys.modules[name] = stand_in = cast("ModuleType", deferred(name))
        stand_in.__spec__ = None
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]
    for name in missing:
        home, _, last = name.rpartition(".")
        vars(sys.modules[home]).pop(last, None)
    for home, names in _LATE.items():
        package = vars(sys.modules[home])
        package["__getattr__"] = functools.partial(_import_late, home)
        package["__dir__"] = functools.partial(_names_with_late, home, names)


def _import_late(home: str, name: str) -> ModuleType:
    if name not in _LATE[home]:
        raise AttributeError(f"module {home!r} has no attribute {name!r}", name=name, obj=sys.modules[home])
    return importlib.import_module(f"{home}.{name}")


def _names_with_late(home: str, names: Sequence[str]) -> list[str]:
    return sorted({*vars(sys.modules[home]), *names})


@contextlib.contextmanager
def _refusing_quickly() -> Iterator[None]:
    """Have operators that there are not refused in Python.

    TVM's import asks for some and goes on without them. The first error in C++ reads the symbols of all libraries,
    which takes as long as a quarter of the import.
    """
    undo = list[Callable[[], None]]()

    def watch(table: str | None) -> None:
        if table == OPERATOR_TABLE:
            undo.append(with_quick_refusals(sys.modules[table]))

    try:
        with watching_tables(watch):
            yield
    finally:
        for each in undo:
            each()


def with_quick_refusals(table: Any) -> Callable[[], None]:
    """Have the functions of TVM's registry of operators refuse in Python; return what undoes that."""
    get, make, put = table.GetOp, table.RegisterOp, table.RegisterOpAttr
    read, known = table.OpGetAttr, set(table.ListOpNames())

    def get_known(name: str) -> Any:
        if name not in known:
            raise ValueError(f"operator {name} is not registered")
        return get(name)

    def make_known(name: str, doc: str) -> None:
        make(name, doc)
        known.add(name)

    def put_once(name: str, key: str, value: Any, level: int) -> None:
        # An attribute that has the value needs none; TVM would refuse one of the same level in C++.
        if not (isinstance(value, str) and name in known and read(get(name), key) == value):
            put(name, key, value, level)

    def undo() -> None:
        table.GetOp, table.RegisterOp, table.RegisterOpAttr = get, make, put

    table.GetOp, table.RegisterOp, table.RegisterOpAttr = get_known, make_known, put_once
    return undo


_complete()
