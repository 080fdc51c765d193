"""Losses: cross entropy and negative log likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Int, Str, attrs_node, field
from ..elementwise import require_tensor
from ..kernel import inside
from ..registry import OpPattern, operator

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

D = TypeVar("D")


def _entropy_type(attrs: None, predictions: Type, targets: Type) -> Type:
    x, y = require_tensor(predictions, "predictions"), require_tensor(targets, "targets")
    if len(x.shape) != 2 or len(y.shape) != 2 or x.dtype != y.dtype:
        raise TypeCheckError(f"predictions and targets must be matrices of one data type, not {x} and {y}")
    if any(dims.equal(a, b) is False for a, b in zip(x.shape, y.shape, strict=True)):
        raise TypeCheckError(f"predictions and targets have different shapes: {x} and {y}")
    return TensorType([], x.dtype)


def _entropy(name: str, takes_logarithm: bool, doc: str) -> None:
    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        i, j = te.reduce_axis((0, x.shape[0]), name="i"), te.reduce_axis((0, x.shape[1]), name="j")

        def total(*_: tirx.Expr) -> tirx.Expr:
            value = te.log(x(i, j)) if takes_logarithm else x(i, j)
            return te.sum(value * y(i, j), axis=[i, j])

        summed = te.compute((), total, name="entropy_sum")
        return te.compute((), lambda *_: -summed() / x.shape[0].astype(x.dtype), name="entropy")

    def lower(context: LowerContext, attrs: None, predictions: relax.Expr, targets: relax.Expr) -> relax.Expr:
        message = f"{name}: dimension {{axis}} is {{{{actual}}}} in predictions and {{{{expected}}}} in targets"
        shapes = zip(context.shape(predictions), context.shape(targets), strict=True)
        for axis, (a, b) in enumerate(shapes):
            context.require_equal(a, b, message.format(axis=axis))
        return context.te(compute, predictions, targets)

    body = {"__doc__": doc, "relation": staticmethod(_entropy_type), "lower": staticmethod(lower)}
    operator(name, "predictions", "targets", level=10, pattern=OpPattern.OPAQUE, mixed="never")(type(name, (), body))


_entropy("nn.cross_entropy", True, "Minus the sum of targets times the logarithm of predictions, over the batch.")
_entropy("nn.cross_entropy_with_logits", False, "Minus the sum of targets times predictions, over the batch.")


@attrs_node("relay.attrs.NLLLossAttrs")
class NLLLossAttrs(Attrs):
    """Attributes of nn.nll_loss."""

    reduction: Str = field("mean", doc="What becomes of the losses: none, sum or mean.")
    ignore_index: Int = field(script=-100, doc="The target that counts 0.")


@operator("nn.nll_loss", "predictions", "targets", "weights", attrs=NLLLossAttrs, level=10)
class NLLLoss:
    """Negative log likelihood: minus the prediction of each target class times the weight of the class.

    predictions are (batch, classes, ...), targets (batch, ...), weights (classes); without a batch predictions are
    (classes) and the target a scalar. A target equal to ignore_index counts 0, and so does one that is no class.
    reduction is "none", "sum", or "mean": the sum divided by that of the weights.
    """

    @staticmethod
    def relation(attrs: NLLLossAttrs, predictions: Type, targets: Type, weights: Type) -> Type:
        x, t = require_tensor(predictions, "predictions"), require_tensor(targets, "targets")
        w = require_tensor(weights, "weights")
        if attrs.reduction not in ("mean", "sum", "none"):
            raise TypeCheckError(f"reduction must be mean, sum or none, not {attrs.reduction!r}")
        if len(x.shape) != len(t.shape) + 1:
            raise TypeCheckError(f"predictions must have one dimension more than targets, not {x} and {t}")
        classes, others = _parts(list(x.shape))
        if len(w.shape) != 1 or dims.equal(w.shape[0], classes) is False:
            raise TypeCheckError(f"weights must be a vector of the {classes} classes, not {w}")
        if x.dtype != w.dtype or not t.dtype.startswith(("int", "uint")):
            raise TypeCheckError(
                f"weights must have the data type of predictions and targets be integers: {x}, {t}, {w}"
            )
        for axis, (a, b) in enumerate(zip(others, t.shape, strict=True)):
            if dims.equal(a, b) is False:
                raise TypeCheckError(f"dimension {axis} of targets is {b}, but predictions need {a}")
        return TensorType(t.shape if attrs.reduction == "none" else [], x.dtype)

    @staticmethod
    def lower(
        context: LowerContext, attrs: NLLLossAttrs, predictions: relax.Expr, targets: relax.Expr, weights: relax.Expr
    ) -> relax.Expr:
        classes, others = _parts(context.shape(predictions))
        for axis, (a, b) in enumerate(zip(context.shape(targets), others, strict=True)):
            context.require_equal(
                a, b, f"nn.nll_loss: dimension {axis} of targets is {{actual}}, but predictions need {{expected}}"
            )
        (have,) = context.shape(weights)
        context.require_equal(have, classes, "nn.nll_loss: there are {actual} weights for {expected} classes")
        return context.te(lambda *v: _nll_loss(attrs, *v), predictions, targets, weights, pattern=OpPattern.OPAQUE)


def _parts(shape: Sequence[D]) -> tuple[D, list[D]]:
    """Return the number of classes, and the other dimensions of predictions."""
    at = min(1, len(shape) - 1)
    return shape[at], [*shape[:at], *shape[at + 1 :]]


def _nll_loss(attrs: NLLLossAttrs, predictions: te.Tensor, targets: te.Tensor, weights: te.Tensor) -> te.Tensor:
    (classes, _), dtype = _parts(predictions.shape), predictions.dtype
    zero = tirx.const(0, dtype)

    def when_counted(index: Sequence[tirx.Expr], value: Callable[[tirx.Expr], tirx.Expr]) -> tirx.Expr:
        target = targets(*index).astype("int64")
        counts = tirx.all(target != attrs.ignore_index, target >= 0, target < classes)
        return tirx.if_then_else(counts, value(inside(target, classes)), zero)

    def loss(*index: tirx.Expr) -> tirx.Expr:
        return when_counted(index, lambda t: -predictions(*index[:1], t, *index[1:]) * weights(t))

    losses = te.compute(targets.shape, loss, name="nll_loss")
    if attrs.reduction == "none":
        return losses
    counted = te.compute(targets.shape, lambda *i: when_counted(i, weights), name="nll_weight")
    total, weight = _sum(losses, "loss_sum"), _sum(counted, "weight_sum")
    return total if attrs.reduction == "sum" else te.compute((), lambda *_: total() / weight(), name="nll_mean")


def _sum(values: te.Tensor, name: str) -> te.Tensor:
    over = [te.reduce_axis((0, d), name=f"k{i}") for i, d in enumerate(values.shape)]
    if not over:
        return values
    return te.compute((), lambda *_: te.sum(values(*over), axis=over), name=name)
