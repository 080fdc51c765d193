"""TVM's support of GPUs and accelerators, an eighth of its import: brought in once something asks for it.

What TVM's own import does for a backend is to load its library, to register how a device is detected, operators, names
of targets, functions that its C++ calls, and names in scripts. The first two are done at once, as they are cheap. All
others are asked for by name, and who asks first brings in all of it (:mod:`vmkit._tvm.backends`): by an attribute or
module of TVM, a target that is not a CPU's, a registered function, an operator or a saved program.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import tvm_ffi

from . import AUTOLOAD, GRAPH_TABLE, OPERATOR_TABLE, TARGET_TABLE
from .importing import MetaPathFinder, found_after

__all__ = ["LATE", "bring_in", "finish", "held_back"]

LATE = ("cuda", "metal", "trn")
"""The backends, each of which is ``tvm.backend.NAME`` and, once it is loaded, ``tvm.tirx.NAME``."""

_WITH_LIBRARY = ("cuda", "metal")

# What they add to scripts, and the modules that have these names.
_NAMESPACES = ("cuda", "metal", "nki", "nvshmem", "ptx", "ptx_legacy", "s_tir")
_SCRIPTS = ("tvm.tirx.script", "tvm.tirx.script.builder", "tvm.tirx.script.builder.ir", "tvm.tirx.script.parser")

# Functions that C++ calls by name, how the names of their operators begin, and modules that are theirs alone.
_FUNCTIONS = (
    "tirx.f_op_dispatcher",
    "tirx.intrinsics.cuda.get_codegen",
    "tirx.intrinsics.cuda.header_generator",
)
_OPERATORS = "tirx.ptx."
_MODULES = ("tvm.tirx.operator.intrinsics", "tvm.tirx.operator.tile_primitive")


def _may_need(saved: str) -> bool:
    """Say whether a saved program may have operators of the backends, or a target."""
    return _OPERATORS in saved or "Target" in saved


# Functions of TVM by module and name, and what says of their arguments whether the backends are asked for.
_ASKING: dict[tuple[str, str], Callable[..., bool]] = {
    (OPERATOR_TABLE, "GetOp"): lambda name: name.startswith(_OPERATORS),
    (OPERATOR_TABLE, "ListOpNames"): lambda: True,
    (TARGET_TABLE, "TargetTagListTags"): lambda: True,
    (GRAPH_TABLE, "FromJSONGraphString"): _may_need,
    ("tvm.backend", "is_loaded"): LATE.__contains__,
    ("tvm.backend", "load"): LATE.__contains__,
    ("tvm.backend.loader", "is_loaded"): LATE.__contains__,
    ("tvm.backend.loader", "load"): LATE.__contains__,
}

_SWITCH = "TVM_DEVICE_BACKEND_AUTOLOAD"
_ALL = "vmkit._tvm.backends"
_CPU = ("llvm", "c")
_undo: list[Callable[[], None]] = []


def bring_in() -> None:
    """Load the backends that were held back, with all that they register."""
    importlib.import_module(_ALL)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Have TVM, which is imported inside, leave alone the backends of :data:`LATE`, and watch for who asks for them.

    Where there are backends that others wrote, which TVM loads last, they find all of TVM's own.
    """
    autoload: Any = importlib.import_module(AUTOLOAD)
    builtin, find_others = autoload._BUILTIN_BACKENDS, autoload.entry_points

    def find_others_after(**group: str) -> Any:
        found = find_others(**group)
        for name in LATE if found and _are_held_back() else ():
            sys.modules["tvm.backend"].load(name)
        return found

    autoload._BUILTIN_BACKENDS = tuple(name for name in builtin if name not in LATE)
    autoload.entry_points = find_others_after
    try:
        yield
    finally:
        autoload._BUILTIN_BACKENDS, autoload.entry_points = builtin, find_others
    if _are_held_back():
        _load_libraries()
        _watch()


def _are_held_back() -> bool:
    """Say whether TVM's own import would have loaded the backends, as it does unless it was told not to."""
    backend = sys.modules["tvm.backend"]
    wants = not sys.modules["tvm.base"].__dict__["_RUNTIME_ONLY"] and os.environ.get(_SWITCH) != "0"
    return wants and not backend.is_loaded(LATE[0])


def finish() -> None:
    """Put back everything that watches."""
    while _undo:
        _undo.pop()()


def _load_libraries() -> None:
    """Load the libraries of devices, as far as the installation has them."""
    from tvm_ffi.libinfo import load_lib_ctypes

    loaded = sys.modules["tvm.base"].__dict__["_LOADED_LIBS"]
    folder = Path(loaded["tvm_runtime"]._name).resolve().parent
    for name in _WITH_LIBRARY:
        library = f"tvm_runtime_{name}"
        with contextlib.suppress(OSError, RuntimeError):
            loaded[library] = load_lib_ctypes("tvm", library, "RTLD_LOCAL", extra_lib_paths=[folder])


def _watch() -> None:
    """Have whatever asks for something of the backends bring them in first."""
    for name in (*_SCRIPTS, "tvm.tirx", "tvm.backend"):
        _watch_module(importlib.import_module(name), _NAMESPACES if name in _SCRIPTS else LATE)
    finder = _BackendFinder()
    sys.meta_path.insert(0, finder)
    _undo.append(lambda: sys.meta_path.remove(finder))
    _watch_targets()
    for (module_name, function), asks in _ASKING.items():
        _replace(sys.modules[module_name], function, functools.partial(_if, asks))
    for name in _FUNCTIONS:
        tvm_ffi.register_global_func(name, functools.partial(_call, name))


def _if(asks: Callable[..., bool], old: Callable[..., Any]) -> Callable[..., Any]:
    """Return what does as a function does, after it has brought in the backends if its arguments ask for them."""

    @functools.wraps(old)
    def call(*args: Any) -> Any:
        if asks(*args):
            bring_in()
        return old(*args)

    return call


def _call(name: str, *args: Any) -> Any:
    bring_in()
    return tvm_ffi.get_global_func(name)(*args)


def _replace(owner: Any, name: str, change: Callable[[Any], Any]) -> None:
    """Put something in the place of an attribute until the backends are there; one that is missing counts as None.

    What others have put there meanwhile, which may call it, stays.
    """
    had, old = name in vars(owner), vars(owner).get(name)
    made = change(old)
    setattr(owner, name, made)

    def undo() -> None:
        if vars(owner).get(name) is made:
            setattr(owner, name, old) if had else delattr(owner, name)

    _undo.append(undo)


def _watch_module(module: ModuleType, names: Sequence[str]) -> None:
    """Have a module find names that it has with the backends, and list them."""

    def get(name: str) -> Any:
        if name in names:
            bring_in()
            with contextlib.suppress(KeyError):
                return vars(module)[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)

    _replace(module, "__getattr__", lambda _: get)
    _replace(module, "__dir__", lambda _: lambda: sorted({*vars(module), *names}))
    if names is _NAMESPACES:
        # ``import *`` takes these, and what has no underscore in front from a module that does not list them.
        listed = vars(module).get("__all__") or [name for name in vars(module) if not name.startswith("_")]
        _replace(module, "__all__", lambda _: list(dict.fromkeys([*listed, *names])))


def _watch_targets() -> None:
    """Have targets of other devices than CPUs, and the detection of devices, bring in the backends."""
    from tvm.target import Target, detect_target

    own: Any = Target
    make = own.__init__

    @functools.wraps(make)
    def make_watched(self: Target, target: Any, host: Any = None) -> None:
        if not (_is_for_cpu(target) and (host is None or _is_for_cpu(host))):
            bring_in()
        make(self, target, host)

    _replace(own, "__init__", lambda _: make_watched)

    for device in _WITH_LIBRARY:
        detect_target.SUPPORTED_DEVICE[device] = functools.partial(_detect, device)


def _detect(kind: str, device: Any) -> Any:
    bring_in()
    from tvm.target import detect_target

    return detect_target.SUPPORTED_DEVICE[kind](device)


def _is_for_cpu(described: Any) -> bool:
    """Say whether a target, or the description of one, is certainly a CPU's."""
    if isinstance(described, str):
        if not described.startswith("{"):
            return described.split(" ")[0] in _CPU
        with contextlib.suppress(ValueError):
            described = json.loads(described)
    if isinstance(described, dict):
        host = described.get("host")
        return described.get("kind") in _CPU and (host is None or _is_for_cpu(host))
    return type(described).__name__ == "Target"  # one that there is was made already


class _BackendFinder(MetaPathFinder):
    """Brings in the backends before a module of theirs is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a module that came with the backends, or None for what is still to be found."""
        parts = fullname.split(".", 3)
        is_theirs = parts[:2] in (["tvm", "backend"], ["tvm", "tirx"]) and len(parts) > 2 and parts[2] in LATE
        if is_theirs or fullname.startswith(_MODULES):
            return found_after(bring_in, fullname)
        return None
