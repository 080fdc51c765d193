"""Ensembles of decision trees: every row of a matrix walks down every tree, and what the leaves hold is combined.

The walk down one tree is a chain of loads, each of which waits for the last one. So a row walks down eight trees at
once, as many steps as the deepest of them has: a leaf leads to itself. The two nodes behind a node lie side by side, so
that the answer to its question is added to the place of the first. Where there are fewer trees, several rows walk
down each. Rows go in blocks, so that eight trees stay in the cache for all rows of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T

from ...errors import CompileError, TypeCheckError
from ...values.host_memory import native_array
from ..ir import dims
from ..ir.types import TensorType, Type
from .attrs import Attrs, Bool, Int, Str, attrs_node
from .elementwise import require_tensor
from .kernel import as_index, const, grid, inside, loops
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["EQUAL", "FEATURES", "LANES", "MISSING_IS_TRUE"]

_Array: TypeAlias = "np.ndarray[Any, Any]"

LANES = 8
"""How many ways down, of trees and rows, are gone at once."""
FEATURES, MISSING_IS_TRUE, EQUAL = (1 << 28) - 1, 1 << 28, 1 << 29
"""The parts of a node's first number: the feature; where what is no number goes; whether it asks for equality."""
_QUESTIONS = ("LESS", "TURNED", "ANY")
_ROWS = 64  # rows of a block
_TURNED_BYTES = 1 << 18  # what the features of a block and their opposites may take


@attrs_node("relay.attrs.TreeEnsembleAttrs")
class TreeEnsembleAttrs(Attrs):
    """Attributes of contrib_tree_ensemble.

    targets is how many results a row has, features how many the trees read; combine is SUM, MIN or MAX. Trees ask
    ``x <= threshold`` only, which is false for what is no number, where questions is LESS; ``-x <= threshold``, too,
    where it is TURNED: behind the features follow their opposites then, as if there were twice as many; and
    ``x == threshold``, but not of -x, where it is ANY. In uneven trees most leaves are far
    above the deepest one. Leaves are whole if each adds to all targets in their order. at_once is how many rows walk
    down together, through LANES / at_once trees.
    """

    targets: Int
    features: Int
    combine: Str = "SUM"
    questions: Str = "LESS"
    is_uneven: Bool = False
    is_whole: Bool = False
    at_once: Int = 1


@operator(
    "contrib_tree_ensemble", "data", "nodes", "thresholds", "roots", "steps", "leaves", "ids", "weights",
    attrs=TreeEnsembleAttrs, level=10, pattern=OpPattern.OPAQUE,
)  # fmt: skip
class TreeEnsemble:
    """What the leaves that the rows of a matrix reach in some trees hold, combined: (rows, targets).

    Inputs
    ------
    data
        The rows, float32 or float64.
    nodes : int32 (nodes, 2)
        Of each node: feature and kind (see FEATURES), and the node behind a true condition; that behind a false one is
        the next. A leaf leads to itself: its question holds for nothing, and the node before it is the first.
    thresholds : (nodes,)
        What is compared with, of the type of the rows.
    roots, steps : int32
        The first node of each tree, and the longest way down of each LANES / at_once trees.
    leaves : int32 (nodes, 2)
        Where in ids and weights begins and ends what each node adds.
    ids, weights
        The target and what is added to it.
    """

    @staticmethod
    def relation(attrs: TreeEnsembleAttrs, data: Type, *tables: Type) -> Type:
        rows = require_tensor(data)
        if len(rows.shape) != 2 or rows.dtype not in ("float32", "float64"):
            raise TypeCheckError(f"data must be a matrix of float32 or float64, not {rows}")
        if attrs.combine not in _COMBINE:
            raise TypeCheckError(f"combine is {attrs.combine!r}; it is {', '.join(_COMBINE)}")
        if attrs.questions not in _QUESTIONS:
            raise TypeCheckError(f"questions is {attrs.questions!r}; it is {', '.join(_QUESTIONS)}")
        if attrs.at_once not in (1, 2, 4, 8):
            raise TypeCheckError(f"at_once is {attrs.at_once}; it is 1, 2, 4 or 8")
        if attrs.features < 0 or attrs.features > FEATURES:
            raise TypeCheckError(f"features is {attrs.features}; trees read 0 to {FEATURES} of them")
        if isinstance(rows.shape[1], int) and rows.shape[1] < attrs.features:
            raise TypeCheckError(f"the trees read feature {attrs.features - 1}; data has {rows.shape[1]} features")
        _require_tables(attrs, tables)
        return TensorType([rows.shape[0], attrs.targets], rows.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: TreeEnsembleAttrs, data: relax.Expr, *tables: relax.Expr) -> relax.Expr:
        count, features = context.shape(data)
        message = f"the trees read feature {attrs.features - 1}; data has {{actual}} features"
        if not isinstance(features, int):
            context.require(dims.as_expr(features) >= attrs.features, message.replace("{actual}", "fewer"))
        arrays = [native_array(table.value) if isinstance(table, ir.GenericConst) else None for table in tables]
        known = [array for array in arrays if array is not None]
        is_known = len(known) == len(tables)
        if is_known:
            _require_sound(attrs, *known)
        walk = _Walk(attrs, is_trusted=is_known)
        return loops(context, [([count, attrs.targets], str(data.ty.dtype))], walk, data, *tables)


def _require_tables(attrs: TreeEnsembleAttrs, tables: Sequence[Type]) -> None:
    """Check that the tables have the sizes that they tell of each other, as far as these are known."""
    nodes, thresholds, roots, steps, leaves, _, weights = (list(require_tensor(table).shape) for table in tables)
    ranks = [len(table) for table in (nodes, thresholds, roots, steps, leaves, weights)]
    if ranks != [2, 1, 1, 1, 2, 1]:
        names = "nodes, thresholds, roots, steps, leaves and weights"
        raise TypeCheckError(f"{names} have {ranks} dimensions, expected [2, 1, 1, 1, 2, 1]")
    together = LANES // int(attrs.at_once)
    groups = roots[0] // together if isinstance(roots[0], int) else steps[0]
    if isinstance(roots[0], int) and roots[0] % together:
        raise TypeCheckError(f"there are {roots[0]} roots, expected a multiple of {together}: LANES / at_once")
    wanted = {
        "nodes, second": (nodes[1], 2),
        "thresholds": (thresholds[0], nodes[0]),
        "steps": (steps[0], groups),
        "leaves, second": (leaves[1], 2),
        # Of one target every node has a weight of its own, in its place.
        **({"weights": (weights[0], nodes[0])} if attrs.targets == 1 else {"leaves, first": (leaves[0], nodes[0])}),
    }
    for name, (have, need) in wanted.items():
        if isinstance(have, int) and isinstance(need, int) and have != need:
            raise TypeCheckError(f"the table of trees has {have} elements along {name}, expected {need}")


def _require_sound(
    attrs: TreeEnsembleAttrs,
    nodes: _Array,
    thresholds: _Array,
    roots: _Array,
    steps: _Array,
    leaves: _Array,
    ids: _Array,
    weights: _Array,
) -> None:
    """Check that tables that are known lead to places that there are, so that the kernel need not."""
    count, (asked, following) = len(nodes), (nodes[:, 0], nodes[:, 1])
    width = attrs.features * (2 if attrs.questions == "TURNED" else 1)
    asked = asked & FEATURES if attrs.questions == "ANY" else asked
    leads = (following >= 0) & (following < count - 1) & (asked >= 0) & (asked < width)
    stays = (following == np.arange(-1, count - 1)) & np.isnan(thresholds) & (asked == 0)
    if not (leads | stays).all():
        place = int(np.flatnonzero(~(leads | stays))[0])
        raise CompileError(f"contrib_tree_ensemble: node {place} of {count} leads to none, or asks for no feature")
    parts = [("roots", roots, count), ("steps", steps, count + 1)]
    if attrs.targets != 1 and attrs.is_whole:
        parts += [("leaves", leaves[:, 0], len(weights) + 1), ("targets", np.array([attrs.targets]), len(weights) + 1)]
    elif attrs.targets != 1:
        parts += [("leaves", leaves, min(len(ids), len(weights)) + 1), ("ids", ids, attrs.targets)]
    for name, values, most in parts:
        if values.min(initial=0) < 0 or values.max(initial=0) >= max(most, 1):
            raise CompileError(f"contrib_tree_ensemble: {name} are from 0 to {most - 1}, not all of these are")


# What a result is before the first leaf, and with one more; None where no leaf was reached stands for 0.
_COMBINE: dict[str, tuple[float, Any]] = {
    "SUM": (0.0, lambda a, b: a + b),
    "MIN": (float("inf"), tirx.min),
    "MAX": (float("-inf"), tirx.max),
}


class _Walk:
    """The loops of the kernel."""

    __name__ = "tree_ensemble"

    def __init__(self, attrs: TreeEnsembleAttrs, *, is_trusted: bool) -> None:
        self.attrs = attrs
        self.is_trusted = is_trusted  # tables are sound; else what they lead to is the nearest that there is
        self.first, self.combine = _COMBINE[attrs.combine]
        self.trees = LANES // int(attrs.at_once)  # that a row walks down at once
        self.rows = _ROWS
        if attrs.questions == "TURNED":
            self.rows = min(_ROWS, max(LANES, _TURNED_BYTES // (16 * max(1, int(attrs.features)))))

    def __call__(self, outputs: list[tirx.Buffer], data: tirx.Buffer, *tables: tirx.Buffer) -> None:
        (result,) = outputs
        if not self.is_trusted:
            self.guarded(result, data, tables)
            return
        self.walk(result, data, tables)

    def guarded(self, result: tirx.Buffer, data: tirx.Buffer, tables: tuple[tirx.Buffer, ...]) -> None:
        """Walk down trees of tables that only a run knows; results are 0 where one of these is empty."""
        some = [table.shape[0] > 0 for table in tables] + [data.shape[1] > 0]
        with T.If(tirx.all(*some)):
            with T.Then():
                self.walk(result, data, tables)
            with T.Else(), grid([data.shape[0], self.attrs.targets]) as (r, t):
                T.buffer_store(result, tirx.const(0, str(data.dtype)), [r, t])

    def walk(self, result: tirx.Buffer, data: tirx.Buffer, tables: tuple[tirx.Buffer, ...]) -> None:
        """Walk down all trees for all rows."""
        count = data.shape[0]
        blocks = tirx.floordiv(count + self.rows - 1, const(self.rows))
        if isinstance(count, tirx.IntImm) and int(count.value) <= self.rows:
            self.block(result, data, tables, const(0))
            return
        # The pool of threads is not woken for one block.
        with T.If(count <= self.rows):
            with T.Then():
                self.block(result, data, tables, const(0))
            with T.Else(), T.parallel(0, blocks) as block:
                self.block(result, data, tables, block)

    def within(self, index: tirx.Expr, *extents: tirx.Expr) -> tirx.Expr:
        """Return a place in tables of such extents: as a table says it if it is trusted."""
        if self.is_trusted:
            return index
        place = index.astype("int64")
        for extent in extents:
            place = inside(place, as_index(extent))
        return place

    def block(self, result: tirx.Buffer, data: tirx.Buffer, tables: tuple[tirx.Buffer, ...], block: tirx.Expr) -> None:
        """Walk down all trees for the rows of one block."""
        roots = tables[2]
        begin = T.bind(block * self.rows)
        rows = T.bind(tirx.min(data.shape[0] - begin, const(self.rows)))
        asked, first = (self.turned(data, begin, rows), const(0)) if self.attrs.questions == "TURNED" else (data, begin)
        zero = tirx.const(0.0, str(data.dtype))
        with grid([rows, self.attrs.targets]) as (r, t):
            T.buffer_store(result, tirx.const(self.first, str(data.dtype)), [begin + r, t])
        at_once = LANES // self.trees
        with (
            T.serial(0, tirx.floordiv(roots.shape[0], const(self.trees))) as group,
            T.serial(0, tirx.floordiv(rows + at_once - 1, const(at_once))) as some,
        ):
            at = T.alloc_buffer((LANES,), "int32", scope="local", layout=None)
            for lane in range(LANES):
                T.buffer_store(at, roots[group * self.trees + lane % self.trees], [lane])
            steps = tables[3][self.within(group, tables[3].shape[0])]
            if not self.is_trusted:
                steps = tirx.min(steps.astype("int64"), tables[0].shape[0])
            if at_once == 1:
                self.descend(at, asked, tables, [first + some], steps)
                self.gather(at, result, tables, begin + some)
            else:
                # Past the last row the last one goes once more, and is not added.
                each = [T.bind(tirx.min(some * at_once + k, rows - 1)) for k in range(at_once)]
                self.descend(at, asked, tables, [first + row for row in each], steps)
                for k, row in enumerate(each):
                    with T.If(some * at_once + k < rows), T.Then():
                        self.gather(at, result, tables, begin + row, k)
        if self.attrs.combine != "SUM":
            with grid([rows, self.attrs.targets]) as (r, t):
                value = result[begin + r, t]
                untouched = value == tirx.const(self.first, str(data.dtype))
                T.buffer_store(result, tirx.Select(untouched, zero, value), [begin + r, t])

    def turned(self, data: tirx.Buffer, begin: tirx.Expr, rows: tirx.Expr) -> tirx.Buffer:
        """Return the features of a block's rows, and behind them their opposites.

        A sign that each node turns by itself is an operation on each way down, which LLVM makes vectors of: to put
        these together from places that differ takes twice as long as the walk.
        """
        features, dtype = max(1, int(self.attrs.features)), str(data.dtype)
        both = T.alloc_buffer((const(self.rows), const(2 * features)), dtype, scope="global", layout=None)
        with grid([rows, int(self.attrs.features)]) as (r, f):
            T.buffer_store(both, data[begin + r, f], [r, f])
            T.buffer_store(both, -data[begin + r, f], [r, features + f])
        return both

    def descend(
        self,
        at: tirx.Buffer,
        data: tirx.Buffer,
        tables: tuple[tirx.Buffer, ...],
        rows: list[tirx.Expr],
        steps: tirx.Expr,
    ) -> None:
        """Lead each lane to its leaf: as many trees as there are for each of some rows."""
        # Nodes that lead in a circle are left after so many steps; where nobody stays at a leaf, there is no end.
        if not self.attrs.is_uneven or not self.is_trusted:
            with T.serial(0, steps.astype("int64")):
                for lane in range(LANES):
                    T.buffer_store(at, self.next(T.bind(at[lane]), data, tables, rows[lane // self.trees]), [lane])
            return
        moved, changed, between = (
            T.alloc_buffer((1,), dtype, scope="local", layout=None) for dtype in ("bool", "int64", "int32")
        )
        T.buffer_store(moved, tirx.const(True, "bool"), [0])
        with T.While(moved[0]):
            # Added up, as a branch for each lane would be foreseen wrongly. What lanes hand on goes through memory, of
            # which LLVM makes registers: a name for it would be written out by all that it is made of wherever TVM
            # simplifies what follows, and a kernel would take a minute to compile.
            T.buffer_store(changed, tirx.const(0, "int64"), [0])
            for lane in range(LANES):
                row = rows[lane // self.trees]
                T.buffer_store(between, self.next(T.bind(at[lane]), data, tables, row), [0])
                T.buffer_store(at, self.next(T.bind(between[0]), data, tables, row), [lane])
                T.buffer_store(changed, changed[0] + (between[0] ^ at[lane]).astype("int64"), [0])
            T.buffer_store(moved, changed[0] != tirx.const(0, "int64"), [0])

    def next(self, node: tirx.Expr, data: tirx.Buffer, tables: tuple[tirx.Buffer, ...], row: tirx.Expr) -> tirx.Expr:
        """Return the node behind a node."""
        nodes, thresholds = tables[0], tables[1]
        node = self.within(node, nodes.shape[0], thresholds.shape[0])
        kind = T.bind(nodes[node, 0])
        feature = kind & tirx.const(FEATURES, "int32") if self.attrs.questions == "ANY" else kind
        feature = self.within(feature, data.shape[1])
        value, threshold = T.bind(data[row, feature]), T.bind(thresholds[node])
        zero, one = tirx.const(0, "int32"), tirx.const(1, "int32")
        holds = value <= threshold
        if self.attrs.questions == "ANY":
            asked = tirx.Select((kind & tirx.const(EQUAL, "int32")) != zero, value == threshold, holds)
            # Comparisons with itself are not folded away: to LLVM, what is no number does not differ from itself.
            holds = tirx.Select(tirx.isnan(value), (kind & tirx.const(MISSING_IS_TRUE, "int32")) != zero, asked)
        return nodes[node, 1] + tirx.Select(holds, zero, one)

    def gather(
        self, at: tirx.Buffer, result: tirx.Buffer, tables: tuple[tirx.Buffer, ...], row: tirx.Expr, k: int = 0
    ) -> None:
        """Add what the leaves hold to the results of a row, which is that of the lanes from the k-th trees on."""
        leaves, ids, weights = tables[4:]
        lanes = range(k * self.trees, (k + 1) * self.trees)
        if self.attrs.targets == 1:
            # Every node has a weight of its own then, in its place.
            value = result[row, 0]
            for lane in lanes:
                value = self.combine(value, weights[self.within(at[lane], weights.shape[0])])
            T.buffer_store(result, value, [row, 0])
            return
        if self.attrs.is_whole:
            begins = [leaves[self.within(at[lane], leaves.shape[0]), 0].astype("int64") for lane in lanes]
            # What a node holds that is no leaf begins at the end, and is read where steps are too few alone.
            begins = [T.bind(tirx.min(begin, as_index(weights.shape[0]) - self.attrs.targets)) for begin in begins]
            with T.serial(0, self.attrs.targets) as target:
                value = result[row, target]
                for begin in begins:
                    value = self.combine(value, weights[self.within(begin + target, weights.shape[0])])
                T.buffer_store(result, value, [row, target])
            return
        for lane in lanes:
            leaf = self.within(at[lane], leaves.shape[0])
            begin, end = T.bind(leaves[leaf, 0]), T.bind(leaves[leaf, 1])
            if not self.is_trusted:
                first, last = const(0), tirx.min(as_index(ids.shape[0]), as_index(weights.shape[0]))
                begin, end = (tirx.max(tirx.min(place.astype("int64"), last), first) for place in (begin, end))
            with T.serial(0, (end - begin).astype("int64")) as i:
                place = T.bind(begin.astype("int64") + i)
                target = T.bind(self.within(ids[place].astype("int64"), const(self.attrs.targets)))
                T.buffer_store(result, self.combine(result[row, target], weights[place]), [row, target])
