"""All of TVM: to import this module is to end what :mod:`vmkit._tvm.importing` began.

It is a module so that the interpreter's locks on modules see to it that this happens once, whoever asks for it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import tvm_ffi
from tvm_ffi import registry

from .._deferred import without_collections
from . import OPERATOR_TABLE, RUNTIME_TABLES, watching_tables
from .importing import RUNTIME_ONLY, TvmFinder, without_torch

# Classes that were imported without the library that has their C++.
_LATE_CLASSES = {"script.PrinterConfig": ("tvm.runtime.script_printer", "PrinterConfig")}


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
        with _refusing_quickly(), without_torch():
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
    """Have the names of all functions listed once, and each of fifty tables search its own family of them alone.

    Otherwise each goes through all names, which takes half of the import.
    """
    list_all, register = registry.list_global_func_names, registry.core._register_global_func
    families: dict[str, dict[str, None]] = {}  # names by what they begin with
    count, family = 0, ""

    def add(name: str) -> None:
        families.setdefault(name.partition(".")[0], {})[name] = None

    def listed() -> list[str]:
        nonlocal count
        if count != _function_count():  # a library was loaded
            for name in list_all():
                add(name)
            count = _function_count()
        return [name for begin, names in families.items() if begin.startswith(family) for name in names]

    def search(namespace: str) -> None:
        nonlocal family
        family = namespace.removeprefix("tvm.").partition(".")[0]

    def registering(name: str, pyfunc: Callable[..., Any] | tvm_ffi.Function, override: bool) -> tvm_ffi.Function:
        nonlocal count
        registered = register(name, pyfunc, override)
        if count and name not in families.get(name.partition(".")[0], ()):
            add(name)
            count += 1
        return registered

    registry.list_global_func_names, registry.core._register_global_func = listed, registering
    try:
        with watching_tables(lambda _: search(""), before=search):
            yield
    finally:
        registry.list_global_func_names, registry.core._register_global_func = list_all, register


def _function_count() -> int:
    return int(tvm_ffi.get_global_func("ffi.FunctionListGlobalNamesFunctor")()(-1))


@contextlib.contextmanager
def _refusing_quickly() -> Iterator[None]:
    """Have operators that there are not refused in Python.

    TVM's import asks for some and goes on without them. The first error in C++ reads the symbols of all libraries,
    which takes as long as a quarter of the import.
    """
    undo = list[Callable[[], None]]()

    def watch(table: str | None) -> None:
        if table == OPERATOR_TABLE:
            undo.append(_with_quick_refusals(sys.modules[table]))

    try:
        with watching_tables(watch):
            yield
    finally:
        for each in undo:
            each()


def _with_quick_refusals(table: Any) -> Callable[[], None]:
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
