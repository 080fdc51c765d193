"""Sums of products after Einstein's convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Str, attrs_node, field
from .join import TupleLike, as_tuple, require_tensors
from .kernel import const
from .registry import OpPattern, Parameters, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value

__all__ = ["parse_equation"]


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


def _extents(operands: Sequence[Sequence[str]], shapes: Sequence[Sequence[Dim]]) -> dict[str, Dim]:
    """Return the extent of every label; a dimension of 1 is broadcast."""
    extents: dict[str, Dim] = {}
    for labels, shape in zip(operands, shapes, strict=True):
        for label, dim in zip(labels, shape, strict=True):
            joined = dims.broadcast(extents.get(label, 1), dim)
            if joined is None:
                raise TypeCheckError(f"the dimensions of label {label!r} are {extents[label]} and {dim}")
            # Two dimensions that cannot be told apart have to be equal; run time checks it.
            extents[label] = extents[label] if dims.is_any(joined) and not dims.is_any(dim) else joined
    return extents


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
        extents = _extents(operands, shapes)
        return TensorType([extents[label] for label in result], fields[0].dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: EinsumAttrs, tensors: Value) -> relax.Expr:
        values = context.fields(tensors)
        shapes = [context.shape(v) for v in values]
        operands, result = parse_equation(attrs.equation, [len(s) for s in shapes])
        extents: dict[str, Dim] = {}
        for labels, shape in zip(operands, shapes, strict=True):
            for label, dim in zip(labels, shape, strict=True):
                if extents.get(label, 1) == 1 or (isinstance(dim, int) and dim != 1):
                    extents[label] = dim
        ones = [
            [
                isinstance(d, int) and d == 1 and not dims.equal(extents[label], 1)
                for label, d in zip(ls, s, strict=True)
            ]
            for ls, s in zip(operands, shapes, strict=True)
        ]
        for labels, shape, broadcast in zip(operands, shapes, ones, strict=True):
            for label, dim, is_one in zip(labels, shape, broadcast, strict=True):
                if not is_one:
                    message = f"einsum: the dimensions of label {label!r} are {{actual}} and {{expected}}"
                    context.require_equal(dim, extents[label], message)
        names = list(extents)
        reduced = [label for label in names if label not in result]

        def compute(tensors: list[te.Tensor], sizes: list[tirx.Expr]) -> te.Tensor:
            extent = dict(zip(names, (dims.as_expr(s) for s in sizes), strict=True))
            axes = {label: te.reduce_axis((0, extent[label]), name="k") for label in reduced}

            def element(*i: tirx.Expr) -> tirx.Expr:
                at = dict(zip(result, i, strict=True)) | axes
                product: tirx.Expr | None = None
                for tensor, labels, broadcast in zip(tensors, operands, ones, strict=True):
                    index = [const(0) if one else at[v] for v, one in zip(labels, broadcast, strict=True)]
                    read = tensor(*index)
                    product = read if product is None else product * read
                assert product is not None
                return te.sum(product, axis=list(axes.values())) if axes else product

            return te.compute([extent[label] for label in result], element, name="einsum")

        return context.te(compute, list(values), [extents[label] for label in names])
