"""TVM in two steps: what runs programs when it is imported, the rest of it when that is asked for.

``import tvm`` takes most of a second, and most of that is the compiler: 259 MB of library and 600 modules. Running a
program needs ``tvm.base``, ``tvm.runtime`` and the runtime's library alone. So once vmkit is imported ``import tvm``
brings in these, and the first name, or the first module, that is asked for beyond them brings in the rest
(:mod:`vmkit._tvm.whole`). The module, and the classes of tensors and devices, are the same ones before and after. A
process that has imported TVM by itself keeps it as it is.

tvm-ffi and TVM import torch where it is installed, which takes seconds, in order to convert its tensors faster, and
CUDA's bindings for their streams. Here they do so only if the process has imported torch, or those, already, and on
Windows, where libraries clash in the other order.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from .._deferred import without_collections

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # Python asks finders and loaders for their methods alone, and these classes come with modules for files.
    Loader = MetaPathFinder = object

__all__ = ["RUNTIME_ONLY", "MetaPathFinder", "TvmFinder", "found_after", "install", "whole", "without_torch"]

RUNTIME_ONLY = "TVM_USE_RUNTIME_LIB"
"""The environment variable that has TVM leave its compiler's library alone, if it is 1."""

_WHOLE = "vmkit._tvm.whole"
_HEAVY = ("torch", "cuda")
_FIRST = frozenset(("_version", "base", "libinfo", "runtime", "support"))
# Its classes are in a library that TVM loads later. TVM goes on without them, after an error in C++ that takes 0.2 s.
_DISTRIBUTED, _DISTRIBUTED_FUNCTION = "tvm.runtime.disco", "runtime.disco.SessionThreaded"

_here = threading.local()


def install() -> None:
    """Have TVM and tvm-ffi imported as this module says, as far as they are not imported yet."""
    if "tvm" not in sys.modules and not any(isinstance(finder, TvmFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, TvmFinder())


def whole() -> None:
    """Bring in all of TVM, with what it registers: passes, functions in Python, the libraries of devices."""
    importlib.import_module(_WHOLE)


@contextlib.contextmanager
def without_torch() -> Iterator[None]:
    """Have modules that this thread imports find torch only if the process has it already."""
    _here.without_torch = sys.platform != "win32" and "torch" not in sys.modules
    try:
        yield
    finally:
        _here.without_torch = False


class TvmFinder(MetaPathFinder):
    """Finds TVM, tvm-ffi and their parts where others do, but has them begin differently."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what is to be loaded, or None for what has nothing to do with TVM."""
        package, _, rest = fullname.partition(".")
        if package in _HEAVY and getattr(_here, "without_torch", False) and package not in sys.modules:
            raise ModuleNotFoundError(f"TVM is imported without {package}", name=fullname)
        if package not in ("tvm", "tvm_ffi") or getattr(_here, "searching", False):
            return None
        if fullname == "tvm_ffi":
            return _with_loader(fullname, _WithoutTorch)
        if fullname == "tvm":
            return _with_loader(fullname, _RuntimeFirst)
        if package == "tvm" and rest.split(".")[0] not in _FIRST:
            return found_after(whole, fullname)
        if fullname == _DISTRIBUTED and not _is_registered(_DISTRIBUTED_FUNCTION):
            raise ModuleNotFoundError(f"{fullname} needs a library that is not loaded", name=fullname)
        return None


def _with_loader(name: str, kind: type[_Around]) -> ModuleSpec | None:
    """Return where other finders find a module, with another loader around theirs."""
    _here.searching = True
    try:
        spec = importlib.util.find_spec(name)
    finally:
        _here.searching = False
    if spec is not None and spec.loader is not None:
        spec.loader = kind(spec.loader)
    return spec


def found_after(bring_in: Callable[[], None], name: str) -> ModuleSpec | None:
    """Bring in more of TVM; return a module that came with it, or None for one that is still to be found."""
    bring_in()
    module = sys.modules.get(name)
    if module is None:
        return None
    # Of a module that is there after all the interpreter takes the module's own word for how to load it.
    module.__spec__ = ModuleSpec(name, _Present(module))
    return module.__spec__


def _is_registered(function: str) -> bool:
    import tvm_ffi

    return tvm_ffi.get_global_func(function, allow_missing=True) is not None


class _Around(Loader):
    """A loader that does something else around what the proper one does."""

    def __init__(self, proper: Loader) -> None:
        self.proper = proper

    def __getattr__(self, name: str) -> object:
        # Who asks for source, code or files before the module is loaded asks the proper one.
        return getattr(self.proper, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.proper.create_module(spec)


class _WithoutTorch(_Around):
    """Loads tvm-ffi without torch."""

    def exec_module(self, module: ModuleType) -> None:
        _as_loaded_by(module, self.proper)
        with without_torch(), without_collections():
            self.proper.exec_module(module)


class _RuntimeFirst(_Around):
    """Loads of TVM what runs programs."""

    def exec_module(self, module: ModuleType) -> None:
        _as_loaded_by(module, self.proper)
        with _without_compiler(), without_collections():
            importlib.import_module("tvm.base")
            importlib.import_module("tvm.runtime")
        module.__dict__["__version__"] = sys.modules["tvm.libinfo"].__dict__["__version__"]
        _load_more_functions()
        module.__class__ = _RunningTvm


class _RunningTvm(ModuleType):
    """The module ``tvm`` as long as it has only what runs programs."""

    def __getattr__(self, name: str) -> object:
        if not (name.startswith("__") and name.endswith("__")):
            whole()
            with contextlib.suppress(KeyError):
                return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        whole()
        return sorted(self.__dict__)


class _Present(Loader):
    """Loads a module that is there."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def _as_loaded_by(module: ModuleType, proper: Loader) -> None:
    """Have a module say that its own loader loaded it, which is asked for its source and its files."""
    module.__loader__ = proper
    if module.__spec__ is not None:
        module.__spec__.loader = proper


@contextlib.contextmanager
def _without_compiler() -> Iterator[None]:
    """Have TVM load its runtime's library alone, and leave alone the classes that the other would have brought."""
    from tvm_ffi import core, registry

    told, find, skip = os.environ.get(RUNTIME_ONLY), core._object_type_key_to_index, registry._SKIP_UNKNOWN_OBJECTS
    os.environ[RUNTIME_ONLY] = "1"
    # A class that is not there is an error in C++, the first of which reads the symbols of all libraries: 0.2 s.
    core._object_type_key_to_index = lambda type_key: None if type_key.startswith("script.") else find(type_key)
    try:
        yield
    finally:
        core._object_type_key_to_index, registry._SKIP_UNKNOWN_OBJECTS = find, skip
        if told is None:
            del os.environ[RUNTIME_ONLY]
        else:
            os.environ[RUNTIME_ONLY] = told


def _load_more_functions() -> None:
    """Load the library of functions that programs may call, such as sorting; TVM does it at the end of its import."""
    from tvm_ffi.libinfo import load_lib_ctypes

    base, libinfo = sys.modules["tvm.base"], sys.modules["tvm.libinfo"]
    with contextlib.suppress(OSError, RuntimeError):  # an installation may do without, as TVM's own import does
        base._LOADED_LIBS["tvm_runtime_extra"] = load_lib_ctypes(
            package="tvm",
            target_name="tvm_runtime_extra",
            mode="RTLD_LOCAL",
            extra_lib_paths=libinfo.package_lib_paths(),
        )
