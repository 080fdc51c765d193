"""Buffers of lowered kernels, which may be other buffers' memory by another name and in another shape."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from ..errors import CompileError

__all__ = ["buffer_homes", "pointed_at"]


def buffer_homes(body: tirx.Stmt) -> dict[tvm.ir.Var, tvm.ir.Var]:
    """Return, for each buffer that is declared as the memory of another, the one that has the memory."""
    home: dict[tvm.ir.Var, tvm.ir.Var] = {}

    def declared(node: tirx.DeclBuffer) -> None:
        outer = pointed_at(node.data)
        home[node.buffer] = home.get(outer, outer)

    tvm_ffi.structural_walk(body, (tirx.DeclBuffer, declared))
    return home


def pointed_at(data: tirx.Expr) -> tvm.ir.Var:
    """Return the buffer or pointer that the address of a declared buffer is taken from."""
    while isinstance(data, tvm.ir.Call) and len(data.args):
        data = data.args[0]
    if not isinstance(data, tvm.ir.Var):
        raise CompileError(f"a buffer is at {data}, which is no other buffer's address")
    return data
