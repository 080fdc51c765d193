"""What of a kernel its loops' bounds and branches depend on, and what each statement has to do with that."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from .._dataclasses import dataclass

__all__ = ["Reach", "control_of", "is_index", "names_in"]


@dataclass(frozen=True)
class Reach:
    """What a statement reads from outside, and stores and defines for what follows it, of what bounds depend on."""

    reads: frozenset[Any] = frozenset()
    stores: frozenset[Any] = frozenset()
    defines: frozenset[Any] = frozenset()

    @functools.cached_property
    def ordered(self) -> tuple[Any, ...]:
        """What is read, in an order of its own."""
        return tuple(self.reads)

    def then(self, other: Reach) -> Reach:
        """Return what both, one after another, read, store and define."""
        return Reach(
            self.reads | (other.reads - self.defines),
            self.stores | (other.stores - self.defines),
            self.defines | other.defines,
        )

    def without(self, *names: Any) -> Reach:
        """Return what is seen from outside of a scope that has some names of its own."""
        gone = self.defines | frozenset(names)
        return Reach(self.reads - gone, self.stores - gone)

    @staticmethod
    def joined(parts: Sequence[Reach]) -> Reach:
        """Return what statements, one after another, read, store and define."""
        return functools.reduce(Reach.then, parts, Reach())


def control_of(body: tirx.Stmt) -> set[Any]:
    """Return the variables and local buffers that bounds of loops and branches depend on, however indirectly."""
    wanted: list[Any] = []
    made_of: dict[Any, list[Any]] = {}

    def loop(node: tirx.For) -> None:
        wanted.extend((node.min, node.extent))

    def branch(node: tirx.IfThenElse) -> None:
        wanted.append(node.condition)

    def block(node: Any) -> None:  # noqa: ANN401 - of s_tir
        wanted.append(node.predicate)
        for iteration, value in zip(node.block.iter_vars, node.iter_values, strict=True):
            made_of.setdefault(iteration.var, []).append(value)

    def bind(node: tirx.Bind) -> None:
        made_of.setdefault(node.var, []).append(node.value)

    def store(node: tirx.BufferStore) -> None:
        if is_index(node.buffer):
            made_of.setdefault(node.buffer, []).extend((node.value, *node.indices))

    _walk(
        body,
        {tirx.For: loop, tirx.IfThenElse: branch, s_tir.SBlockRealize: block, tirx.Bind: bind, tirx.BufferStore: store},
    )
    found: set[Any] = set()
    while wanted:
        for name in names_in(wanted.pop()) - found:
            found.add(name)
            wanted.extend(made_of.get(name, ()))
    return found


def names_in(expr: Any) -> set[Any]:  # noqa: ANN401 - an expression
    """Return the variables and buffers in an expression."""
    found: set[Any] = set()

    def load(node: TensorLoad) -> None:
        found.add(node.source)

    if isinstance(expr, tvm.ir.Var):
        return {expr}
    _walk(expr, {tvm.ir.Var: found.add, TensorLoad: load})
    return found


def _walk(node: Any, visit: Mapping[type, Callable[[Any], None]]) -> None:  # noqa: ANN401 - of TIR
    tvm_ffi.structural_walk(node, list(visit.items()))


def is_index(buffer: Any) -> bool:  # noqa: ANN401 - of TIR
    """Say whether a buffer holds indices: what a kernel keeps of them in a local variable."""
    if not hasattr(buffer.ty, "storage_scope"):
        return False
    return str(buffer.ty.dtype) in ("int64", "int32") and str(buffer.ty.storage_scope) == "local"
