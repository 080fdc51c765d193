"""Kernels as object files of LLVM, with the same functions of pointers that the kernels in C have."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target
from tvm.tirx.buffer import buffer_data_pointer_type

from .._tvm.nodes import TensorLoad
from ..values.element_types import element_bytes
from .buffers import buffer_homes
from .kernels import Kernel

__all__ = ["object_file", "object_module"]


def object_module(kernels: Mapping[str, Kernel], symbols: Mapping[str, str], target: Target) -> tvm.runtime.Module:
    """Return kernels built for an ``llvm`` target, which may be another machine's.

    Its functions return nothing, take their tensors and then their buffers in the workspace, and need the C library
    and libm alone. The target's ``opt-level`` is 2 where it names none.

    Parameters
    ----------
    kernels : mapping of str to Kernel
        By name.
    symbols : mapping of str to str
        The name of each kernel's function.
    """
    target = _for_little_code(target)
    functions = {symbols[name]: _function(kernel, symbols[name], target) for name, kernel in kernels.items()}
    return tvm.target.codegen.build_module(tvm.IRModule(functions), target)


def _for_little_code(target: Target) -> Target:
    """Return a target for which LLVM does not double code that is no faster for it, unless the level is given."""
    return target if "opt-level" in target.attrs else Target({**target.export(), "opt-level": 2})


def object_file(built: tvm.runtime.Module) -> bytes:
    """Return the object file of what was built."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.o"
        built.write_to_file(str(path), "o")
        return path.read_bytes()


def _function(kernel: Kernel, symbol: str, target: Target) -> tirx.PrimFunc:
    """Return a kernel as a function of pointers."""
    params, body = _as_stored(kernel)
    given = [*params, *kernel.workspace]
    pointers = [tirx.Var(f"{buffer.name}_data", buffer_data_pointer_type(buffer)) for buffer in given]
    declared: list[tirx.Stmt] = [
        tirx.Bind(number, tirx.IntImm(str(number.ty.dtype), value)) for number, value in kernel.places.items()
    ]
    declared += [tirx.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip(given, pointers, strict=True)]
    body = _without_allocations(body, frozenset(kernel.workspace))
    # Of memory that others give nothing more is known than that elements lie at multiples of their size.
    for buffer in given:
        size = tirx.IntImm("int32", element_bytes(str(buffer.ty.dtype)))
        body = tirx.AttrStmt(buffer, "storage_alignment", size, body)
    attrs = tvm.ir.make_node(
        "ir.DictAttrs", **{"global_symbol": symbol, "target": target, "tirx.noalias": True, "calling_conv": 0}
    )
    return tirx.PrimFunc(pointers, tirx.SeqStmt([*declared, body]), None, attrs)


def _as_stored(kernel: Kernel) -> tuple[list[tvm.ir.Var], tirx.Stmt]:
    """Return a kernel's parameters in the data types of memory, but for those that are known, and what it does."""
    home = buffer_homes(kernel.body) | {param: param for param in kernel.params}
    stored = {
        buffer: _with_dtype(buffer, kernel.stored[param]) for buffer, param in home.items() if param in kernel.stored
    }
    known = {buffer: kernel.known[param] for buffer, param in home.items() if param in kernel.known}

    def load(node: TensorLoad) -> tirx.Expr:
        dtype = str(node.ty.dtype)
        if node.source in known:
            return tirx.const(known[node.source], dtype)
        if node.source in stored:
            return stored[node.source][tuple(node.indices)].astype(dtype)
        return node

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        if node.buffer not in stored:
            return node
        made = stored[node.buffer]
        return tirx.BufferStore(made, node.value.astype(str(made.ty.dtype)), node.indices)

    def declare(node: tirx.DeclBuffer) -> tirx.Stmt:
        if node.buffer in known:
            return tirx.Evaluate(tirx.IntImm("int32", 0))
        if node.buffer not in stored:
            return node
        return tirx.DeclBuffer(stored[node.buffer], data=stored[home[node.buffer]].data)

    changes = [(TensorLoad, load), (tirx.BufferStore, store), (tirx.DeclBuffer, declare)]
    body = tvm_ffi.structural_map(kernel.body, changes)
    return [stored.get(param, param) for param in kernel.params if param not in kernel.known], body


def _with_dtype(buffer: tvm.ir.Var, dtype: str) -> tvm.ir.Var:
    """Return a buffer of elements of another data type."""
    return tirx.decl_buffer(
        list(buffer.ty.shape),
        dtype,
        buffer.name,
        strides=list(buffer.ty.strides),
        elem_offset=buffer.ty.elem_offset,
        data_alignment=element_bytes(dtype),
        layout=None,
    )


def _without_allocations(body: tirx.Stmt, buffers: frozenset[tvm.ir.Var]) -> tirx.Stmt:
    """Return a kernel without the allocations of buffers that it is given."""

    def kept(node: tirx.AllocBuffer) -> tirx.Stmt:
        return tirx.Evaluate(tirx.IntImm("int32", 0)) if node.buffer in buffers else node

    return tvm_ffi.structural_map(body, (tirx.AllocBuffer, kept))
