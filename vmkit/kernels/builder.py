"""The words that kernels are written in: loops, memory, vectors, and instructions, in TVM's IR builder.

``T`` of this module is that builder, of which TVM has several names (``tvm.script.ir_builder.tirx``,
``tvm.tirx.script.builder``); kernels take it from here for what has no word below, such as ``T.func_attr``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias, overload

from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.sym import Analyzer

from ..relay.ir.dims import as_expr
from ..relay.op.kernel import const as integer

__all__ = [
    "AS_WRITTEN",
    "FEWEST_ELEMENTS",
    "PARALLEL_SIZE",
    "WRITTEN_OUT",
    "Size",
    "T",
    "add_to",
    "as_expr",
    "broadcast",
    "clamped",
    "constant",
    "either",
    "evaluate",
    "fetch_ahead",
    "in_one_axis",
    "in_parallel",
    "in_register",
    "integer",
    "kernel",
    "let",
    "local",
    "loop",
    "memory",
    "ramp",
    "register",
    "reinterpreted",
    "shuffled",
    "splat",
    "when",
    "with_fields",
    "zeros",
]

Size: TypeAlias = "int | tirx.Expr"
"""A number that is known when a kernel is written, or an integer that it computes."""


PARALLEL_SIZE = 16_384
"""Elements of a result, of fewer than which starting threads costs more than they save."""

WRITTEN_OUT = "vmkit.written_out"
"""The attribute of functions of loops and statements alone, in which there are no blocks, threads or pipelines."""
AS_WRITTEN = {"tirx.is_scheduled": True, "tirx.noalias": True, WRITTEN_OUT: True}
"""The attributes of such functions.

One whose buffers may overlap makes TVM take those of the whole module for such, be it a function that has none.
"""
FEWEST_ELEMENTS = "vmkit.fewest_elements"
"""The attribute of kernels of unknown sizes that says how many elements their results have at least."""

_FIELDS = ("iter_vars", "reads", "writes", "name_hint", "body", "init", "alloc_buffers", "match_buffers", "annotations")


# -- functions


@contextmanager
def kernel() -> Iterator[IRBuilder]:
    """Open a function of TIR that is scheduled as it is written; ``get()`` of what is given returns it at the end."""
    with IRBuilder() as builder, T.prim_func(private=True):
        T.func_attr(AS_WRITTEN)
        yield builder


# -- numbers


def constant(value: float, dtype: str = "float32") -> tirx.Expr:
    """Return a number of a data type."""
    return tirx.const(value, dtype)


def let(value: tirx.Expr, then: Callable[[tirx.Expr], tirx.Expr]) -> tirx.Expr:
    """Return an expression that uses a number several times, computed once."""
    name = tirx.Var("v", value.ty.dtype)
    return tirx.Let(name, value, then(name))


def clamped(x: tirx.Expr, low: float, high: float) -> tirx.Expr:
    """Return a float32 within limits; not a number stays what it is, which min and max would not keep."""
    return tirx.Select(x < constant(low), constant(low), tirx.Select(x > constant(high), constant(high), x))


def reinterpreted(dtype: str, value: tirx.Expr) -> tirx.Expr:
    """Return the bits of a value as another data type."""
    return T.reinterpret(dtype, value)


# -- control


def loop(count: Size) -> AbstractContextManager[tirx.Var]:
    """Open a loop of so many iterations, one after another."""
    return T.serial(as_expr(count))


def in_parallel(count: Size) -> AbstractContextManager[tirx.Var]:
    """Open a loop whose iterations are shared by cores."""
    return T.parallel(as_expr(count))


@contextmanager
def when(test: bool | tirx.Expr) -> Iterator[None]:
    """Open what is done where a test holds."""
    with T.If(test), T.Then():
        yield


def either(test: tirx.Expr, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    """Write what is done where a test holds and where not, only one of them where the test is known."""
    if isinstance(test, tirx.IntImm):
        chosen = then if int(test) else otherwise
        if chosen is not None:
            chosen()
        return
    with T.If(test):
        with T.Then():
            then()
        if otherwise is not None:
            with T.Else():
                otherwise()


# -- memory


def memory(count: Size, dtype: str = "float32") -> tirx.Buffer:
    """Return new memory for so many numbers; a number of them that follows from numbers is one."""
    size = Analyzer().simplify(count) if isinstance(count, tirx.Expr) else count
    return T.alloc_buffer((size,), dtype, layout=None)


def local(*shape: Size, dtype: str = "float32") -> tirx.Buffer:
    """Return a new buffer of one thread."""
    return T.alloc_buffer(shape, dtype, scope="local", layout=None)


def register(lanes: int, dtype: str = "float32", is_short: bool = False) -> tirx.Buffer:
    """Return memory for one vector, which LLVM keeps in a register.

    TVM would have vectors of two lengths in the same memory, and then refuse that: those of a shorter one say so.
    """
    scope = "local" if is_short else "global"
    return T.alloc_buffer((integer(1),), f"{dtype}x{lanes}", scope=scope, layout=None)


def add_to(total: tirx.Buffer, value: tirx.Expr) -> None:
    """Add a vector to the one in a register."""
    T.buffer_store(total, total[0] + value, [integer(0)])


@overload
def in_register(value: tirx.Expr) -> tirx.Expr: ...
@overload
def in_register(value: Size) -> Size: ...
def in_register(value: Size) -> Size:
    """Return an integer made register-resident: put in memory, which LLVM makes a register. A number stays one.

    A pass of TVM's works out which parts of buffers an index reaches, through all that variables stand for: where many
    indices depend on many variables that takes seconds, even minutes. What is loaded it takes for unknown.
    """
    if isinstance(value, int):
        return value
    place = local(integer(1), dtype=str(value.ty.dtype))
    T.buffer_store(place, value, [integer(0)])
    return place[0]


def fetch_ahead(element: tirx.Expr, cache: int = 2, to_write: bool = False) -> None:
    """Write a statement that has an element fetched to a cache; beyond the end of a tensor that does nothing.

    Weights that come from memory would be waited for at every page, where the machine's own fetching ahead ends.

    Parameters
    ----------
    element : expression
        An element of a buffer.
    cache : int
        The first, for what is needed soon, or the second.
    to_write : bool
        Whether it is fetched as this core's own.
    """
    address, how = tirx.address_of(element), (int(to_write), 4 - cache, 1)  # how near is 3 for the first; data
    T.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *(tirx.IntImm("int32", n) for n in how)))


def in_one_axis(buffer: tirx.Buffer) -> tirx.Buffer:
    """Return a tensor's numbers as one axis."""
    count: Size = 1
    for size in buffer.ty.shape:
        count = count * size
    return T.decl_buffer((as_expr(count),), str(buffer.ty.dtype), data=buffer.data, layout=None)


# -- vectors


@overload
def ramp(begin: tirx.Expr, lanes: int) -> tirx.Expr: ...
@overload
def ramp(begin: Size, lanes: int) -> Size: ...
def ramp(begin: Size, lanes: int) -> Size:
    """Return consecutive indices, a single one where there is one lane."""
    return begin if lanes == 1 else tirx.Ramp(as_expr(begin), integer(1), lanes)


def broadcast(value: tirx.Expr, lanes: int) -> tirx.Expr:
    """Return a vector that has a value in every lane; the value itself where there is one lane."""
    return value if lanes == 1 else tirx.Broadcast(value, lanes)


def splat(value: float, lanes: int, dtype: str = "float32") -> tirx.Expr:
    """Return a vector that has a number in every lane."""
    return broadcast(constant(value, dtype), lanes)


def zeros(lanes: int) -> tirx.Expr:
    """Return a vector of zeros."""
    return splat(0.0, lanes)


def shuffled(a: tirx.Expr, b: tirx.Expr, indices: Sequence[int]) -> tirx.Expr:
    """Return the vector of some elements of two others, which are counted on from the first to the second."""
    return tirx.Shuffle([a, b], [tirx.IntImm("int32", i) for i in indices])


# -- instructions


def evaluate(name: str, *args: tirx.Expr) -> None:
    """Write a call of one of LLVM's intrinsics of x86 that returns nothing."""
    T.evaluate(T.call_llvm_intrin("void", f"llvm.x86.{name}", *args))


def with_fields(block: s_tir.SBlock, **changed: Any) -> s_tir.SBlock:
    """Return a block that is written already with some fields changed."""
    return s_tir.SBlock(**{name: getattr(block, name) for name in _FIELDS} | changed)
