"""Kernels that other functions of the library call, with pointers and sizes and no checks.

The VM calls a kernel through TVM's packed convention: every argument is looked at, and every shape compared. A
function that calls many kernels one after another (see :mod:`.grouping`) knows what it gives them. It calls each as a
*part*, a private function of

- the data pointer of every buffer among the kernel's parameters, and every number among them, in their order;
- the sizes that only the buffers' shapes tell, in the order in which the shapes name them first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import buffer_data_pointer_type, is_buffer_var

from ...errors import CompileError
from ..rewrite import with_functions
from .own_tensors import with_own_tensors

__all__ = [
    "CALLS_PARTS",
    "as_part",
    "by_itself",
    "call_part",
    "is_part",
    "linker_symbol",
    "part_called",
    "parts_called",
    "parts_called_by",
    "told_by_shapes",
]

_PART = "vmkit.part"
"""The attribute of kernels that are called as parts only: the kinds of their parameters, a letter each."""

CALLS_PARTS = "vmkit.calls_parts"
"""The attribute of functions that call parts: the names of the kernels, in their order."""

_SYMBOLS = "vmkit.part_symbols"
"""The attribute of what is built by itself: of a part, the symbol that it gets; of what calls some, that of each."""

_BUFFER, _NUMBER = "b", "n"
_VALUE = 15  # what tvm_struct_get reads of an argument: its value, not its type
_CALL = "vmkit.part:"  # what the name of a call begins with until the pipeline is through


def told_by_shapes(kernel: tirx.PrimFunc) -> list[tuple[tvm.ir.Var, int, int]]:
    """Return the sizes that a kernel takes from shapes: the symbol, the position of the parameter, the axis."""
    return _told_by_shapes(kernel.params)


def _told_by_shapes(params: Sequence[tvm.ir.Var]) -> list[tuple[tvm.ir.Var, int, int]]:
    known = {param for param in params if not is_buffer_var(param)}
    found: list[tuple[tvm.ir.Var, int, int]] = []
    for position, param in enumerate(params):
        for axis, size in enumerate(param.ty.shape if is_buffer_var(param) else ()):
            if isinstance(size, tvm.ir.Var) and size not in known:
                known.add(size)
                found.append((size, position, axis))
    return found


def as_part(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel marked as one that is called as a part only."""
    kernel = kernel.without_attr("global_symbol")
    return kernel.with_attr(_PART, "".join(_BUFFER if is_buffer_var(param) else _NUMBER for param in kernel.params))


def is_part(kernel: tirx.PrimFunc) -> bool:
    """Tell whether a kernel is called as a part only."""
    return _PART in kernel.attrs


def by_itself(function: tirx.PrimFunc, symbols: Mapping[str, str], name: str) -> tirx.PrimFunc:
    """Return a part, or a function that calls parts, as one that is built without others and linked with them.

    Parameters
    ----------
    function
        Of that `name`.
    symbols
        The symbols of the parts that are linked, by their names. A part that has none is in the same module. What the
        function was given before stays.
    """
    if is_part(function):
        own = symbols.get(name)
        return function if own is None else function.with_attr({"global_symbol": own, _SYMBOLS: own})
    called = {part: symbols[part] for part in parts_called_by(function) if part in symbols}
    return function.with_attr(_SYMBOLS, {**function.attrs.get(_SYMBOLS, {}), **called}) if called else function


def linker_symbol(name: str, part: tirx.PrimFunc) -> str:
    """Return what the linker finds a part of that name by.

    Libraries that a program is linked with see each other's symbols, so two parts must not have one.
    """
    return f"vmkit_{name}_{tvm_ffi.structural_hash(part.without_attr('global_symbol')) & (1 << 64) - 1:016x}"


def parts_called_by(function: tirx.PrimFunc) -> list[str]:
    """Return the names of the parts that a function calls, each once."""
    called: dict[str, None] = {}

    def visit(statement: tirx.Evaluate) -> None:
        part = part_called(statement)
        if part is not None:
            called[part] = None

    tvm_ffi.structural_walk(function.body, (tirx.Evaluate, visit))
    return list(called)


def call_part(name: str, args: Sequence[tirx.Expr]) -> tirx.Stmt:
    """Return the call of the kernel `name` as a part, as it is until :func:`parts_called` has run."""
    return tirx.Evaluate(tirx.call_extern("int32", _CALL + name, *args))


def part_called(statement: tirx.Evaluate) -> str | None:
    """Return the name of the kernel that a statement of :func:`call_part` calls; None for all others."""
    call = statement.value
    if not (isinstance(call, tvm.ir.Call) and getattr(call.op, "name", "") == "tirx.call_extern"):
        return None
    name = str(call.args[0].value)
    return name.removeprefix(_CALL) if name.startswith(_CALL) else None


@tvm.transform.module_pass(opt_level=0, name="vmkit.CallParts")
def parts_called(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Make kernels that are parts private functions, and the calls of parts calls of these.

    To be run when TVM's packed convention is in place.
    """
    if not any(_PART in f.attrs or _SYMBOLS in f.attrs for f in mod.functions.values()):
        return mod
    by_name = {gvar.name_hint: gvar for gvar in mod.get_global_vars()}

    def called(statement: tirx.Evaluate, symbols: Mapping[str, str]) -> tirx.Stmt:
        name = part_called(statement)
        if name is None:
            return statement
        given = list(statement.value.args)[1:]
        if name in symbols:
            made = tirx.call_extern("int32", str(symbols[name]), *given)
        else:
            made = tvm.ir.Call(by_name[name], given, ret_ty="int32")
        # A part that fails has set the error already.
        failed = tvm.ir.Call("tirx.tvm_throw_last_error", [], ret_ty="handle")
        return tirx.IfThenElse(made != 0, tirx.Evaluate(failed), None)

    changed = {}
    for gvar, function in mod.functions.items():
        if not isinstance(function, tirx.PrimFunc):
            continue
        if _PART in function.attrs:
            changed[gvar] = _part(function, gvar.name_hint)
        elif CALLS_PARTS in function.attrs:
            linked = partial(called, symbols=function.attrs.get(_SYMBOLS, {}))
            function = with_own_tensors(function, gvar.name_hint)
            changed[gvar] = function.with_body(tvm_ffi.structural_map(function.body, (tirx.Evaluate, linked)))
    return with_functions(mod, changed)


def _part(kernel: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """Return a kernel in the packed convention as a function of pointers and sizes: 0, or -1 if it failed."""
    buffers: list[tvm.ir.Var] = []
    numbers: dict[int, tvm.ir.Var] = {}
    scope: tirx.AttrStmt | None = None
    for statement in _outside_scope(kernel.body):
        match statement:
            case tirx.AttrStmt():
                scope = statement
            case tirx.DeclBuffer():
                buffers.append(statement.buffer)
            case tirx.Bind() if isinstance(statement.var.ty, tvm.ir.PrimType):
                numbers.update(dict.fromkeys(_arguments_read(statement.value, kernel.params[1]), statement.var))
    kinds = str(kernel.attrs[_PART])
    if scope is None or kinds.count(_BUFFER) != len(buffers) or kinds.count(_NUMBER) != len(numbers):
        raise CompileError(f"the parameters of kernel {name} are not to be found in what TVM made of it")
    pointers = [tirx.Var(f"{buffer.name}_data", buffer_data_pointer_type(buffer)) for buffer in buffers]
    given = {_BUFFER: iter(pointers), _NUMBER: iter([numbers[position] for position in sorted(numbers)])}
    params = [next(given[kind]) for kind in kinds]
    params += [symbol for symbol, _, _ in _told_by_shapes([*buffers, *numbers.values()])]
    declared = [tirx.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip(buffers, pointers, strict=True)]
    body: tirx.Stmt = tirx.SeqStmt([*declared, scope, tirx.Return(tirx.IntImm("int32", 0))])
    for key, value in (("device_type", 1), ("device_id", 0)):
        body = tirx.AttrStmt("default", key, tirx.IntImm("int32", value), body)
    for buffer in buffers:
        alignment = tirx.IntImm("int32", int(buffer.ty.data_alignment))
        body = tirx.AttrStmt(buffer, "storage_alignment", alignment, body)
    attrs = {k: v for k, v in kernel.attrs.items() if k not in ("global_symbol", "calling_conv")}
    if _SYMBOLS in attrs:
        attrs["global_symbol"] = attrs.pop(_SYMBOLS)
    return tirx.PrimFunc(params, body, tvm.ir.PrimType("int32"), tvm.ir.make_node("ir.DictAttrs", **attrs))


def _outside_scope(statement: tirx.Stmt) -> Iterator[tirx.Stmt]:
    """Yield the declarations of a packed function in their order, and then the scope of its computation."""
    match statement:
        case tirx.SeqStmt():
            for each in statement.seq:
                yield from _outside_scope(each)
        case tirx.AttrStmt() if statement.attr_key != "compute_scope":
            yield from _outside_scope(statement.body)
        case tirx.AttrStmt() | tirx.DeclBuffer() | tirx.Bind():
            yield statement


def _arguments_read(value: tirx.Expr, args: tvm.ir.Var) -> list[int]:
    """Return the positions of the arguments whose values an expression reads."""
    found: list[int] = []

    def visit(call: tvm.ir.Call) -> None:
        is_read = getattr(call.op, "name", "") == "tirx.tvm_struct_get" and call.args[0].same_as(args)
        if is_read and int(call.args[2].value) == _VALUE:
            found.append(int(call.args[1].value))

    tvm_ffi.structural_walk(value, (tvm.ir.Call, visit))
    return found
