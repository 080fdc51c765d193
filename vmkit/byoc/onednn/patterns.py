"""Groups of operators that oneDNN computes as one: an operator, and what is done to its result before it is written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..._dataclasses import dataclass
from ...relay.dataflow_pattern import DFPattern, is_constant, is_op, is_tuple_get_item, wildcard
from ...relay.dataflow_pattern.matcher import Matcher
from ...relay.ir import Call, Constant, Op, RelayExpr, TupleGetItem
from ...relay.op.contrib.register import PatternRow
from ..products import PRODUCTS
from .operators import CONVOLUTIONS, ELEMENTWISE, Taken, batch_norm, dims_of, taken

__all__ = ["After", "Group", "group", "rows"]

_SIMPLE = ("clip", "nn.leaky_relu", "nn.relu", "sigmoid", "tanh")
_SUMS = ("add", "nn.bias_add")


@dataclass(frozen=True, eq=False)
class After:
    """What is done to a result: a function of single elements, or something with another tensor."""

    op: str
    alpha: float = 0.0
    beta: float = 0.0
    operand: RelayExpr | None = None


@dataclass(frozen=True, eq=False)
class Group:
    """A call, the node that it is, and what follows it; without a call what follows is done to `source`."""

    call: Call | None
    node: Taken
    after: list[After]
    source: RelayExpr | None = None


class _Gelu:
    """The products that a GELU of what a pattern describes is spelled out as, with the constants that they have."""

    def __init__(self, x: DFPattern) -> None:
        divisor, factor, one, half = (is_constant() for _ in range(4))
        gate = is_op("add")(is_op("erf")(is_op("divide")(x, divisor) | is_op("multiply")(x, factor)), one)
        self.x = x
        self.constants = {divisor: math.sqrt(2), factor: math.sqrt(0.5), one: 1.0, half: 0.5}
        self.pattern = (
            is_op("multiply")(is_op("multiply")(x, gate), half)
            | is_op("multiply")(is_op("multiply")(x, half), gate)
            | is_op("multiply")(x, is_op("multiply")(gate, half))
        )

    def source(self, expr: RelayExpr) -> RelayExpr | None:
        """Return what an expression is the GELU of; None where it is none."""
        found = Matcher(expr).match(self.pattern, expr)
        if found is None or any(not _is_number(found[p][0], v) for p, v in self.constants.items() if found.get(p)):
            return None
        return found[self.x][0]


def _is_number(expr: RelayExpr, value: float) -> bool:
    assert isinstance(expr, Constant)
    array = expr.data.numpy()
    return array.size == 1 and math.isclose(array.item(), value, rel_tol=1e-5)


def _swish(x: DFPattern) -> DFPattern:
    return is_op("multiply")(x, is_op("sigmoid")(x))


def _either(patterns: Sequence[DFPattern]) -> DFPattern:
    first, *rest = patterns
    for pattern in rest:
        first = first | pattern
    return first


def _active(x: DFPattern) -> DFPattern:
    """Return the pattern of any activation of what a pattern describes."""
    return _either([*(is_op(name)(x) for name in _SIMPLE), _Gelu(x).pattern, _swish(x)])


def _any_of(names: Sequence[str]) -> DFPattern:
    return _either([is_op(name) for name in names])(wildcard(), wildcard())


def rows() -> Iterator[PatternRow]:
    """Yield the rows of the pattern table, what takes most first."""
    for short, names in (("convolution", CONVOLUTIONS), ("product", PRODUCTS)):
        plain = _any_of(names)
        once = is_op("add")(plain, wildcard()) | is_op("nn.bias_add")(plain, wildcard())
        twice = is_op("add")(once, wildcard())
        for stem, pattern in (("_bias_sum", twice), ("_bias", once), ("", plain)):
            yield f"onednn.{short}{stem}_activation", _active(pattern), _fits
            if stem:
                yield f"onednn.{short}{stem}", pattern, _fits
    normal = is_tuple_get_item(is_op("nn.batch_norm")(*[wildcard() for _ in range(5)]), 0)
    yield "onednn.batch_norm_relu", is_op("nn.relu")(normal), _fits
    yield "onednn.batch_norm", normal, _fits
    yield "onednn.gelu", _Gelu(wildcard()).pattern, _fits
    yield "onednn.swish", _swish(wildcard()), _fits


def _fits(expr: RelayExpr) -> bool:
    return not isinstance(group(expr), str)


def group(expr: RelayExpr) -> Group | str:
    """Return what a composite function, or an expression that a pattern describes, is to oneDNN, or why it is nothing.

    Parameters
    ----------
    expr : Expr
        The last of its operators.
    """
    if expr.checked_type.dtype != "float32":
        return f"it takes float32 alone, not {expr.checked_type.dtype}"
    after: list[After] = []
    active = _activation(expr)
    if active is not None:
        expr, act = active
        after.append(act)
    root = expr
    while isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in _SUMS:
        mains = [_main_of(arg) for arg in expr.args]
        below = next((i for i, main in enumerate(mains) if main is not None), None)
        if below is None:
            break
        # Where both could be what the other is added to, a pattern may take either.
        reasons = [reason for main in mains if main is not None and isinstance(reason := taken(main), str)]
        if reasons:
            return reasons[0]
        after.insert(0, After(expr.op.name, operand=expr.args[1 - below]))
        expr = expr.args[below]
    if isinstance(expr, TupleGetItem) and isinstance(expr.tuple_value, Call):
        node = batch_norm(expr.tuple_value)
        return node if isinstance(node, str) else Group(expr.tuple_value, node, after)
    if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in (*CONVOLUTIONS, *PRODUCTS):
        node = taken(expr)
        return node if isinstance(node, str) else _with_operands(expr, node, after)
    if active is None:
        return "it is no operator that others follow"
    return Group(None, Taken("elementwise"), after[-1:], root)


def _main_of(expr: RelayExpr) -> Call | None:
    """Return the convolution or product that an expression is, perhaps with something added; None if it is none."""
    for _ in range(2):
        if not isinstance(expr, Call) or not isinstance(expr.op, Op) or expr.op.name not in _SUMS:
            break
        expr = next((arg for arg in expr.args if isinstance(arg, Call)), expr.args[0])
    if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in (*CONVOLUTIONS, *PRODUCTS):
        return expr
    return None


def _activation(expr: RelayExpr) -> tuple[RelayExpr, After] | None:
    """Return what an expression is an activation of, and which; None where it is none."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return None
    if expr.op.name in _SIMPLE:
        made = ELEMENTWISE[expr.op.name](expr)
        assert isinstance(made, Taken)
        return expr.args[0], After(made.attrs["function"], made.attrs["alpha"], made.attrs["beta"])
    if expr.op.name != "multiply":
        return None
    source = wildcard()
    swish = Matcher(expr).match(_swish(source), expr)
    if swish is not None:
        return swish[source][0], After("swish", 1.0)
    of = _Gelu(wildcard()).source(expr)
    return None if of is None else (of, After("gelu"))


def _with_operands(call: Call, node: Taken, after: Sequence[After]) -> Group | str:
    """Say what each tensor is that is added: a bias, for the first, a number, or a whole tensor."""
    dims = dims_of(call)
    channel = node.attrs["result_axes"][1] if node.kind == "convolution" else len(dims) - 1
    made: list[After] = []
    for each in after:
        if each.operand is None:
            made.append(each)
            continue
        if each.operand.checked_type.dtype != "float32":
            return "it adds float32 alone"
        own = dims_of(each.operand)
        own = [*[1] * (len(dims) - len(own)), *own] if each.op == "add" else own
        is_channel = own == [d if i == channel else 1 for i, d in enumerate(dims)] or each.op == "nn.bias_add"
        if is_channel and not made and isinstance(dims[channel], int):
            made.append(After("bias", operand=each.operand))
        elif own == dims and "?" not in dims:  # what is not known may be broadcast
            if any(other.op == "sum" for other in made):
                return "it adds one whole tensor"
            made.append(After("sum", operand=each.operand))
        elif own == [1] * len(dims):
            made.append(After("add", operand=each.operand))
        else:
            return "what is added is neither a bias nor a tensor like the result"
    return Group(call, node, made)
