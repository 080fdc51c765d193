"""Divisions of integers of 64 bits by floats of 53 digits, exact for all numbers.

Magnitudes are multiplied by an inverse that is a little too small, so that no estimate is above the quotient and
nothing that is left over is below 0. What the first estimate leaves over is estimated again, and then the quotient is
one too small at most. No step overflows: LLVM may take that for a thing that never happens.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm.nodes import TensorLoad, is_choice
from ..builder import with_fields
from .nested import left_to_llvm

__all__ = ["with_long_divisions"]

_BITS, _INT, _FLOAT = "uint64", "int64", "float64"
_NODES = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)

# Four roundings, each to within 2**-53, are off by less than 2**-50.
_LESS = 1.0 - 2.0**-50


def with_long_divisions(body: tirx.Stmt) -> tirx.Stmt:
    """Return statements in which int64 are divided as floats by what is read from tensors.

    Divisions that are computed in one case alone stay, as their numbers may be nowhere in the other. By 0, and of the
    least number by -1, a quotient is any number.
    """
    storing: set[s_tir.SBlock] = set()

    def divided(block: s_tir.SBlock) -> s_tir.SBlock:
        made = _divided(block)
        if not made.same_as(block):
            storing.add(made)
        return made

    return tvm_ffi.structural_map(body, [(s_tir.SBlock, divided), (tirx.For, lambda loop: left_to_llvm(loop, storing))])


def _divided(block: s_tir.SBlock) -> s_tir.SBlock:
    if not isinstance(block.body, tirx.BufferStore):
        return block
    steps, value = _Steps(), block.body.value
    while found := _divisions(value):
        node = found[0]
        step = steps.remainder if isinstance(node, tirx.Mod | tirx.FloorMod) else steps.quotient
        made = step(node.a, node.b, isinstance(node, tirx.FloorDiv | tirx.FloorMod))
        value = tvm_ffi.structural_map(value, (type(node), lambda each, n=node, m=made: m if each.same_as(n) else each))
    if not steps.stores:
        return block
    last = tirx.BufferStore(block.body.buffer, value, block.body.indices)
    buffers = [*block.alloc_buffers, *steps.buffers]
    return with_fields(block, alloc_buffers=buffers, body=tirx.SeqStmt([*steps.stores, last]))


def _divisions(value: tirx.Expr) -> list[tirx.Expr]:
    """Return the divisions by what is read that are always computed, each before those around it."""
    found: list[tirx.Expr] = []
    rare: list[tirx.Expr] = []

    def note(node: tirx.Expr) -> None:
        if isinstance(node, _NODES) and str(node.ty.dtype) == _INT and _loads_in(node.b):
            found.append(node)
        elif is_choice(node):
            rare.extend(node.args[1:])
        elif isinstance(node, tirx.Select) and not _is_of_data(node.condition):
            rare.extend([node.true_value, node.false_value])
        elif isinstance(node, tirx.Let):
            rare.append(node)

    tvm_ffi.structural_walk(value, (tvm.ir.Expr, note))
    among = [each for node in rare for each in _divisions_in(node)]
    free = [node for node in found if not _is_among(node, among) and _is_anywhere(node)]
    return [n for n in free if not any(_is_among(f, [*_divisions_in(n.a), *_divisions_in(n.b)]) for f in free)]


def _divisions_in(value: tirx.Expr) -> list[tirx.Expr]:
    found: list[tirx.Expr] = []
    tvm_ffi.structural_walk(value, [(kind, found.append) for kind in _NODES])
    return found


def _is_among(node: tirx.Expr, others: list[tirx.Expr]) -> bool:
    return any(node.same_as(each) for each in others)


def _is_of_data(test: tirx.Expr) -> bool:
    """Say whether a test depends on what is read and not on the place: it guards no read."""
    return not _variables_in(tvm_ffi.structural_map(test, (TensorLoad, lambda load: tirx.const(0, load.ty.dtype))))


def _is_anywhere(node: tirx.Expr) -> bool:
    """Say whether what a division reads is there whatever the data."""
    return not any(_loads_in(index) for load in _loads_in(node) for index in load.indices)


def _loads_in(value: tirx.Expr) -> list[TensorLoad]:
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(value, (TensorLoad, found.append))
    return found


def _variables_in(value: tirx.Expr) -> list[tirx.Var]:
    found: list[tirx.Var] = []
    tvm_ffi.structural_walk(value, (tirx.Var, found.append))
    return found


def _int(value: int) -> tirx.Expr:
    return tirx.IntImm(_INT, value)


def _bits(value: int) -> tirx.Expr:
    return tirx.IntImm(_BITS, value)


class _Steps:
    """Stores of the steps of divisions, each into a buffer of one number, which LLVM keeps in a register.

    What a name stands for TVM's analysis writes out wherever it is read, and so each step twice in the next.
    """

    def __init__(self) -> None:
        self.stores: list[tirx.Stmt] = []
        self.buffers: list[tirx.Buffer] = []

    def quotient(self, dividend: tirx.Expr, divisor: tirx.Expr, is_floor: bool) -> tirx.Expr:
        """Return a quotient rounded down or else towards 0."""
        a, b = self._kept(dividend), self._kept(divisor)
        whole = self._towards_zero(a, b)
        if not is_floor:
            return whole
        return whole - tirx.Select(_is_beyond(self._kept(a - whole * b), b), _int(1), _int(0))

    def remainder(self, dividend: tirx.Expr, divisor: tirx.Expr, is_floor: bool) -> tirx.Expr:
        """Return what a quotient leaves over: of the divisor's sign, or the dividend's if not `is_floor`."""
        a, b = self._kept(dividend), self._kept(divisor)
        left = self._kept(a - self._towards_zero(a, b) * b)
        return left + tirx.Select(_is_beyond(left, b), b, _int(0)) if is_floor else left

    def _kept(self, value: tirx.Expr) -> tirx.Expr:
        buffer = tirx.decl_buffer([1], str(value.ty.dtype), "step", scope="local")
        self.buffers.append(buffer)
        self.stores.append(tirx.BufferStore(buffer, value, [_int(0)]))
        return buffer[_int(0)]

    def _towards_zero(self, a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        whole = self._of_magnitudes(self._magnitude(a), self._magnitude(b))
        is_below = tirx.And((a ^ b) < _int(0), whole != _bits(0))
        return self._kept(tirx.Select(is_below, ~(whole - _bits(1)), whole).astype(_INT))

    def _magnitude(self, value: tirx.Expr) -> tirx.Expr:
        """Return how far a number is from 0, which of the least one is 2**63."""
        ones = (value >> _int(63)).astype(_BITS)
        return self._kept((value.astype(_BITS) ^ ones) + (ones & _bits(1)))

    def _of_magnitudes(self, a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        inverse = self._kept(tirx.FloatImm(_FLOAT, _LESS) / b.astype(_FLOAT))
        first = self._kept((a.astype(_FLOAT) * inverse).astype(_BITS))
        left = self._kept(a - first * b)
        more = self._kept((left.astype(_FLOAT) * inverse).astype(_BITS))
        return self._kept(first + more + tirx.Select(left - more * b >= b, _bits(1), _bits(0)))


def _is_beyond(left: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Say whether what is left over has another sign than the divisor, so that the next quotient below leaves less."""
    return tirx.And((left ^ b) < _int(0), left != _int(0))
