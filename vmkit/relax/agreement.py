"""Sizes that the kernel of a Relax operator takes for equal, or for large enough, checked when a program runs.

TVM refuses a call whose sizes cannot agree, and takes one whose sizes may: its kernel then counts by one operand and
reads, or writes, the others as if they were as long. Where it is not certain that they are, the program checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import tvm
from tvm import ir, relax, tirx

from .._dataclasses import dataclass
from .._tvm import begin_block, end_block
from ..errors import CompileError
from ..relay.ir import dims
from ..relay.ir.dims import Dim
from ..relay.lower.checks import RuntimeChecks
from .positions import has_known_shapes, joined_shape
from .rewrite import on_bindings, on_functions, with_branches

__all__ = ["with_agreed_sizes"]


@dataclass(frozen=True)
class _Need:
    """That a size is another one, or with `is_limit` at most that."""

    what: str
    actual: Dim
    expected: Dim
    is_limit: bool = False


_Rule = Callable[[relax.Call], Iterable[_Need]]


def with_agreed_sizes(mod: tvm.IRModule, checks: RuntimeChecks) -> tvm.IRModule:
    """Return a Relax module that checks before each operator what its kernel takes for granted of unknown sizes."""

    def checked(sequence: relax.SeqExpr) -> relax.SeqExpr:
        return on_bindings(sequence, lambda binding: _checked(with_branches(binding, checked), checks))

    return on_functions(mod, lambda _, function: checked(function.body))


def _checked(binding: relax.Binding, checks: RuntimeChecks) -> list[relax.Binding]:
    value = binding.value
    rule = _RULES.get(value.op.name) if isinstance(value, ir.Call) and isinstance(value.op, ir.Op) else None
    if rule is None or not all(has_known_shapes(each.ty) for each in (*value.args, value)):
        return [binding]
    builder = relax.BlockBuilder()
    begin_block(builder)
    for need in rule(value):
        _check(builder, need, value.op.name, checks)
    return [*end_block(builder).bindings, binding]


def _check(builder: relax.BlockBuilder, need: _Need, operator: str, checks: RuntimeChecks) -> None:
    actual, expected = need.actual, need.expected
    message = f"{operator}: {need.what} is {{actual}}, expected {{expected}}"
    if need.is_limit:
        actual, expected = dims.maximum(dims.sub(need.actual, need.expected), 0), 0
        message = f"{operator}: {need.what} is too large by {{actual}}"
    agrees = dims.equal(actual, expected)
    if agrees is False:
        raise CompileError(message.format(actual=actual, expected=expected))
    if not agrees:
        checks.emit(builder, actual, expected, message)


def _shape(value: relax.Expr) -> list[Dim]:
    return [dims.canonical(d) for d in value.ty.shape]


def _equal(name: str, actual: Sequence[Dim], expected: Sequence[Dim], first: int = 0) -> Iterator[_Need]:
    """Yield that the dimensions of the operand `name`, counted from `first` on, are those expected."""
    for axis, (have, want) in enumerate(zip(actual, expected, strict=False), first):
        yield _Need(f"dimension {axis} of {name}", have, want)


def _stretched(name: str, actual: Sequence[Dim], expected: Sequence[Dim]) -> Iterator[_Need]:
    """Yield that a shape is broadcast to another one as its kernel does: only what is known to be 1 is stretched."""
    for need in _equal(name, actual, expected[len(expected) - len(actual) :]):
        if not dims.equal(need.actual, 1):
            yield need


def _covered(name: str, actual: Sequence[Dim], most: Sequence[Dim], axis: int) -> Iterator[_Need]:
    """Yield that an operand is nowhere longer than the data, but along an axis."""
    for at, (have, limit) in enumerate(zip(actual, most, strict=True)):
        if at != axis:
            yield _Need(f"dimension {at} of {name}", have, limit, is_limit=True)


def _product(call: relax.Call) -> Iterator[_Need]:
    a, b = map(_shape, call.args)
    at = max(len(b) - 2, 0)
    yield _Need(f"dimension {at} of the second operand", b[at], a[-1])


def _contraction(call: relax.Call) -> Iterator[_Need]:
    terms = str(call.attrs.subscripts).replace(" ", "").split("->")[0].split(",")
    if not "".join(terms).isalpha():
        return  # the axes of an ellipsis are broadcast, and those TVM knows or refuses
    seen: dict[str, Dim] = {}
    for number, (term, operand) in enumerate(zip(terms, call.args[0].ty.fields, strict=True)):
        sizes = [dims.canonical(d) for d in operand.shape]
        for axis, (letter, size) in enumerate(zip(term, sizes, strict=True)):
            yield _Need(f"dimension {axis} of operand {number}", size, seen.setdefault(letter, size))


def _convolution(call: relax.Call, *, is_transposed: bool = False) -> Iterator[_Need]:
    (data, weight), attrs = map(_shape, call.args), call.attrs
    if len(attrs.data_layout) != len(data) or len(attrs.kernel_layout) != len(weight):
        return  # blocks of channels, whose sizes are numbers
    at = str(attrs.data_layout).index("C")
    given = weight[str(attrs.kernel_layout).index("I")]
    wanted = given if is_transposed else dims.mul(given, int(attrs.groups))
    yield _Need(f"dimension {at} of the data", data[at], wanted)


def _normalization(call: relax.Call) -> Iterator[_Need]:
    data, *others = map(_shape, call.args)
    for name, (size,) in zip(("gamma", "beta"), others, strict=True):
        yield _Need(f"the size of {name}", size, data[int(call.attrs.channel_axis) % len(data)])


def _cross_entropy(call: relax.Call) -> Iterator[_Need]:
    predictions, labels = map(_shape, call.args)
    return _equal("the labels", labels, predictions)


def _likelihood(call: relax.Call, first: int = 0) -> Iterator[_Need]:
    predictions, targets, *weights = map(_shape, call.args[first:])
    classes = 1 if len(predictions) > 1 else 0
    yield from _equal("the targets", targets, [*predictions[:classes], *predictions[classes + 1 :]])
    for each in weights:
        yield _Need("the size of the weights", each[0], predictions[classes])


def _attention(call: relax.Call) -> Iterator[_Need]:
    query, key, value, *bias = map(_shape, call.args[:4])
    batch, length, heads, width = query
    for name, each, last in (("the key", key, width), ("the value", value, value[3])):
        # One matrix is for all heads, of one in the batch; the kernel knows no other heads that are shared.
        is_one = all(dims.equal(d, 1) for d in (each[0], each[2]))
        yield from _equal(name, each, [batch, key[1], each[2] if is_one else heads, last])
    for each in bias:
        yield from _stretched("the bias", each, [batch, heads, length, key[1]])


def _gathered_elements(call: relax.Call) -> Iterator[_Need]:
    data, indices = map(_shape, call.args)
    return _covered("the indices", indices, data, int(call.attrs.axis) % len(data))


def _gathered_slices(call: relax.Call) -> Iterator[_Need]:
    data, indices = map(_shape, call.args)
    return _equal("the indices", indices[: int(call.attrs.batch_dims)], data)


def _scattered_elements(call: relax.Call) -> Iterator[_Need]:
    data, indices, updates = map(_shape, call.args)
    yield from _equal("the updates", updates, indices)
    yield from _covered("the indices", indices, data, int(call.attrs.axis) % len(data))


def _put(call: relax.Call) -> Iterator[_Need]:
    data, values = _shape(call.args[0]), _shape(call.args[2])
    given = call.args[1].ty
    positions = [list(ty.shape) for ty in getattr(given, "fields", [given])]
    common = [dims.canonical(d) for d in joined_shape(positions)]
    for each in positions:
        yield from _stretched("the indices", [dims.canonical(d) for d in each], common)
    yield from _stretched("the values", values, [*common, *data[len(positions) :]])


def _largest(call: relax.Call) -> Iterator[_Need]:
    data = _shape(call.args[0])
    yield _Need("k", int(call.attrs.k), data[int(call.attrs.axis) % len(data)], is_limit=True)


def _split(call: relax.Call) -> Iterator[_Need]:
    data, parts = _shape(call.args[0]), call.attrs.indices_or_sections
    size = data[int(call.attrs.axis) % len(data)]
    if isinstance(parts, int | tirx.IntImm):
        last: Dim = dims.mul(dims.ceildiv(size, int(parts)), int(parts) - 1)
    else:
        last = max(map(int, parts), default=0)
    yield _Need("where the last part begins", last, size, is_limit=True)


def _broadcast(call: relax.Call) -> Iterator[_Need]:
    return _stretched("the data", _shape(call.args[0]), _shape(call))


def _reshape(call: relax.Call) -> Iterator[_Need]:
    yield _Need("the number of elements of the shape", dims.product(_shape(call)), dims.product(_shape(call.args[0])))


def _sampled(call: relax.Call) -> Iterator[_Need]:
    data, grid = map(_shape, call.args)
    return _equal("the grid", grid[:1], data)


def _reversed(call: relax.Call) -> Iterator[_Need]:
    data, lengths = map(_shape, call.args)
    yield _Need("the number of lengths", lengths[0], data[int(call.attrs.batch_axis) % len(data)])


_RULES: dict[str, _Rule] = {
    "relax.matmul": _product,
    "relax.einsum": _contraction,
    **{f"relax.nn.conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"relax.nn.conv{n}d_transpose": partial(_convolution, is_transposed=True) for n in (1, 2, 3)},
    "relax.nn.group_norm": _normalization,
    "relax.nn.instance_norm": _normalization,
    "relax.nn.cross_entropy_with_logits": _cross_entropy,
    "relax.nn.nll_loss": _likelihood,
    "relax.grad.nll_loss_backward": partial(_likelihood, first=1),
    "relax.nn.attention": _attention,
    "relax.nn.attention_bias": _attention,
    "relax.gather_elements": _gathered_elements,
    "relax.gather_nd": _gathered_slices,
    "relax.scatter_elements": _scattered_elements,
    "relax.index_put": _put,
    "relax.topk": _largest,
    "relax.split": _split,
    "relax.broadcast_to": _broadcast,
    "relax.reshape": _reshape,
    "relax.image.grid_sample": _sampled,
    "relax.reverse_sequence": _reversed,
}
"""What operators need, by their names."""
