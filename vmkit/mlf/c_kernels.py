"""Kernels as functions of C99."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

from .._tvm.nodes import TensorLoad
from .buffers import buffer_homes, pointed_at
from .c_expressions import ExpressionWriter
from .c_names import c_name
from .c_numbers import c_type, is_half, number_text, value_type
from .kernels import Kernel
from .sorting import packed_name

__all__ = ["declaration", "kernels_source"]

_INDENT = "  "


def kernels_source(kernels: Mapping[str, Kernel], symbols: Mapping[str, str]) -> str:
    """Return a file of C with the functions of kernels.

    Parameters
    ----------
    kernels : mapping of str to Kernel
        By name.
    symbols : mapping of str to str
        The name of each kernel's function.
    """
    helpers: dict[str, str] = {}
    functions = [_Function(kernel, symbols[name], helpers).text() for name, kernel in kernels.items()]
    parts = [_HEAD, "\n".join(declaration(kernel, symbols[name]) + ";" for name, kernel in kernels.items())]
    parts.insert(1, "\n".join(helpers.values()))
    return "\n\n".join(part for part in [*parts, *functions] if part) + "\n"


# A comparison that the type of its operands decides, such as an unsigned number with 0, is no fault of a kernel, which
# was written for other types as well.
_HEAD = """#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wtype-limits"
#endif"""


def declaration(kernel: Kernel, symbol: str) -> str:
    """Return the head of a kernel's function: its tensors, then its buffers in the workspace."""
    names = _names(kernel)
    params = []
    for place, param in enumerate(kernel.params):
        if param in kernel.known:
            continue
        is_written = place in kernel.written
        qualified = "{}* restrict {}" if is_written else "const {}* {}"
        params.append(qualified.format(c_type(kernel.stored.get(param, str(param.ty.dtype))), names[param]))
    params += [f"{c_type(str(buffer.ty.dtype))}* restrict {names[buffer]}" for buffer in kernel.workspace]
    return f"void {symbol}({', '.join(params) or 'void'})"


def _names(kernel: Kernel) -> dict[tvm.ir.Var, str]:
    """Return the names of what a kernel's function is given."""
    names: dict[tvm.ir.Var, str] = {}
    for variable in (*kernel.params, *kernel.workspace):
        names[variable] = _unused(c_name(variable.name), set(names.values()))
    return names


def _unused(name: str, taken: set[str]) -> str:
    made, number = name, 0
    while made in taken:
        number += 1
        made = f"{name}_{number}"
    return made


class _Function:
    """The function of one kernel."""

    def __init__(self, kernel: Kernel, symbol: str, helpers: dict[str, str]) -> None:
        self.kernel, self.symbol = kernel, symbol
        self.names = _names(kernel)
        self.taken = set(self.names.values())
        self.names.update({var: number_text(value, str(var.ty.dtype)) for var, value in kernel.places.items()})
        self.stored, self.known = dict(kernel.stored), dict(kernel.known)
        self.write = ExpressionWriter(kernel.name, self.names, self.stored, self.known, helpers)
        self.used = _used(kernel.body)

    def text(self) -> str:
        """Return the function."""
        body = list(self.statement(self.kernel.body, 1))
        unread = [f"{_INDENT}(void){self.names[p]};" for p in self.kernel.params if self.is_unread(p)]
        return "\n".join([f"{declaration(self.kernel, self.symbol)} {{", *unread, *body, "}"])

    def is_used(self, variable: tvm.ir.Var) -> bool:
        """Say whether a buffer, by whatever name, or a variable is read or written."""
        return variable in self.used

    def is_unread(self, param: tvm.ir.Var) -> bool:
        """Say whether the function gets a tensor that it does not look at."""
        return param not in self.known and not self.is_used(param)

    def named(self, variable: tvm.ir.Var) -> str:
        """Return a new name for a variable."""
        name = _unused(c_name(variable.name), self.taken)
        self.taken.add(name)
        self.names[variable] = name
        return name

    def statement(self, node: tirx.Stmt, depth: int) -> Iterator[str]:
        """Yield the lines of a statement."""
        pad, write = _INDENT * depth, self.write
        match node:
            case tirx.SeqStmt():
                for each in node.seq:
                    yield from self.statement(each, depth)
            case tirx.AttrStmt():
                yield from self.statement(node.body, depth)
            case tirx.AllocBuffer():
                yield from self.allocation(node, pad)
            case tirx.DeclBuffer():
                self.alias(node)
            case tirx.Bind():
                yield from self.bind(node, pad)
            case tirx.BufferStore():
                element = write.element(node.buffer, list(node.indices))
                yield f"{pad}{element} = {self.value(node)};"
            case tirx.For():
                yield from self.loop(node, depth)
            case tirx.While():
                yield f"{pad}while ({write.text(node.condition)}) {{"
                yield from self.statement(node.body, depth + 1)
                yield f"{pad}}}"
            case tirx.IfThenElse():
                yield f"{pad}if ({write.text(node.condition)}) {{"
                yield from self.statement(node.then_case, depth + 1)
                if node.else_case is not None:
                    yield f"{pad}}} else {{"
                    yield from self.statement(node.else_case, depth + 1)
                yield f"{pad}}}"
            case tirx.Break() | tirx.Continue():
                yield f"{pad}{type(node).__name__.lower()};"
            case tirx.Evaluate() if isinstance(node.value, tirx.IntImm):
                pass
            case tirx.Evaluate() if packed_name(node) is not None:
                raise write.fail(f"it calls {packed_name(node)} of TVM's runtime, which C does not have")
            case _:
                raise write.fail(f"there is no C for {type(node).__name__}")

    def value(self, node: tirx.BufferStore) -> str:
        """Return what is stored, in the type of the memory."""
        text = self.write.text(node.value)
        if is_half(str(node.buffer.ty.dtype)):
            return f"{self.write.half('half_of_float')}({text})"
        if node.buffer in self.stored:
            return f"({c_type(self.stored[node.buffer])}){text}"
        return text[1:-1] if text.startswith("(") and _closes_last(text) else text

    def allocation(self, node: tirx.AllocBuffer, pad: str) -> Iterator[str]:
        """Yield the local array of a small buffer; a larger one is a parameter, and one that nothing reads is none."""
        if node.buffer in self.names or not self.is_used(node.buffer):
            return
        dtype = str(node.buffer.ty.dtype)
        size = 1
        for extent in node.buffer.ty.shape:
            size *= int(extent)
        yield f"{pad}{c_type(dtype)} {self.named(node.buffer)}[{size}];"

    def alias(self, node: tirx.DeclBuffer) -> None:
        """Give a flat buffer the name of the one whose memory it is."""
        home = pointed_at(node.data)
        if str(home.ty.dtype) != str(node.buffer.ty.dtype):
            raise self.write.fail(f"{node.buffer.name} is the memory of {home.name} as other elements")
        self.names[node.buffer] = self.names[home]
        if home in self.stored:
            self.stored[node.buffer] = self.stored[home]
        if home in self.known:
            self.known[node.buffer] = self.known[home]

    def bind(self, node: tirx.Bind, pad: str) -> Iterator[str]:
        """Yield the declaration of a variable."""
        if not self.is_used(node.var):
            return
        text = self.write.text(node.value)
        yield f"{pad}const {value_type(str(node.var.ty.dtype))} {self.named(node.var)} = {text};"

    def loop(self, node: tirx.For, depth: int) -> Iterator[str]:
        """Yield a loop."""
        pad = _INDENT * depth
        start, end = self.write.text(node.min), self.write.text(Analyzer().simplify(node.min + node.extent))
        ctype, name = c_type(str(node.loop_var.ty.dtype)), self.named(node.loop_var)
        yield f"{pad}for ({ctype} {name} = {start}; {name} < {end}; ++{name}) {{"
        yield from self.statement(node.body, depth + 1)
        yield f"{pad}}}"
        self.taken.discard(name)


def _closes_last(text: str) -> bool:
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def _used(body: tirx.Stmt) -> set[tvm.ir.Var]:
    """Return the variables and buffers that a kernel reads or writes, those too whose memory has another name."""
    found: set[tvm.ir.Var] = set()
    home = buffer_homes(body)

    def load(node: TensorLoad) -> None:
        found.add(node.source)

    def store(node: tirx.BufferStore) -> None:
        found.add(node.buffer)

    tvm_ffi.structural_walk(body, (TensorLoad, load))
    tvm_ffi.structural_walk(body, (tirx.BufferStore, store))
    found |= {home[buffer] for buffer in found if buffer in home}
    return found | _read_variables(body)


def _read_variables(body: tirx.Stmt) -> set[tvm.ir.Var]:
    """Return the numbers that expressions read."""
    reads: dict[tvm.ir.Var, int] = {}
    binders: dict[tvm.ir.Var, int] = {}

    def seen(variable: tvm.ir.Var) -> None:
        reads[variable] = reads.get(variable, 0) + 1

    def bound(node: tirx.Bind) -> None:
        binders[node.var] = binders.get(node.var, 0) + 1

    tvm_ffi.structural_walk(body, (tvm.ir.Var, seen))
    tvm_ffi.structural_walk(body, (tirx.Bind, bound))
    return {v for v, count in reads.items() if v in binders and count > binders[v]}
