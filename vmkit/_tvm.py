"""Every private or unstable name of TVM and tvm-ffi that vmkit uses, each with the reason why.

TVM promises nothing about the names below, and has no public ones for what they do. With a new release of TVM this is
the file to go through; nothing else in vmkit reaches past what TVM documents. It was written against apache-tvm 0.27
and apache-tvm-ffi 0.1.14.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import tvm
import tvm_ffi
from tvm.ir import GlobalVar
from tvm.ir import _ffi_api as _ir_ffi
from tvm.ir.expr import TensorLoad
from tvm.libinfo import find_libtvm_runtime
from tvm.runtime import Device, Tensor
from tvm_ffi.core import CObject, ObjectConvertible
from tvm_ffi.libinfo import find_libtvm_ffi

if TYPE_CHECKING:
    from tvm import relax, s_tir

__all__ = [
    "DEVICE_NAMES",
    "DEVICE_TYPES",
    "OLD_API",
    "OLD_BACKEND",
    "OLD_FFI",
    "PASSENGER_OPTION",
    "CObject",
    "ObjectConvertible",
    "TensorLoad",
    "allocate_storage",
    "array_item",
    "array_items",
    "begin_block",
    "c_module",
    "call_global_vars_by",
    "configure_pool",
    "decide_dialect",
    "declare_packed",
    "empty_pools",
    "end_block",
    "fail_packed",
    "from_dlpack",
    "global_function_names",
    "has_global_function",
    "host_features",
    "kernels_of",
    "limit_threads_of_this_thread",
    "link_executable",
    "load_bytecode",
    "pool_size",
    "put_code",
    "reference_count",
    "register_error",
    "register_operator",
    "register_reducer",
    "retyped",
    "tensor_view",
    "unchecked_schedule",
]

E = TypeVar("E")

OLD_FFI = "tvm._ffi"
"""Where TVM kept its error class and its table of functions until 0.20, private as it was; scripts import both."""

PASSENGER_OPTION = "tirx.add_lower_pass"
"""An option of ``PassContext`` that holds a list and that no pass of TVM 0.27 reads: there is no public way to register
an option of one's own, so those of Relay's passes travel in it."""

OLD_BACKEND = "tvm.relay.backend._backend"
"""Where Relay's backend had the functions of its C++, which tools called."""

OLD_API = "_ffi_api"
"""What each package of TVM called its table of functions from C++; scripts for tests reach into Relay's."""

# TensorLoad (tvm.ir.expr): the node of a read of a buffer; TVM moved it between modules in each of the last releases.
# CObject (tvm_ffi.core): the base of all objects of tvm-ffi, those without a registered Python class too.
# ObjectConvertible (tvm_ffi.core): what may stand for an object in a call; its name has changed once.


# -- devices

# The two tables in which TVM has the names of types of device; its public functions take a name and tell none.
DEVICE_TYPES: Mapping[str, int] = Device._DEVICE_NAME_TO_TYPE
DEVICE_NAMES: Mapping[int, str] = Device._DEVICE_TYPE_TO_NAME


# -- tensors

# TVM registers its own class of tensors with tvm-ffi, which says in its types only that it returns one of its own.
from_dlpack: Callable[[Any], Tensor] = cast("Callable[[Any], Tensor]", tvm_ffi.from_dlpack)


def tensor_view(tensor: Tensor, shape: Sequence[int], dtype: str) -> Tensor:
    """Return the memory of a tensor, which the view keeps alive, as one of another shape and data type.

    ``Tensor._create_view``: nothing public gives a tensor over the memory of another, in a data type that DLPack does
    not know from numpy.
    """
    raw: Any = tensor
    return raw._create_view(tuple(shape), dtype)


# -- IR


def retyped(expr: E, ty: Any) -> E:
    """Give a Relax expression its type, and return it.

    ``relax.expr._update_type``: what is built outside a ``BlockBuilder`` has none, and passes of TVM read it.
    """
    from tvm import relax

    relax.expr._update_type(expr, ty)
    return expr


def begin_block(builder: relax.BlockBuilder) -> None:
    """Begin a binding block: ``BlockBuilder._begin_binding_block``, which is public for dataflow blocks alone."""
    raw: Any = builder
    raw._begin_binding_block()


def end_block(builder: relax.BlockBuilder) -> relax.BindingBlock:
    """End the block that :func:`begin_block` began, and return it."""
    raw: Any = builder
    return raw._end_block()


def register_operator(name: str, doc: str) -> None:
    """Put an operator into TVM's registry: ``tvm.ir._ffi_api.RegisterOp``, whose public form is in C++."""
    _ir_ffi.RegisterOp(name, doc)


def call_global_vars_by(call: Callable[[GlobalVar, tuple[Any, ...]], Any]) -> None:
    """Have ``GlobalVar.__call__`` ask `call` first, which returns None for arguments that are not its own.

    A dialect in Python has no other way in: TVM's method makes a call of its own language from any arguments. For those
    that `call` leaves alone nothing changes. The newest `call` is asked first; one that is already is not put in twice.
    """
    older = GlobalVar.__call__
    if getattr(older, "asks", None) is call:
        return

    def call_either(self: GlobalVar, *args: Any) -> Any:
        made = call(self, args)
        return older(self, *args) if made is None else made

    call_either.asks = call  # type: ignore[attr-defined]
    kind: Any = GlobalVar
    kind.__call__ = call_either


def decide_dialect(is_scheduled: Callable[[object], bool]) -> None:
    """Have the parser of TVMScript ask of a function that does not say ``s_tir`` whether it is in that dialect.

    The decorator's default stands in ``tvm.tirx.script.parser.parser.find_decorator_annotation``, which is called for
    it; there is no option. What the functions of modules say is found there, too, and not by the decorator itself.
    """
    parser: Any = importlib.import_module("tvm.tirx.script.parser.parser")
    older = parser.find_decorator_annotation
    if getattr(older, "asks", None) is is_scheduled:
        return

    def find(node: object, annotation: str, default: bool = True) -> bool:
        said: bool = older(node, annotation, default=default)
        return said or (annotation == "s_tir" and is_scheduled(node))

    find.asks = is_scheduled  # type: ignore[attr-defined]
    parser.find_decorator_annotation = find


def global_function_names() -> list[str]:
    """Return the names of TVM's packed functions: ``tvm_ffi.registry``, from which passes and options are read."""
    return tvm_ffi.registry.list_global_func_names()


def has_global_function(name: str) -> bool:
    """Return whether TVM has a packed function of a name; listing all of them takes a thousand times as long."""
    return tvm_ffi.get_global_func(name, allow_missing=True) is not None


def register_error(name: str, kind: type[Exception]) -> None:
    """Have errors of a name that cross TVM's C++ come back as a class: ``tvm_ffi.register_error``."""
    tvm_ffi.register_error(name, kind)


# -- schedules


def register_reducer(name: str, combine: Callable[[Any, Any], Any], start: Callable[[str], Any]) -> None:
    """Have schedules know a reduction of one value: ``s_tir.schedule.RegisterReducer``, which has no Python interface.

    Without it, ``rfactor`` takes a reduction for one that cannot be cut in parts.
    """
    # The table of global functions is never freed; TVM's of reductions is, when Python is gone already.
    parts: tuple[Callable[..., Any], ...] = (
        lambda one, other: [combine(one[0], other[0])],
        lambda values: [start(str(values[0].ty.dtype))],
    )
    names = (f"vmkit.reducer.{name}.combine", f"vmkit.reducer.{name}.start")
    for each, part in zip(names, parts, strict=True):
        tvm_ffi.register_global_func(each, part, override=True)
    tvm.get_global_func("s_tir.schedule.RegisterReducer")(1, *map(tvm.get_global_func, names))


def unchecked_schedule(function: tvm.tirx.PrimFunc) -> s_tir.Schedule:
    """Return the schedule of a kernel whose methods do not compare their arguments with their annotations.

    TVM does that in Python, in a decorator, at each of the many questions that schedule rules have; C++ checks its
    arguments as well. A copy of the schedule is TVM's own.
    """
    return _unchecked_class()(function)


@functools.cache
def _unchecked_class() -> type[s_tir.Schedule]:
    from tvm import s_tir

    methods = {name: each for name, each in vars(s_tir.Schedule).items() if isinstance(each, FunctionType)}
    return type("UncheckedSchedule", (s_tir.Schedule,), {n: inspect.unwrap(each) for n, each in methods.items()})


# -- building. The three steps of ``tvm.relax.build`` by themselves: vmkit's bytecode is changed between them.


def put_code(builder: relax.ExecBuilder, mod: tvm.IRModule) -> tvm.IRModule:
    """Write the bytecode of a module's Relax functions into a builder; return the module of what is left."""
    from tvm.relax.vm_build import _vmcodegen

    return _vmcodegen(builder, mod, "bytecode")


def kernels_of(mod: tvm.IRModule) -> tvm.IRModule | None:
    """Return the kernels of a module alone; None where it has none."""
    from tvm.relax.vm_build import _filter_tir

    return _filter_tir(mod)


def link_executable(
    builder: relax.ExecBuilder, target: tvm.target.Target, kernels: tvm.IRModule | None, tir_pipeline: Any
) -> tvm.runtime.Module:
    """Build kernels, and return the module of the builder's bytecode that imports them."""
    from tvm.relax.vm_build import _vmlink

    return _vmlink(builder, target, kernels, tir_pipeline=tir_pipeline).mod


# -- running. Functions that TVM registers from C++ by names alone, without a Python interface.

pool_size: Callable[[], int] = tvm.get_global_func("runtime.NumThreads")
"""The number of threads that the calling thread's pool has, which is made by asking for it."""

configure_pool: Callable[[int, int], None] = tvm.get_global_func("runtime.config_threadpool")
"""Make the calling thread's pool anew, from a mode of affinity and a number of threads."""

array_item: Callable[[Any, int], Any] = tvm_ffi.get_global_func("ffi.ArrayGetItem")
"""Element of an array; ``tvm_ffi.Array`` has it too, after a conversion of its own that costs more than the read."""

_array_size: Callable[[Any], int] = tvm_ffi.get_global_func("ffi.ArraySize")


def array_items(array: Any) -> list[Any]:
    """Return the elements of an array; ``list(array)`` asks for its size and checks the place before each of them."""
    return [array_item(array, i) for i in range(_array_size(array))]


host_features: Callable[[], Mapping[str, bool]] = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")
"""What LLVM detects on this machine; ``tvm.target.codegen`` has what a named cpu should have."""


def c_module(source: str, functions: list[str]) -> tvm.runtime.Module:
    """Return the module of C that defines packed functions, which is compiled when it is run or exported."""
    return tvm.get_global_func("runtime.CSourceModuleCreate")(source, "c", functions, [])


def load_library(path: Path) -> tvm.runtime.Module:
    """Return the module of a file, which is unmapped once nothing refers to it; TVM's own loader keeps it for ever."""
    return cast(tvm.runtime.Module, tvm_ffi.load_module(str(path), keep_module_alive=False))


def load_bytecode(code: bytes) -> tvm.runtime.Module:
    """Return the module of an executable's bytes, which the VM trusts; the public loader takes files alone."""
    return tvm.get_global_func("ffi.Module.load_from_bytes.relax.VMExecutable")(code)


# runtime::threading::SetMaxConcurrency of TVM's C++ interface, which its Python one lacks: the limit of the calling
# thread alone, from which the thread's pool is made.
limit_threads_of_this_thread: Callable[[int], Any] = ctypes.CDLL(find_libtvm_runtime())[
    "_ZN3tvm7runtime9threading17SetMaxConcurrencyEi"
]

# The C interface of tvm-ffi. A packed function in Python costs microseconds a call; one with a C signature does not.
_C_INTERFACE = ctypes.CDLL(find_libtvm_ffi())
_PackedFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t)
_declared: list[Any] = []  # ctypes frees a callback that nobody holds


class _Bytes(ctypes.Structure):
    """TVMFFIByteArray of tvm-ffi's C interface."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


def declare_packed(name: str, function: Callable[[int, int, int, int], int]) -> None:
    """Register a function of (self, arguments, their number, address of the result) by name, without any conversion.

    It returns 0, or -1 after :func:`fail_packed`.
    """
    callback, handle, encoded = _PackedFunction(function), ctypes.c_void_p(), name.encode()
    _declared.append(callback)
    if _C_INTERFACE.TVMFFIFunctionCreate(
        None, callback, None, ctypes.byref(handle)
    ) or _C_INTERFACE.TVMFFIFunctionSetGlobal(ctypes.byref(_Bytes(encoded, len(encoded))), handle, 1):
        raise ImportError(f"{name} cannot be registered with tvm-ffi")


def allocate_storage(*args: Any) -> tvm_ffi.Object:
    """Return what the VM's own ``alloc_storage`` does for the arguments that bytecode gives it."""
    made: tvm_ffi.Object = tvm.get_global_func("vm.builtin.alloc_storage")(*args)
    return made


def empty_pools() -> None:
    """Give the system what the VM's memory pools keep for the next allocation."""
    tvm.get_global_func("vm.builtin.memory_manager.clear")()


def reference_count(node: tvm_ffi.Object) -> int:
    """Return how many refer to a node, this one included: the lower half of what a node of tvm-ffi begins with."""
    return ctypes.c_uint32.from_address(node.__chandle__()).value


def fail_packed(message: bytes) -> int:
    """Set the RuntimeError that a function of :func:`declare_packed` ends with; return what it returns then."""
    _C_INTERFACE.TVMFFIErrorSetRaisedFromCStr(b"RuntimeError", message)
    return -1
