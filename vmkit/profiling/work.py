"""How many operations a kernel performs, counted in its loops.

An operation is an addition, a multiplication, a division, a minimum or one of their like on one number, or a function
such as ``exp`` of it; a multiplication with an addition is two. Counted is what is computed for values, by each lane of
a vector; index arithmetic, comparisons, conversions, loads and stores are none. So a kernel that computes in another
way than an operator's definition, such as Winograd's, has its own number.

A loop whose bounds and branches do not depend on its variable counts as often as it runs. Others are gone through, and
a loop inside is counted once for all that it depends on; where that would take too long, or a number is not known,
nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm import s_tir, tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.tirx.buffer import is_buffer_var

from .reach import Reach, control_of, is_index, names_in
from .work_of_values import Unknown, in_value

__all__ = ["operations"]

Environment: TypeAlias = dict[Any, Any]
"""Numbers by their variables, and the elements of local buffers of integers by theirs."""

_MOST = 20_000  # statements that are gone through for one kernel


def operations(kernel: tirx.PrimFunc, shapes: Sequence[Sequence[int]]) -> int | None:
    """Return how many operations a kernel performs.

    Parameters
    ----------
    kernel : tirx.PrimFunc
        The kernel, scheduled or not.
    shapes : sequence of sequence of int
        Of its tensors, in the order of its parameters.

    Returns
    -------
    int or None
        None where it cannot be said: loops depend on data, or an instruction is not known.
    """
    tensors = [param for param in kernel.params if is_buffer_var(param)]
    if len(tensors) != len(shapes):
        return None
    known: Environment = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        for size, number in zip(tensor.ty.shape, shape, strict=False):
            if isinstance(size, tvm.ir.Var):
                known[size] = number
    try:
        return _Counter(kernel.body, known).count()
    except Unknown:
        return None


def _frozen(value: object) -> object:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


class _Counter:
    """Counts a body once."""

    def __init__(self, body: tirx.Stmt, known: Environment) -> None:
        self._body, self._known, self._left = body, known, _MOST
        self._control = control_of(body)
        self._reaches: dict[Any, Reach] = {}
        self._reach(body)
        self._counted: dict[Any, int] = {}

    def count(self) -> int:
        """Return the operations of the whole."""
        return self._of(self._body)

    def _of(self, node: Any) -> int:  # noqa: ANN401 - a statement
        reach = self._reaches[node]
        if reach.stores or reach.defines:
            return self._through(node)
        key = (node, tuple(_frozen(self._known.get(name)) for name in reach.ordered))
        if key not in self._counted:
            self._counted[key] = self._through(node)
        return self._counted[key]

    def _through(self, node: Any) -> int:  # noqa: ANN401 - a statement
        self._left -= 1
        if self._left < 0:
            raise Unknown
        match node:
            case tirx.SeqStmt():
                return sum(self._of(each) for each in node.seq)
            case tirx.For():
                return self._of_loop(node)
            case tirx.BufferStore():
                return self._of_store(node)
            case tirx.Bind():
                if node.var in self._control:
                    self._known[node.var] = self._number(node.value)
                    return 0
                return in_value(node.value)
            case tirx.IfThenElse():
                return self._of_branch(node)
            case tirx.Evaluate():
                return in_value(node.value)
            case tirx.AttrStmt():
                return self._of(node.body)
            case s_tir.SBlockRealize():
                return self._of_block(node)
            case tirx.AllocBuffer() | tirx.DeclBuffer() | tirx.AssertStmt():
                body = getattr(node, "body", None)
                return 0 if body is None else self._of(body)
        raise Unknown

    def _of_loop(self, loop: tirx.For) -> int:
        first, extent = self._number(loop.min), self._number(loop.extent)
        if loop.loop_var not in self._control:
            return extent * self._of(loop.body) if extent > 0 else 0
        total = 0
        for step in range(extent):
            self._known[loop.loop_var] = first + step
            total += self._of(loop.body)
        return total

    def _of_store(self, store: tirx.BufferStore) -> int:
        if store.buffer in self._control:
            place = tuple(self._number(index) for index in store.indices)
            self._known.setdefault(store.buffer, {})[place] = self._number(store.value)
            return 0
        return 0 if is_index(store.buffer) else in_value(store.value)

    def _of_branch(self, branch: tirx.IfThenElse) -> int:
        if self._number(branch.condition):
            return self._of(branch.then_case)
        return 0 if branch.else_case is None else self._of(branch.else_case)

    def _of_block(self, realize: Any) -> int:  # noqa: ANN401 - of s_tir
        if not self._number(realize.predicate):
            return 0
        for iteration, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if iteration.var in self._control:
                self._known[iteration.var] = self._number(value)
        return self._of(realize.block.body)

    def _reach(self, node: Any) -> Reach:  # noqa: ANN401 - a statement
        """Return what a statement reads and stores of what bounds depend on; that of each statement is kept."""
        self._reaches[node] = made = self._reach_of(node)
        return made

    def _reach_of(self, node: Any) -> Reach:  # noqa: ANN401 - a statement
        match node:
            case tirx.SeqStmt():
                return Reach.joined([self._reach(each) for each in node.seq]).without()
            case tirx.For():
                return self._read(node.min, node.extent).then(self._reach(node.body).without(node.loop_var))
            case tirx.BufferStore():
                if node.buffer not in self._control:
                    return Reach()
                return Reach(self._read(node.value, *node.indices).reads, frozenset([node.buffer]))
            case tirx.Bind():
                is_control = node.var in self._control
                return Reach(self._read(node.value).reads, defines=frozenset([node.var])) if is_control else Reach()
            case tirx.IfThenElse():
                cases = [node.then_case, *([] if node.else_case is None else [node.else_case])]
                return Reach.joined([self._read(node.condition), *(self._reach(each).without() for each in cases)])
            case s_tir.SBlockRealize():
                inside = self._reach(node.block.body).without(*(each.var for each in node.block.iter_vars))
                return self._read(node.predicate, *node.iter_values).then(inside.without(*node.block.alloc_buffers))
            case tirx.AllocBuffer() | tirx.DeclBuffer():
                own = Reach(defines=frozenset([node.buffer]))
                return own if getattr(node, "body", None) is None else own.then(self._reach(node.body))
            case tirx.AttrStmt():
                return self._reach(node.body)
        return Reach()

    def _read(self, *exprs: Any) -> Reach:
        return Reach(frozenset(name for expr in exprs for name in names_in(expr) if name in self._control))

    def _number(self, expr: Any) -> int:  # noqa: ANN401 - an expression, or a number
        """Return the number that an expression of integers is."""
        match expr:
            case int():
                return int(expr)
            case tirx.IntImm():
                return int(expr.value)
            case tvm.ir.Var():
                if expr not in self._known:
                    raise Unknown
                return int(self._known[expr])
            case tirx.Cast():
                return self._number(expr.value)
            case tirx.Not():
                return int(not self._number(expr.a))
            case tirx.Select():
                return self._number(expr.true_value if self._number(expr.condition) else expr.false_value)
            case TensorLoad():
                place = tuple(self._number(index) for index in expr.indices)
                if place not in self._known.get(expr.source, {}):
                    raise Unknown
                return int(self._known[expr.source][place])
            case Call() if str(getattr(expr.op, "name", "")).rpartition(".")[2] == "likely":
                return self._number(expr.args[0])
        calculate = _CALCULATE.get(type(expr))
        if calculate is None:
            raise Unknown
        return calculate(self._number(expr.a), self._number(expr.b))


_CALCULATE: Mapping[type, Callable[[int, int], int]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.FloorDiv: lambda a, b: a // b,
    tirx.FloorMod: lambda a, b: a % b,
    tirx.Div: lambda a, b: int(a / b),
    tirx.Mod: lambda a, b: a - b * int(a / b),
    tirx.Min: min,
    tirx.Max: max,
    tirx.EQ: lambda a, b: int(a == b),
    tirx.NE: lambda a, b: int(a != b),
    tirx.LT: lambda a, b: int(a < b),
    tirx.LE: lambda a, b: int(a <= b),
    tirx.GT: lambda a, b: int(a > b),
    tirx.GE: lambda a, b: int(a >= b),
    tirx.And: lambda a, b: int(bool(a and b)),
    tirx.Or: lambda a, b: int(bool(a or b)),
}
