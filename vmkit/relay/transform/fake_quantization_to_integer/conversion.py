"""The pass: regions are found, and their operators put into integers by the rules."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ....errors import OptionError, UnsupportedOperatorError, suggest
from ...ir import (
    AffineType,
    Call,
    Function,
    Op,
    RelayExpr,
    TensorAffineType,
    Tuple,
    TupleAffineType,
    TupleGetItem,
    is_call,
)
from ...op.attached import FAKE_QUANTIZATION_TO_INTEGER, OPTIONAL_FAKE_QUANTIZATION_TO_INTEGER, Attached, attached
from ...op.registry import REGISTRY, build
from ..known_type import rewrite_typed, type_of
from ..registry import ModuleTransform, per_function, relay_pass
from .affine import TypeMap
from .region import region_below

__all__ = ["FakeQuantizationToInteger"]

logger = logging.getLogger(__name__)

# Where training was aware of quantisation, these may give integers that no quantisation of the program asks for: their
# affine types follow from those of their operands.
_FOLLOW_OPERANDS = (
    *("broadcast_to", "clip", "expand_dims", "max", "maximum", "min", "minimum", "nn.avg_pool2d", "nn.batch_flatten"),
    *("nn.batch_matmul", "nn.bias_add", "nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.depth_to_space"),
    *("nn.global_avg_pool2d", "nn.max_pool2d", "nn.pad", "nn.relu", "reshape", "split", "squeeze", "strided_slice"),
    "transpose",
)


@relay_pass(opt_level=0)
def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Sequence[str] | None = None
) -> ModuleTransform:
    """Return the pass that computes between dequantizations and a quantisation with integers.

    A region in which an operator has no rule, or a rule does not take its operands, stays as it is. An operator whose
    affine type does not follow from those of its operands, such as a sum or a sigmoid, gets that of the quantisation
    at the end of its region.

    Parameters
    ----------
    hard_fail : bool
        Whether such a region is an error instead.
    use_qat : bool
        Whether operators on dequantized operands, whose results are not quantised, are computed with integers as well,
        and then dequantized; for models whose training was aware of quantisation.
    optional_qnn_ops : sequence of str, optional
        The operators that may be computed with integers at a noticeable loss of accuracy; ``"nn.softmax"`` has a rule.

    Raises
    ------
    OptionError
        When an optional operator does not exist.
    UnsupportedOperatorError
        With `hard_fail`, when a region cannot be computed with integers.
    """
    optional = frozenset(optional_qnn_ops or ())
    for name in optional:
        if name not in REGISTRY:
            raise OptionError(f"optional_qnn_ops names no operator {name!r}{suggest(name, REGISTRY)}")
    conversion = _Conversion(hard_fail, optional)

    def change(function: Function) -> Function:
        changed = rewrite_typed(function, conversion.at_quantize)
        return rewrite_typed(changed, conversion.at_operator) if use_qat else changed

    return per_function(change)


class _Conversion:
    def __init__(self, hard_fail: bool, optional: frozenset[str]) -> None:
        self.hard_fail = hard_fail
        self.optional = optional

    def at_quantize(self, node: RelayExpr) -> RelayExpr:
        """Return the integers of a quantisation, computed with integers where that can be done."""
        if not is_call(node, "qnn.quantize"):
            return node
        nodes = region_below(node)
        if nodes is None:
            return node
        wanted = TensorAffineType(node.args[1], node.args[2], node.attrs.out_dtype, node.attrs.axis)
        converted = self.converted(nodes, wanted)
        return node if converted is None else converted[0]

    def at_operator(self, node: RelayExpr) -> RelayExpr:
        """Return an operator on dequantized operands as a dequantization of integers."""
        if not is_call(node, *_FOLLOW_OPERANDS):
            return node
        nodes = region_below(node)
        if nodes is None or any(isinstance(n, Call) and n.op.name != "qnn.dequantize" for n in nodes[:-1]):
            return node
        types = [_dequantized(n) for n in nodes if is_call(n, "qnn.dequantize")]
        converted = self.converted(nodes, types[0])
        return node if converted is None else _dequantize(*converted)

    def converted(self, nodes: Sequence[RelayExpr], wanted: AffineType) -> tuple[RelayExpr, AffineType] | None:
        """Return the last expression of a region with integers, and its affine type; None where that cannot be done."""
        try:
            return self.with_integers(nodes, wanted)
        except Exception as error:  # rules are those of scripts, too, and may raise anything
            if self.hard_fail:
                raise UnsupportedOperatorError(f"a fake quantised region stays as it is: {error}") from error
            logger.info("a fake quantised region stays as it is: %s", error)
            return None

    def with_integers(self, nodes: Sequence[RelayExpr], wanted: AffineType) -> tuple[RelayExpr, AffineType]:
        types = TypeMap()
        done: dict[Any, RelayExpr] = {}
        for node in nodes:
            match node:
                case Tuple():
                    made: RelayExpr = Tuple([done[f] for f in node.fields], node.span)
                    types.find(made, TupleAffineType([types[f] for f in made.fields]))
                case TupleGetItem():
                    made = TupleGetItem(done[node.tuple_value], node.index, node.span)
                    types.find(made, types[made.tuple_value].types[node.index])
                case Call():
                    made = self.call(node, done, types, wanted)
                case _:
                    made = node
            done[node] = made
        return made, types[made]

    def call(self, node: Call, done: dict[Any, RelayExpr], types: TypeMap, wanted: AffineType) -> RelayExpr:
        """Return a call of a region with integers, and note its affine type."""
        rule = self.rule(node.op)
        if is_call(node, "qnn.dequantize"):
            expr = node
            types.want(expr, _dequantized(node))
        else:
            expr = Call(node.op, [done.get(a, a) for a in node.args], node.attrs, list(node.type_args), node.span)
            types.want(expr, wanted)
        result = rule(expr, types)
        if result is None or len(result) != 2:
            raise UnsupportedOperatorError(f"the rule of {node.op.name} must return an expression and its affine type")
        made, ty = result
        _check(node.op, made, ty)
        types.find(made, ty)
        return made

    def rule(self, op: Op) -> Attached:
        rule = attached(op, FAKE_QUANTIZATION_TO_INTEGER)
        if rule is None and op.name in self.optional:
            rule = attached(op, OPTIONAL_FAKE_QUANTIZATION_TO_INTEGER)
        if rule is None:
            raise UnsupportedOperatorError(f"{op.name} has no rule for integers")
        return rule


def _dequantized(call: Call) -> TensorAffineType:
    return TensorAffineType(call.args[1], call.args[2], type_of(call.args[0]).dtype, call.attrs.axis)


def _dequantize(expr: RelayExpr, ty: AffineType) -> RelayExpr:
    if isinstance(ty, TupleAffineType):
        return Tuple([_dequantize(TupleGetItem(expr, i), t) for i, t in enumerate(ty.types)])
    return build("qnn.dequantize", expr, ty.scale, ty.zero_point, axis=ty.axis)


def _check(op: Op, expr: RelayExpr, ty: AffineType) -> None:
    """Refuse an expression that is ill-typed, or has other integers than its affine type says."""
    known = type_of(expr)
    if isinstance(ty, TensorAffineType) and known.dtype != ty.dtype:
        raise UnsupportedOperatorError(f"{op.name} gives {known.dtype}, where integers of {ty.dtype} are expected")
