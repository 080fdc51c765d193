"""Branches that begin with like operators on the same data become one wider branch, and parts of its result.

The machinery of ``CombineParallelConv2D``, ``CombineParallelDense`` and ``CombineParallelBatchMatmul``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import tvm_ffi

from ..._dataclasses import dataclass
from ..analysis.scopes import Scope, scopes
from ..ir import Call, Dim, Expr, Function, RelayExpr, children, free_vars, is_call, post_order, rewrite
from ..op.pointwise import is_broadcast, is_pointwise
from ..op.registry import build
from .known_type import type_of, with_type_of

__all__ = ["Branch", "Combination", "combined", "same_but_axis", "slices"]


@dataclass(frozen=True, eq=False)
class Branch:
    """An operator and what follows it: each call is the only user of the one before."""

    calls: list[Call]

    @property
    def first(self) -> Call:
        return self.calls[0]


class Combination(ABC):
    """How branches that begin with one kind of operator become one."""

    name: str

    @abstractmethod
    def may_begin(self, call: Call) -> bool:
        """Say whether a call of the operator can be combined at all."""

    @abstractmethod
    def may_join(self, one: Call, other: Call) -> bool:
        """Say whether two such calls on the same data can be combined."""

    @abstractmethod
    def begun(self, firsts: Sequence[Call]) -> Expr:
        """Return the call that computes all of them."""

    @abstractmethod
    def operand(self, operands: Sequence[Expr], calls: Sequence[Call]) -> Expr | None:
        """Return what the other operands of binary calls become for the whole, or None where they do not fit."""

    @abstractmethod
    def parts(self, whole: Expr, calls: Sequence[Call]) -> list[Expr]:
        """Return what each branch computed, from the result of the whole."""


def combined(function: Function, combination: Combination, least: int) -> Function:
    """Return a typed function in which groups of at least `least` parallel branches have been combined."""
    while True:
        graph = _Graph(function, combination)
        group = next((g for g in graph.groups() if len(g) >= max(least, 2)), None)
        if group is None:
            return function
        function = _replaced(function, graph.substitutes(group))


def _replaced(function: Function, substitutes: dict[RelayExpr, Expr]) -> Function:
    return rewrite(function, substitutes, with_type_of)


class _Graph:
    def __init__(self, function: Function, combination: Combination) -> None:
        self.combination = combination
        self.params = set(function.params)
        self.nodes: list[RelayExpr] = list(post_order(function))
        self.scopes: dict[Any, Scope] = scopes(function)
        self.users: dict[Any, list[Any]] = {}
        for node in self.nodes:
            for part in children(node):
                self.users.setdefault(part, []).append(node)

    def groups(self) -> Iterator[list[Branch]]:
        """Yield groups of branches that can be combined."""
        found: dict[Any, list[list[Call]]] = {}
        for node in self.nodes:
            if not self.is_first(node):
                continue
            groups = found.setdefault(node.args[0], [])
            for group in groups:
                if self.joins(node, group):
                    group.append(node)
                    break
            else:
                groups.append([node])
        for groups in found.values():
            for group in groups:
                yield [self.branch(first) for first in group]

    def is_first(self, node: RelayExpr) -> TypeGuard[Call]:
        if not is_call(node, self.combination.name):
            return False
        return self.is_free(list(node.args)[1:]) and self.combination.may_begin(node)

    def is_free(self, operands: Sequence[Expr]) -> bool:
        """Say whether operands can be computed as early as need be: they depend on parameters alone."""
        return all(v in self.params for operand in operands for v in free_vars(operand))

    def joins(self, call: Call, group: list[Call]) -> bool:
        if self.scopes[call] is not self.scopes[group[0]] or not self.combination.may_join(group[0], call):
            return False
        below = {node for operand in list(call.args)[1:] for node in post_order(operand)}
        return not any(other in below for other in group)

    def branch(self, first: Call) -> Branch:
        calls = [first]
        while True:
            users = self.users.get(calls[-1], ())
            if len(users) != 1 or not self.is_follower(users[0]) or self.scopes[users[0]] is not self.scopes[first]:
                return Branch(calls)
            calls.append(users[0])

    def is_follower(self, node: RelayExpr) -> bool:
        return is_call(node, "expand_dims") or is_pointwise(node) or is_broadcast(node)

    def substitutes(self, group: list[Branch]) -> dict[RelayExpr, Expr]:
        """Return what stands in the place of the last call of each branch that is part of the whole."""
        whole = self.combination.begun([b.first for b in group])
        calls = [b.first for b in group]
        depth = 1
        while all(len(b.calls) > depth for b in group):
            following = [b.calls[depth] for b in group]
            wider = self.followed(whole, calls, following, group)
            if wider is None:
                break
            whole, calls, depth = wider, following, depth + 1
        type_of(whole)
        parts = self.combination.parts(whole, calls)
        for part in parts:
            type_of(part)
        return dict(zip(calls, parts, strict=True))

    def followed(self, whole: Expr, before: list[Call], calls: list[Call], group: list[Branch]) -> Call | None:
        """Return the whole followed by what follows every branch, or None where that is not the same."""
        one = calls[0]
        if any(not c.op.same_as(one.op) or not tvm_ffi.structural_equal(c.attrs, one.attrs) for c in calls):
            return None
        if len(one.args) == 1:
            return Call(one.op, [whole], one.attrs)
        positions = {[a.same_as(b) for a in c.args].index(True) for c, b in zip(calls, before, strict=True)}
        if len(positions) != 1:
            return None
        position = positions.pop()
        others = [c.args[1 - position] for c in calls]
        firsts = {b.first for b in group}
        if not self.is_free(others) or any(n in firsts for o in others for n in post_order(o)):
            return None
        type_of(whole)
        other = self.combination.operand(others, before)
        if other is None:
            return None
        return Call(one.op, [other, whole] if position else [whole, other])


def slices(whole: Expr, calls: Sequence[Call], *, all_axes: bool) -> list[Expr]:
    """Return the parts of a tensor that lie side by side along the one axis in which it is wider than they are."""
    shape = list(type_of(whole).shape)
    shapes = [list(type_of(call).shape) for call in calls]
    axis = next(i for i, (a, b) in enumerate(zip(shape, shapes[0], strict=True)) if not _same_dim(a, b))
    rank = len(shape) if all_axes else axis + 1
    parts, start = [], 0
    for own in shapes:
        begin, end = [0] * rank, [-1] * rank
        begin[axis], end[axis] = start, own[axis]
        parts.append(build("strided_slice", whole, begin, end, strides=[1] * rank, slice_mode="size"))
        start += own[axis]
    return parts


def _same_dim(a: Dim, b: Dim) -> bool:
    return a == b if isinstance(a, int) and isinstance(b, int) else not (isinstance(a, int) or isinstance(b, int))


def same_but_axis(one: Expr, other: Expr, axis: int) -> bool:
    """Say whether two tensors have one data type and, but for one axis, one known shape."""
    a, b = type_of(one), type_of(other)
    if a.dtype != b.dtype or len(a.shape) != len(b.shape):
        return False
    pairs = [p for i, p in enumerate(zip(a.shape, b.shape, strict=True)) if i != axis % max(len(a.shape), 1)]
    return all(isinstance(x, int) and isinstance(y, int) and x == y for x, y in pairs)
