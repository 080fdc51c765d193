"""What a kernel around matrix products is: dense layers, products of batches, convolutions.

Every one of them is ``C[s, i, j] = sum over k of A[s, i, k] * B[s, k, j]``, where each of s, i, j and k stands for
several axes of the kernel, one after another: for a convolution of channels-last images, i is the image and the
position in it, j the output channel and k the place in the window and the input channel; a group is s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import mul

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad
from ..blocks import single_reduction
from ..expressions import is_one, known, loads_in, replaced, uses
from .vectors import is_conditional, neighbours

__all__ = ["Axes", "Operand", "Places", "Product", "product_of"]

Places = dict[tirx.Var, "tirx.Expr"]
"""What variables of axes are."""

Factors = tuple["tirx.Expr", "tirx.Expr"]
Write = Callable[["tirx.Expr"], "tirx.Expr"]  # what is written for a sum


@dataclass(frozen=True)
class Axes:
    """Axes of a kernel that are taken for one.

    Attributes
    ----------
    variables : tuple of Var
        What the operands' expressions call them, the outermost first.
    extents : tuple of Expr
        Their sizes, ``int64``.
    """

    variables: tuple[tirx.Var, ...]
    extents: tuple[tirx.Expr, ...]

    @property
    def extent(self) -> tirx.Expr:
        """The size of all of them, an expression."""
        return Analyzer().simplify(reduce(mul, self.extents, tirx.IntImm("int64", 1)))

    @property
    def size(self) -> int | None:
        """The size of all of them; None where that is known at run time only."""
        return known(self.extent)

    def places(self, index: tirx.Expr) -> Places:
        """Return each axis's index of an index into all of them."""
        found = {}
        for at, (variable, extent) in reversed(list(enumerate(zip(self.variables, self.extents, strict=True)))):
            # Neither is negative. Of constants that is seen; for others it would be checked again and again.
            is_known = isinstance(extent, tirx.IntImm)
            found[variable] = (tirx.floormod if is_known else tirx.truncmod)(index, extent) if at else index
            index = (tirx.floordiv if is_known else tirx.truncdiv)(index, extent)
        return found


@dataclass(frozen=True)
class Operand:
    """One side of the products.

    Attributes
    ----------
    value : Expr
        An element, over the variables of the axes, as it is in memory.
    along : str
        Which of ``i``, ``j`` and ``k`` runs along its elements in memory; empty where none does.
    width : int
        How many elements along that axis are always next to each other, beginning at a multiple of it: a power of two.
    """

    value: tirx.Expr
    along: str
    width: int

    @property
    def dtype(self) -> str:
        """The type of an element."""
        return str(self.value.ty.dtype)


@dataclass(frozen=True)
class Product:
    """A kernel around matrix products, its axes and what follows.

    Attributes
    ----------
    s, i, j, k : Axes
        Of the batch, the rows, the columns and the sums. The result's innermost axis, if any is i's or j's, is j's.
    left, right : Operand
        Over s, i and k, and over s, k and j.
    dtype : str
        The type of the sums as the kernel was written.
    result : Buffer
        What the kernel writes.
    indices : tuple of Expr
        Where, over the variables of s, i and j.
    write : callable
        Takes a sum; returns what is written, over the same.
    width : int
        How many elements of the result along j are always next to each other, as for an operand.
    """

    s: Axes
    i: Axes
    j: Axes
    k: Axes
    left: Operand
    right: Operand
    dtype: str
    result: tirx.Buffer
    indices: tuple[tirx.Expr, ...]
    write: Write
    width: int


def product_of(sch: s_tir.Schedule) -> Product | None:
    """Return a kernel, in which padding has been inlined, as matrix products; None where it is something else."""
    found = single_reduction(sch)
    if found is None or found.others:
        return None
    node = sch.get(found.block)
    factors = _factors(node)
    indices = _own_indices(node.writes[0].region, node)
    if factors is None or indices is None:
        return None
    grouped = _Grouped.of(node, factors)
    if grouped is None:
        return None
    by_kind, (left, right), places = grouped.by_kind, grouped.factors, grouped.places
    if not by_kind["j"].variables or not by_kind["i"].variables or not by_kind["k"].variables:
        return None
    after = None if found.after is None else sch.get(found.after)
    written = _written(node, after, places)
    if written is None:
        return None
    buffer, where, write = written
    last = next((p for p in reversed([*node.iter_vars[: found.spatial]]) if not is_one(p.dom.extent)), None)
    innermost = None if last is None else replaced(last.var, places)
    rows, columns = by_kind["i"], by_kind["j"]
    if innermost is not None and any(uses(innermost, v) for v in rows.variables):
        rows, columns, left, right = columns, rows, right, left
    s, k = by_kind["s"], by_kind["k"]
    return Product(
        s,
        rows,
        columns,
        k,
        Operand(left, *_contiguous(left, {"k": k, "i": rows})),
        Operand(right, *_contiguous(right, {"k": k, "j": columns})),
        str(node.writes[0].source.ty.dtype),
        buffer,
        where,
        write,
        _contiguous(tirx.BufferLoad(buffer, list(where)), {"j": columns})[1],
    )


@dataclass(frozen=True)
class _Grouped:
    """The axes of a reduction by kind, its factors over them, and what its own variables are in terms of them."""

    by_kind: Mapping[str, Axes]
    factors: Factors
    places: Places

    @classmethod
    def of(cls, node: s_tir.SBlock, factors: Factors) -> _Grouped | None:
        kinds: dict[str, list[tuple[tirx.Var, tirx.Expr]]] = {"s": [], "i": [], "j": [], "k": []}
        places: Places = {}
        for v in node.iter_vars:
            variable, extent = v.var, v.dom.extent
            if is_one(extent):
                places[variable] = tirx.IntImm(str(variable.ty.dtype), 0)
                continue
            in_left, in_right = (uses(factor, variable) for factor in factors)
            if v.iter_type == tirx.IterVar.CommReduce:
                kinds["k"].append((variable, extent))
            elif in_left and in_right:
                parts = _parts(variable, extent, factors)
                if parts is None:
                    kinds["s"].append((variable, extent))
                    continue
                kind, group, member, size = parts
                kinds["s"].append((group, tirx.IntImm("int64", int(extent) // size)))
                if size > 1:
                    kinds[kind].append((member, tirx.IntImm("int64", size)))
                places[variable] = group * size + member if size > 1 else group
            elif in_left or in_right:
                kinds["i" if in_left else "j"].append((variable, extent))
            else:
                return None
        by_kind = {kind: Axes(tuple(v for v, _ in axes), tuple(e for _, e in axes)) for kind, axes in kinds.items()}
        bounds = Analyzer()
        for axes in by_kind.values():
            for variable, extent in zip(axes.variables, axes.extents, strict=True):
                bounds.bind(variable, Range(tirx.IntImm("int64", 0), extent))
        left, right = (bounds.simplify(replaced(factor, places)) for factor in factors)
        return cls(by_kind, (left, right), places)


def _factors(node: s_tir.SBlock) -> Factors | None:
    """Return the factors of a sum of products as they are in memory, without their casts."""
    store, init = node.body, getattr(node.init, "value", None)
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return None
    if not isinstance(init, tirx.FloatImm) or init.value != 0:
        return None
    total, term = store.value.a, store.value.b
    if not isinstance(total, TensorLoad) or not total.source.same_as(store.buffer) or not isinstance(term, tirx.Mul):
        return None
    factors = tuple(f.value if isinstance(f, tirx.Cast) else f for f in (term.a, term.b))
    if any(len(loads_in(f)) != 1 or loads_in(f)[0].source.same_as(store.buffer) for f in factors):
        return None
    return factors if all(str(f.ty.dtype).startswith("float") for f in factors) else None


def _own_indices(region: Sequence[Range], node: s_tir.SBlock) -> list[tirx.Expr] | None:
    """Return the indices that a block writes if each axis of the result is one of them."""
    indices = [r.min for r in region]
    spatial = [v.var for v in node.iter_vars if v.iter_type == tirx.IterVar.DataPar]
    used = [v for v in spatial if any(i.same_as(v) for i in indices)]
    return indices if len(used) == len(spatial) and len(indices) == len(spatial) else None


def _parts(variable: tirx.Var, extent: tirx.Expr, factors: Factors) -> tuple[str, tirx.Var, tirx.Var, int] | None:
    """Return the two axes that an axis of groups is made of, where one factor knows only the group.

    They are the kind of the inner axis, the variables of both, and how many members a group has.
    """
    for kind, knows_group in (("j", factors[0]), ("i", factors[1])):
        divisors: list[int] = []

        def note(node: tirx.FloorDiv, divisors: list[int] = divisors) -> None:
            if node.a.same_as(variable) and isinstance(node.b, tirx.IntImm):
                divisors.append(int(node.b))

        tvm_ffi.structural_walk(knows_group, (tirx.FloorDiv, note))
        if len(set(divisors)) != 1 or not isinstance(extent, tirx.IntImm) or int(extent) % divisors[0]:
            continue
        size = divisors[0]
        hidden = tvm_ffi.structural_map(
            knows_group, (tirx.FloorDiv, lambda n: tirx.IntImm("int64", 0) if n.a.same_as(variable) else n)
        )
        if not uses(hidden, variable):
            group, member = (tirx.Var(f"{variable.name}_{part}", variable.ty) for part in ("group", "member"))
            return kind, group, member, size
    return None


def _written(
    node: s_tir.SBlock, after: s_tir.SBlock | None, places: Places
) -> tuple[tirx.Buffer, tuple[tirx.Expr, ...], Write] | None:
    """Return the buffer of results, the indices in it over the axes by kind, and what is written for a sum."""
    own = [replaced(r.min, places) for r in node.writes[0].region]
    if after is None:
        return node.writes[0].source, tuple(own), lambda total: total
    sums = node.writes[0].source
    reads = [load for load in loads_in(after.body) if load.source.same_as(sums)]
    if not isinstance(after.body, tirx.BufferStore) or not reads:
        return None
    read: Places = {}
    for index, place in zip(reads[0].indices, own, strict=True):
        if isinstance(index, tirx.Var) and index not in read:
            read[index] = place
        elif not (isinstance(index, tirx.IntImm) and int(index) == 0):
            return None
    for v in after.iter_vars:
        if v.var not in read:
            if not is_one(v.dom.extent):
                return None
            read[v.var] = tirx.IntImm(str(v.var.ty.dtype), 0)
    if any(not tvm_ffi.structural_equal(list(r.indices), list(reads[0].indices)) for r in reads):
        return None

    def write(total: tirx.Expr) -> tirx.Expr:
        def in_place(load: TensorLoad) -> tirx.Expr:
            return total if load.source.same_as(sums) else load

        return tvm_ffi.structural_map(replaced(after.body.value, read), (TensorLoad, in_place))

    return after.writes[0].source, tuple(replaced(i, read) for i in after.body.indices), write


def _contiguous(value: tirx.Expr, axes: Mapping[str, Axes]) -> tuple[str, int]:
    """Return along which axes elements are next to each other in memory, and how many are always."""
    (load,) = loads_in(value)
    for kind, group in axes.items():
        if not group.variables:
            continue
        variable, extent = group.variables[-1], group.extents[-1]
        shape, dtype = list(load.source.ty.shape), str(load.ty.dtype)
        width = neighbours(shape, list(load.indices), dtype, variable, extent)
        if width:
            return kind, 1 if is_conditional(value, variable) else width
    return "", 1
