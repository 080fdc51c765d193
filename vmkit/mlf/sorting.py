"""Sorts that kernels leave to TVM's runtime, which C does not have, as loops in the kernels themselves.

A heap lies in the result, so that no further memory is needed. Positions whose elements are equal are in the order of
the positions, which is what a stable sort gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from ..errors import CompileError

__all__ = ["packed_name", "with_sorts_written_out"]

_SORTS = {"tvm.contrib.sort.sort": False, "tvm.contrib.sort.argsort": True}
"""By the name of the packed function, whether it gives positions."""


def packed_name(node: tirx.Evaluate) -> str | None:
    """Return the name of the packed function that a statement calls; None for all others."""
    call = node.value
    is_call = isinstance(call, tvm.ir.Call) and str(getattr(call.op, "name", "")).startswith("tirx.tvm_call_packed")
    return str(call.args[0].value) if is_call else None


def with_sorts_written_out(name: str, function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel whose sorts are loops.

    Raises
    ------
    CompileError
        When the buffer that is sorted is none of the kernel's own.
    """
    buffers: list[tvm.ir.Var] = list(function.params)
    tvm_ffi.structural_walk(function.body, (SBlock, lambda block: buffers.extend(block.alloc_buffers)))

    def written_out(node: tirx.Evaluate) -> tirx.Stmt:
        called = packed_name(node)
        if called not in _SORTS:
            return node
        data, made, *rest = node.value.args[1:]
        axis = int(rest[0]) if rest else -1
        is_ascending = bool(int(rest[1])) if len(rest) > 1 else True
        source, result = (_buffer(name, each, buffers) for each in (data, made))
        return _sort(source, result, axis % len(source.ty.shape), is_ascending, _SORTS[called])

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.Evaluate, written_out)))


def _buffer(name: str, array: tirx.Expr, buffers: list[tvm.ir.Var]) -> tvm.ir.Var:
    """Return the buffer whose address an argument of a packed function has."""
    data = array
    while isinstance(data, tvm.ir.Call) and len(data.args):
        data = data.args[0]
    found = next((buffer for buffer in buffers if buffer.same_as(data)), None)
    if found is None:
        raise CompileError(f"kernel {name} sorts {data}, which is none of its buffers")
    return found


def _sort(source: tvm.ir.Var, result: tvm.ir.Var, axis: int, is_ascending: bool, gives_positions: bool) -> tirx.Stmt:
    """Return the statement that sorts along an axis."""
    shape = [int(extent) for extent in source.ty.shape]
    with (
        IRBuilder() as builder,
        T.prim_func(private=True),
        _grid([s for d, s in enumerate(shape) if d != axis]) as rest,
    ):
        _Heap(source, result, shape[axis], lambda i: [*rest[:axis], i, *rest[axis:]], is_ascending, gives_positions)()
    return builder.get().body


class _Heap:
    """Writes the code that sorts one line: what comes last of a heap goes to its end, again and again."""

    def __init__(
        self,
        source: tvm.ir.Var,
        result: tvm.ir.Var,
        length: int,
        at: Callable[[tirx.Expr], list[tirx.Expr]],
        is_ascending: bool,
        gives_positions: bool,
    ) -> None:
        self.source, self.result, self.length, self.at = source, result, length, at
        self.is_ascending, self.gives_positions = is_ascending, gives_positions
        self.item = _variable("item", str(result.ty.dtype))
        self.last, self.hole, self.below, self.goes_on = map(_variable, ("last", "hole", "below", "goes_on"))

    def __call__(self) -> None:
        with _grid([self.length]) as (i,):
            first = i.astype(str(self.result.ty.dtype)) if self.gives_positions else self.source[tuple(self.at(i))]
            T.buffer_store(self.result, first, self.at(i))
        # Half of the elements have others below them, and are put into the heap from the back. Then all but one leave.
        half = self.length // 2
        with _grid([half + max(self.length - 1, 0)]) as (turn,):
            with T.If(turn < half):
                with T.Then():
                    _set(self.last, tirx.IntImm("int32", self.length))
                    _set(self.hole, half - 1 - turn)
                    _set(self.item, self._element(_get(self.hole)))
                with T.Else():
                    _set(self.last, self.length - 1 - (turn - half))
                    _set(self.hole, tirx.IntImm("int32", 0))
                    _set(self.item, self._element(_get(self.last)))
                    self._write(_get(self.last), self._element(tirx.IntImm("int32", 0)))
            self._sift()

    def _sift(self) -> None:
        """Put the item into the heap from the hole on, below which all is a heap already."""
        hole, below, last = _get(self.hole), _get(self.below), _get(self.last)
        _set(self.goes_on, tirx.IntImm("int32", 1))
        with T.While(_get(self.goes_on) == 1):
            _set(self.below, hole * 2 + 1)
            _set(self.goes_on, tirx.IntImm("int32", 0))
            with T.If(below < last), T.Then():
                # The last of a heap may have no neighbour: it is then compared with itself.
                other = tirx.min(below + 1, last - 1)
                with T.If(self._comes_later(self._element(other), self._element(below))), T.Then():
                    _set(self.below, other)
                with T.If(self._comes_later(self._element(below), _get(self.item))), T.Then():
                    self._write(hole, self._element(below))
                    _set(self.hole, below)
                    _set(self.goes_on, tirx.IntImm("int32", 1))
        self._write(hole, _get(self.item))

    def _element(self, i: tirx.Expr) -> tirx.Expr:
        return self.result[tuple(self.at(i))]

    def _write(self, i: tirx.Expr, value: tirx.Expr) -> None:
        T.buffer_store(self.result, value, self.at(i))

    def _comes_later(self, a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        """Return whether one element, or the one at a position, comes behind another."""
        if not self.gives_positions:
            return a > b if self.is_ascending else a < b
        one, other = (self.source[tuple(self.at(i))] for i in (a, b))
        return tirx.any(one > other if self.is_ascending else one < other, tirx.all(one == other, a > b))


@contextmanager
def _grid(extents: list[int]) -> Iterator[list[tirx.Var]]:
    """Open loops whose variables are of 32 bits, which is what indices in C are."""
    with ExitStack() as opened:
        yield [opened.enter_context(T.serial(0, tirx.IntImm("int32", extent))) for extent in extents]


def _variable(name: str, dtype: str = "int32") -> tirx.Buffer:
    return IRBuilder.name(name, T.alloc_buffer((1,), dtype, scope="local", layout=None))


def _get(variable: tirx.Buffer) -> tirx.Expr:
    return variable[0]


def _set(variable: tirx.Buffer, value: tirx.Expr) -> None:
    T.buffer_store(variable, value, [0])
