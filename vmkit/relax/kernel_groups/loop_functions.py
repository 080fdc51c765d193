"""The function that a loop of kernels becomes: it calls each as a part, iteration after iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx.buffer import buffer_data

from ..._dataclasses import dataclass
from ...kernels.builder import AS_WRITTEN
from .functions import KernelGroup, Operands, attributes
from .parts import as_part, call_part

__all__ = ["KernelLoop", "Move", "flag_part", "loop_function", "move_part"]


@dataclass(frozen=True)
class Move:
    """The copy of a tensor's bytes: from where, to where, how many."""

    source: relax.Expr
    target: relax.Expr
    size: tirx.Expr


@dataclass(frozen=True)
class KernelLoop(KernelGroup):
    """A loop to be run by one function.

    Parameters
    ----------
    head
        How many of the calls compute the condition.
    condition
        The tensor that is read after those.
    goes_on
        The value of the condition at which there is a further iteration.
    before, after
        What is copied before the first iteration, and at the end of each.
    swaps
        What every other iteration reads where it else writes, and the other way round, so that it need not be copied;
        each from where it is written first to where it is read first, which is where it belongs in the end.
    """

    head: int
    condition: relax.Expr
    goes_on: bool
    before: tuple[Move, ...]
    after: tuple[Move, ...]
    swaps: tuple[Move, ...]


def move_part() -> tirx.PrimFunc:
    """Return the part that copies bytes."""
    with IRBuilder() as ib, T.prim_func(private=True):
        T.func_attr(AS_WRITTEN)
        handles = [T.arg(name, T.handle()) for name in ("source", "target")]
        size = tirx.Var("size", "int64")
        source, target = (T.match_buffer(handle, (size,), "uint8", layout=None) for handle in handles)
        with T.serial(size) as i:
            T.buffer_store(target, source[i], [i])
    return as_part(ib.get())


def flag_part() -> tirx.PrimFunc:
    """Return the part that reads a condition."""
    with IRBuilder() as ib, T.prim_func(private=True):
        T.func_attr(AS_WRITTEN)
        handles = [T.arg(name, T.handle()) for name in ("condition", "flag")]
        condition = T.match_buffer(handles[0], (), "bool", layout=None)
        flag = T.match_buffer(handles[1], (1,), "int32", layout=None)
        T.buffer_store(flag, condition[()].astype("int32"), [0])
    return as_part(ib.get())


def loop_function(
    loop: KernelLoop, parts: Mapping[ir.GlobalVar, str], move: str, flag: str, look: str
) -> tirx.PrimFunc:
    """Return the function of a loop, of the parameters of a group's.

    Parameters
    ----------
    parts
        The names of the kernels as parts.
    move, flag, look
        The names of :func:`move_part`, :func:`flag_part` and :func:`.looks.look_part`.
    """
    own = Operands.of(loop)
    goes_on = tirx.decl_buffer((1,), "int32", "goes_on", layout=None)
    one = tirx.IntImm("int32", 1)

    def moved(moves: tuple[Move, ...], at: Operands) -> list[tirx.Stmt]:
        return [call_part(move, [at.address(m.source), at.address(m.target), at.renamed(m.size)]) for m in moves]

    def iteration(at: Operands, end: list[tirx.Stmt]) -> list[tirx.Stmt]:
        """Return the statements of an iteration; `end` is done where there is none."""
        calls = [at.call(call, parts) for call in loop.calls]
        checked = [*calls[: loop.head], call_part(flag, [at.address(loop.condition), buffer_data(goes_on)])]
        if not loop.goes_on:
            checked.append(tirx.BufferStore(goes_on, one - goes_on[0], [0]))
        rest = _sequence([*calls[loop.head :], *moved(loop.after, at)])
        return [*checked, tirx.IfThenElse(goes_on[0] == one, rest, _sequence(end))]

    used = sum((call.used for call in loop.calls), tirx.IntImm("int64", 0)) * (2 if loop.swaps else 1)
    body = [*own.look(loop.state, used, look), *iteration(own, [])]
    if loop.swaps:
        back = {here: there for m in loop.swaps for here, there in ((m.source, m.target), (m.target, m.source))}
        swapped = replace(own, address=lambda tensor: own.address(back.get(tensor, tensor)))
        body.append(tirx.IfThenElse(goes_on[0] == one, _sequence(iteration(swapped, moved(loop.swaps, own))), None))
    whole = [
        *own.checks,
        *moved(loop.before, own),
        tirx.AllocBuffer(goes_on),
        tirx.BufferStore(goes_on, one, [0]),
        tirx.While(goes_on[0] == one, _sequence(body)),
    ]
    return tirx.PrimFunc(own.params, tirx.SeqStmt(whole), attrs=attributes(loop))


def _sequence(statements: list[tirx.Stmt]) -> tirx.Stmt:
    """Return some statements as one, TVM's sequences being of two and more."""
    if not statements:
        return tirx.Evaluate(tirx.IntImm("int32", 0))
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)
