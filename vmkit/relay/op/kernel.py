"""Two ways of writing a kernel: one expression for every element, and loops that write elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.sym import Analyzer

from ..ir import dims
from ..ir.types import Dim
from .registry import OpPattern

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = [
    "SHARED",
    "as_index",
    "chosen",
    "const",
    "from_either_end",
    "grid",
    "guarded_division",
    "indexed",
    "inside",
    "line_at",
    "loops",
    "over_lines",
    "statement_of",
    "written",
]


SHARED = 1 << 14
"""Elements of which fewer are written before another core has begun."""

Result: TypeAlias = tuple[Sequence[Dim], str]
"""The shape and the data type of a tensor that loops write."""


def indexed(
    context: LowerContext,
    shape: Sequence[Dim],
    element: Callable[..., tirx.Expr],
    *args: relax.Expr | Sequence[relax.Expr | Dim | Sequence[Dim]],
    pattern: OpPattern | None = None,
    name: str | None = None,
) -> relax.Expr:
    """Return a tensor of a shape whose elements are computed one by one.

    Parameters
    ----------
    context : LowerContext
        Where the kernel goes.
    shape : sequence of dimensions
        The shape of the result, in the symbols of the function being lowered.
    element : callable
        ``element(index, *args)`` gives the element at a tuple of indices.
    *args
        Lowered tensors, tuples of them, and lists of dimensions; the element function gets TE tensors, lists of them,
        and lists of integer expressions. Dimensions must come this way: a kernel has symbols of its own.
    """

    def compute(whole: list[Dim], *given: te.Tensor | list[te.Tensor] | list[tirx.Expr]) -> te.Tensor:
        return te.compute([dims.as_expr(d) for d in whole], lambda *index: element(index, *given), name="element")

    return context.te(compute, list(shape), *args, pattern=pattern, name=name)


def loops(
    context: LowerContext,
    results: Sequence[Result],
    body: Callable[..., None],
    *args: relax.Expr | Sequence[Dim],
    name: str | None = None,
) -> Any:  # noqa: ANN401 - one expression or a tuple of them, as there are results
    """Return tensors written by loops: what no expression for every element can say.

    Parameters
    ----------
    context : LowerContext
        Where the kernel goes.
    results : sequence of (shape, dtype)
        The tensors to write.
    body : callable
        ``body(outputs, *args)`` writes the loops with TVM's IR builder. Outputs and tensors are buffers.
    *args
        Lowered tensors and lists of dimensions, as for :func:`indexed`.

    Returns
    -------
    relax.Expr or tuple of relax.Expr
        One result alone, or all of them.
    """
    tensors = [a for a in args if not isinstance(a, list)]
    # Numbers and names alone stay in the closure of `compute`, so that the kernel is made once for equal arguments.
    are_lists = tuple(isinstance(a, list) for a in args)
    dtypes = tuple(dtype for _, dtype in results)

    def compute(
        shapes: list[list[Dim]], operands: list[te.Tensor], sizes: list[list[tirx.Expr]]
    ) -> te.Tensor | list[te.Tensor]:
        def statement(inputs: Sequence[tirx.Buffer], outputs: Sequence[tirx.Buffer]) -> tirx.Stmt:
            buffers, lists = iter(inputs), iter(sizes)
            given = [next(lists) if is_list else next(buffers) for is_list in are_lists]
            return statement_of(lambda: body(list(outputs), *given))

        whole = [[dims.as_expr(d) for d in s] for s in shapes]
        return written(whole, operands, statement, dtypes, name or "loops")

    shapes = [list(s) for s, _ in results]
    return context.te(
        compute, shapes, tensors, [a for a in args if isinstance(a, list)], pattern=OpPattern.OPAQUE, name=name
    )


def written(
    shapes: Sequence[Sequence[tirx.Expr]],
    operands: Sequence[te.Tensor],
    statement: Callable[[Sequence[tirx.Buffer], Sequence[tirx.Buffer]], tirx.Stmt],
    dtypes: Sequence[str],
    name: str,
) -> Any:  # noqa: ANN401 - one tensor or a list of them, as there are shapes
    """Return tensors that a statement writes, which is made of the buffers of the operands and of the results.

    The buffers begin where their tensors do, those that TVM makes may begin elsewhere: a kernel of such cannot be one
    of a group, as it is told where by tensors alone.
    """

    def buffer(shape: Sequence[tirx.Expr], dtype: str, name: str) -> tirx.Buffer:
        return tirx.decl_buffer(shape, dtype, name, layout=None)

    return te.extern(
        list(shapes),
        list(operands),
        statement,
        dtype=list(dtypes),
        in_buffers=[buffer(each.shape, each.dtype, each.op.name) for each in operands],
        out_buffers=[buffer(shape, dtype, name) for shape, dtype in zip(shapes, dtypes, strict=True)],
        name=name,
    )


def statement_of(write: Callable[[], None]) -> tirx.Stmt:
    """Return the statement that a function writes with TVM's IR builder."""
    with IRBuilder() as builder, T.seq_scope():
        write()
    # The scope that holds several statements is of no use to the code generator.
    return builder.get().body


@contextmanager
def grid(extents: Sequence[Dim]) -> Iterator[list[tirx.Var]]:
    """Open one loop for each extent, in the body of `loops`, and give their variables."""
    with ExitStack() as opened:
        yield [opened.enter_context(T.serial(0, dims.as_expr(e))) for e in extents]


def over_lines(extents: Sequence[tirx.Expr], work: tirx.Expr, write: Callable[[list[tirx.Expr]], None]) -> None:
    """Write what each line of a tensor takes, in the body of `loops`; cores share the lines where there is enough work.

    Parameters
    ----------
    extents : sequence of expression
        Sizes of the axes along which there are lines.
    work : expression
        How many elements a line has.
    write : callable
        ``write(index)`` writes the loops of the line at an index; what it writes to is the line's own.
    """
    count = dims.as_expr(dims.product(extents))
    enough = Analyzer().simplify(count * work >= const(SHARED))

    def written(loop: Callable[..., Any]) -> None:
        with loop(0, count) as line:
            write(line_at(line, extents))

    if isinstance(enough, tirx.IntImm) or not extents:
        written(T.parallel if extents and int(enough) else T.serial)
        return
    with T.If(enough):
        with T.Then():
            written(T.parallel)
        with T.Else():
            written(T.serial)


def line_at(number: tirx.Expr, extents: Sequence[tirx.Expr]) -> list[tirx.Expr]:
    """Return the index of the line of a number, of lines along axes of some extents."""
    index: list[tirx.Expr] = []
    for extent in reversed(extents[1:]):
        # TVM divides only by what it cannot prove to be 0.
        size = tirx.max(extent, const(1))
        index.insert(0, T.bind(tirx.floormod(number, size)))
        number = T.bind(tirx.floordiv(number, size))
    return [number, *index] if extents else []


def const(value: int, dtype: str = "int64") -> tirx.Expr:
    """Return an integer constant of a kernel."""
    return tirx.IntImm(dtype, value)


def as_index(value: tirx.Expr) -> tirx.Expr:
    """Return an element of an integer tensor as an index."""
    return dims.int64(value)


def from_either_end(position: tirx.Expr, extent: tirx.Expr) -> tirx.Expr:
    """Return an element of an integer tensor as an index; a negative one counts from the end."""
    index = as_index(position)
    return tirx.Select(index < 0, index + extent, index)


def inside(index: tirx.Expr, extent: tirx.Expr, *, wrap: bool = False) -> tirx.Expr:
    """Return an index limited to 0 .. extent - 1; with `wrap`, a negative one first counts from the end."""
    if wrap:
        index = from_either_end(index, extent)
    return tirx.max(tirx.min(index, extent - 1), const(0))


def chosen(index: tirx.Expr, values: Sequence[tirx.Expr]) -> tirx.Expr:
    """Return the element of a short list that an index of a kernel selects."""
    result = values[-1]
    for position in range(len(values) - 2, -1, -1):
        result = tirx.Select(index == position, values[position], result)
    return result


def guarded_division(
    divide: Callable[[tirx.Expr, tirx.Expr], tirx.Expr], *, is_remainder: bool
) -> Callable[[tirx.Expr, tirx.Expr], tirx.Expr]:
    """Return a division of integers that ends no process: by 0 it gives 0, as numpy's does.

    By -1 it is computed without dividing, for the quotient of the smallest integer does not exist either.
    """

    def combine(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        dtype = str(b.ty.dtype)
        zero, one = tirx.const(0, dtype), tirx.const(1, dtype)
        if dtype.startswith("uint"):
            return tirx.Select(tirx.EQ(b, zero), zero, divide(a, tirx.Select(tirx.EQ(b, zero), one, b)))
        minus_one = tirx.EQ(b, tirx.const(-1, dtype))
        whole = divide(a, tirx.Select(tirx.any(tirx.EQ(b, zero), minus_one), one, b))
        negated = zero if is_remainder else zero - a
        return tirx.Select(tirx.EQ(b, zero), zero, tirx.Select(minus_one, negated, whole))

    return combine
