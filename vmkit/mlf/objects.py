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

from ..values.element_types import element_bytes
from .kernels import Kernel

__all__ = ["object_file", "object_module"]


def object_module(kernels: Mapping[str, Kernel], symbols: Mapping[str, str], target: Target) -> tvm.runtime.Module:
    """Return kernels built for an ``llvm`` target, which may be another machine's.

    Its functions return nothing, take their tensors and then their buffers in the workspace, and need the C library
    and libm alone.

    Parameters
    ----------
    kernels : mapping of str to Kernel
        By name.
    symbols : mapping of str to str
        The name of each kernel's function.
    """
    functions = {symbols[name]: _function(kernel, symbols[name], target) for name, kernel in kernels.items()}
    return tvm.target.codegen.build_module(tvm.IRModule(functions), target)


def object_file(built: tvm.runtime.Module) -> bytes:
    """Return the object file of what was built."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.o"
        built.write_to_file(str(path), "o")
        return path.read_bytes()


def _function(kernel: Kernel, symbol: str, target: Target) -> tirx.PrimFunc:
    """Return a kernel as a function of pointers."""
    given = [*kernel.params, *kernel.workspace]
    pointers = [tirx.Var(f"{buffer.name}_data", buffer_data_pointer_type(buffer)) for buffer in given]
    declared: list[tirx.Stmt] = [
        tirx.Bind(number, tirx.IntImm(str(number.ty.dtype), value)) for number, value in kernel.places.items()
    ]
    declared += [tirx.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip(given, pointers, strict=True)]
    body = _without_allocations(kernel.body, frozenset(kernel.workspace))
    # Of memory that others give nothing more is known than that elements lie at multiples of their size.
    for buffer in given:
        size = tirx.IntImm("int32", element_bytes(str(buffer.ty.dtype)))
        body = tirx.AttrStmt(buffer, "storage_alignment", size, body)
    attrs = tvm.ir.make_node(
        "ir.DictAttrs", **{"global_symbol": symbol, "target": target, "tirx.noalias": True, "calling_conv": 0}
    )
    return tirx.PrimFunc(pointers, tirx.SeqStmt([*declared, body]), None, attrs)


def _without_allocations(body: tirx.Stmt, buffers: frozenset[tvm.ir.Var]) -> tirx.Stmt:
    """Return a kernel without the allocations of buffers that it is given."""

    def kept(node: tirx.AllocBuffer) -> tirx.Stmt:
        return tirx.Evaluate(tirx.IntImm("int32", 0)) if node.buffer in buffers else node

    return tvm_ffi.structural_map(body, (tirx.AllocBuffer, kept))
