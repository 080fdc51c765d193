"""Every private or unstable name of TVM and tvm-ffi that vmkit uses, each with the reason why.

TVM promises nothing about the names below, and has no public ones for what they do. With a new release of TVM this
package is what to go through; nothing else in vmkit reaches past what TVM documents. It was written against apache-tvm
0.27 and apache-tvm-ffi 0.1.14.

To import this module imports nothing of TVM. What has to be bound to TVM's objects once stands apart: in ``running.py``
what running a program takes, in ``nodes.py`` classes of the compiler. ``importing.py`` and ``whole.py`` import TVM in
two steps.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from .._deferred import deferred

if TYPE_CHECKING:
    import tvm
    import tvm_ffi
    from tvm import relax, s_tir
    from tvm.ir import GlobalVar
    from tvm.runtime import Tensor
    from tvm.s_tir.meta_schedule.database import Database
else:
    tvm, tvm_ffi = deferred("tvm"), deferred("tvm_ffi")

__all__ = [
    "AUTOLOAD",
    "GRAPH_TABLE",
    "OLD_API",
    "OLD_BACKEND",
    "OLD_FFI",
    "OPERATOR_TABLE",
    "PASSENGER_OPTION",
    "RUNTIME_TABLES",
    "TARGET_TABLE",
    "begin_block",
    "c_module",
    "call_global_vars_by",
    "database_in_force",
    "decide_dialect",
    "end_block",
    "global_function_names",
    "has_global_function",
    "host_features",
    "kernels_of",
    "link_executable",
    "load_bytecode_there",
    "put_code",
    "register_errors",
    "register_operator",
    "register_reducer",
    "retyped",
    "tensor_view",
    "unchecked_schedule",
    "watching_tables",
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

OPERATOR_TABLE = "tvm.ir._ffi_api"
"""Where TVM has the functions of its registry of operators, which its own import calls."""

TARGET_TABLE = "tvm.target._ffi_api"
"""Where TVM has the functions of its list of named targets."""

GRAPH_TABLE = "tvm_ffi._ffi_api"
"""Where tvm-ffi has the function that reads saved objects, which ``tvm.ir.load_json`` calls."""

AUTOLOAD = "tvm.backend._autoload_backends"
"""What loads the backends at the end of TVM's import, with the list of their names."""

RUNTIME_TABLES = ("tvm.runtime._ffi_api", "tvm.runtime._ffi_node_api")
"""Tables of functions from C++ that are filled when they are imported: functions that come later are not in them."""


# -- import


@contextlib.contextmanager
def watching_tables(
    watch: Callable[[str | None], None], before: Callable[[str, str], None] = lambda namespace, module: None
) -> Iterator[None]:
    """Have `watch` called with the name of each table that modules of TVM fill with functions from C++, once it is.

    `before` is called with what their names begin with, and that of the module, before that.

    They call ``tvm_ffi.init_ffi_api``, and nothing else says when they do.
    """
    raw: Any = importlib.import_module("tvm_ffi")
    fill = raw.init_ffi_api  # of the module itself: what is deferred keeps what it found, and blocks may be nested

    def fill_and_tell(namespace: str, target_module_name: str | None = None) -> None:
        before(namespace, target_module_name or namespace)
        fill(namespace, target_module_name)
        watch(target_module_name)

    raw.init_ffi_api = fill_and_tell
    try:
        yield
    finally:
        raw.init_ffi_api = fill


# -- tensors


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
    tvm.ir._ffi_api.RegisterOp(name, doc)


def call_global_vars_by(call: Callable[[GlobalVar, tuple[Any, ...]], Any]) -> None:
    """Have ``GlobalVar.__call__`` ask `call` first, which returns None for arguments that are not its own.

    A dialect in Python has no other way in: TVM's method makes a call of its own language from any arguments. For those
    that `call` leaves alone nothing changes. The newest `call` is asked first; one that is already is not put in twice.
    """
    kind: Any = tvm.ir.GlobalVar
    older = kind.__call__
    if getattr(older, "asks", None) is call:
        return

    def call_either(self: GlobalVar, *args: Any) -> Any:
        made = call(self, args)
        return older(self, *args) if made is None else made

    call_either.asks = call  # type: ignore[attr-defined]
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


def register_errors(module: ModuleType) -> None:
    """Have errors of a module's classes that cross TVM's C++, as in a pass, come back as these."""
    kinds = {name: getattr(module, name) for name in module.__all__}
    for name, kind in kinds.items():
        if isinstance(kind, type):
            tvm_ffi.register_error(name, kind)


# -- schedules


def database_in_force() -> Database | None:
    """Return the MetaSchedule database that the calling thread has entered: ``Database.current()``.

    Who asks for the class imports MetaSchedule, a hundred modules, and without it nobody has entered one.
    """
    return tvm.get_global_func("s_tir.meta_schedule.DatabaseCurrent")()


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

    TVM does that in Python, in a decorator, at each of the many questions that schedule rules have, and it is half of
    the time that these take; C++ checks its arguments as well. So do copies of the schedule.
    """
    return _unchecked_class()(function)


@functools.cache
def _unchecked_class() -> type[s_tir.Schedule]:
    from tvm import s_tir
    from tvm.s_tir.schedule import _ffi_api

    def copy(schedule: s_tir.Schedule) -> s_tir.Schedule:
        """Return a copy of the same class; TVM's is of the class that its C++ knows."""
        made = type(schedule).__new__(type(schedule))
        made.__init_handle_by_constructor__(_ffi_api.ScheduleCopy, schedule)
        return made

    methods = {name: each for name, each in vars(s_tir.Schedule).items() if isinstance(each, FunctionType)}
    unchecked = {name: inspect.unwrap(each) for name, each in methods.items()}
    return type("UncheckedSchedule", (s_tir.Schedule,), {**unchecked, "copy": copy})


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


# -- the machine


def host_features() -> Mapping[str, bool]:
    """Return what LLVM detects on this machine; ``tvm.target.codegen`` has what a named cpu should have."""
    detect: Callable[[], Mapping[str, bool]] = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")
    return detect()


def c_module(source: str, functions: list[str]) -> tvm.runtime.Module:
    """Return the module of C that defines packed functions, which is compiled when it is run or exported."""
    return tvm.get_global_func("runtime.CSourceModuleCreate")(source, "c", functions, [])


def load_bytecode_there(session: Any, code: bytes, libraries: Sequence[tvm.runtime.Module]) -> tvm.runtime.Module:
    """Return the module of the VM on the other side of an RPC session, with libraries that are loaded there.

    A module of a session has no public way to import another.
    """
    from tvm.rpc import _ffi_api as rpc_ffi

    module: tvm.runtime.Module = session.get_function("ffi.Module.load_from_bytes.relax.VMExecutable")(code)
    for library in libraries:
        rpc_ffi.ImportRemoteModule(module, library)
    return module
