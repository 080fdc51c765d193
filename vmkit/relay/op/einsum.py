"""Sums of products after Einstein's convention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Str, attrs_node, field
from .broadcast import broadcast_dim, broadcast_index
from .einsum_order import contraction_order
from .join import TupleLike, as_tuple, require_tensors
from .registry import OpPattern, Parameters, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value

__all__ = ["parse_equation"]

_USUAL = 64  # a size that is known at run time only, where an order is chosen


@attrs_node("relay.attrs.EinsumAttrs")
class EinsumAttrs(Attrs):
    """Attributes of einsum."""

    equation: Str = field(doc="The labels of the operands' dimensions and, behind an arrow, of the result's.")


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Return the labels of every operand and of the result.

    Dimensions that an ellipsis stands for are labelled by their number from the right, ``"-1"``, ``"-2"`` and so on.
    Without ``->`` the result has the labels that occur once, in alphabetical order, behind the ellipsis.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise TypeCheckError(f"the equation {equation!r} has {len(terms)} operands, the tuple {len(ranks)}")
    operands = [_labels(equation, term, rank) for term, rank in zip(terms, ranks, strict=True)]
    used = [label for labels in operands for label in labels]
    hidden = sorted({label for label in used if label.startswith("-")}, key=int)
    if not arrow:
        return operands, hidden + sorted(v for v in set(used) if used.count(v) == 1 and v not in hidden)
    result = [part for part in right.replace("...", ".")]
    labels = [label for part in result for label in (hidden if part == "." else [part])]
    unknown = sorted(set(labels) - set(used))
    if unknown or len(set(labels)) != len(labels):
        raise TypeCheckError(f"the result of {equation!r} must name labels of the operands, each once")
    return operands, labels


def _labels(equation: str, term: str, rank: int) -> list[str]:
    before, ellipsis, after = term.partition("...")
    if not (before + after).isalpha() and before + after:
        raise TypeCheckError(f"{term!r} in the equation {equation!r} must be letters, and at most one '...'")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not ellipsis):
        raise TypeCheckError(f"{term!r} in the equation {equation!r} names {len(before + after)} dimensions of {rank}")
    return [*before, *(str(k - hidden) for k in range(hidden)), *after]


def _columns(operands: Sequence[Sequence[str]], shapes: Sequence[Sequence[Dim]]) -> dict[str, list[Dim]]:
    """Return the dimensions of every label, those of all operands."""
    columns: dict[str, list[Dim]] = {}
    for labels, shape in zip(operands, shapes, strict=True):
        for label, dim in zip(labels, shape, strict=True):
            columns.setdefault(label, []).append(dim)
    return columns


def _kept(label: str, column: Sequence[Dim]) -> Dim:
    """Return what the dimensions of a label broadcast to."""
    extent: Dim = 1
    for dim in column:
        joined = dims.broadcast(extent, dim)
        if joined is None:
            raise TypeCheckError(f"the dimensions of label {label!r} are {extent} and {dim}")
        extent = joined
    return extent


def _extent(context: LowerContext, label: str, column: Sequence[Dim], is_kept: bool) -> Dim:
    """Return the extent of a label, checked at run time: kept dimensions are broadcast, summed ones must be equal.

    A product whose summed dimensions might be 1 could be computed by no kernel for products.
    """
    if is_kept:
        return broadcast_dim(context, f"label {label!r}", column)
    distinct = [d for d in column if not (isinstance(d, int) and d == 1)] or [1]
    extent = next((d for d in distinct if isinstance(d, int)), distinct[0])
    for dim in distinct:
        message = f"einsum: summed label {label!r} is {{actual}} in one input and {{expected}} in another"
        context.require_equal(dim, extent, message)
    return extent


@operator(
    "einsum",
    "tensors",
    attrs=EinsumAttrs,
    level=11,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters("data equation", renamed={"data": "tensors"}),
)
class Einsum:
    """The sum of products that an equation such as ``"ij,jk->ik"`` describes; ``...`` stands for other dimensions."""

    @staticmethod
    def make(data: TupleLike, equation: str) -> Expr:
        return entry("einsum").call(as_tuple(data), equation=equation)

    @staticmethod
    def relation(attrs: EinsumAttrs, tensors: Type) -> Type:
        fields = require_tensors(tensors)
        shapes = [list(f.shape) for f in fields]
        operands, result = parse_equation(attrs.equation, [len(s) for s in shapes])
        extents = {label: _kept(label, column) for label, column in _columns(operands, shapes).items()}
        return TensorType([extents[label] for label in result], fields[0].dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: EinsumAttrs, tensors: Value) -> relax.Expr:
        values = context.fields(tensors)
        operands, result = parse_equation(attrs.equation, [len(context.shape(v)) for v in values])
        columns = _columns(operands, [context.shape(v) for v in values])
        extents = {label: _extent(context, label, column, label in result) for label, column in columns.items()}
        sizes = {label: extent if isinstance(extent, int) else _USUAL for label, extent in extents.items()}
        left = list(zip(values, operands, strict=True))
        for first, second, labels in contraction_order(operands, result, sizes) or ():
            pair = [left[first], left[second]]
            left = [each for at, each in enumerate(left) if at not in (first, second)]
            left.append((_summed(context, pair, labels, extents), labels))
        return left[0][0] if len(left) < len(values) else _summed(context, left, result, extents)


def _summed(
    context: LowerContext,
    factors: Sequence[tuple[relax.Expr, Sequence[str]]],
    result: Sequence[str],
    extents: Mapping[str, Dim],
) -> relax.Expr:
    """Return the sum of products of tensors, each with its labels, over the labels that the result has not."""
    operands, shapes = [labels for _, labels in factors], [context.shape(value) for value, _ in factors]
    # What has one place in all factors stays so: the others, if there are any, have more.
    own = {v: 1 if all(_is_one(d) for d in column) else extents[v] for v, column in _columns(operands, shapes).items()}
    names = list(own)
    reduced = [label for label in names if label not in result]

    def compute(tensors: list[te.Tensor], sizes: list[tirx.Expr], owns: list[list[Dim]]) -> te.Tensor:
        extent = dict(zip(names, (dims.as_expr(s) for s in sizes), strict=True))
        axes = {label: te.reduce_axis((0, extent[label]), name="k") for label in reduced}

        def element(*i: tirx.Expr) -> tirx.Expr:
            at = dict(zip(result, i, strict=True)) | axes
            product: tirx.Expr | None = None
            for tensor, labels, shape in zip(tensors, operands, owns, strict=True):
                read = tensor(*broadcast_index(shape, [extent[v] for v in labels], [at[v] for v in labels]))
                product = read if product is None else product * read
            assert product is not None
            return te.sum(product, axis=list(axes.values())) if axes else product

        return te.compute([extent[label] for label in result], element, name="einsum")

    made: relax.Expr = context.te(compute, [value for value, _ in factors], [own[label] for label in names], shapes)
    return made


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1
