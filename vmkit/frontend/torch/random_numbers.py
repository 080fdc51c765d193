"""Random numbers of PyTorch, of another generator: what is drawn is not what PyTorch would draw.

The numbers are those of the Mersenne Twister, one after the other in row-major order, of a seed that each node takes
anew at every run from the generator of TVM's runtime; see :mod:`vmkit.relay.op.random.twister`. ``torch.manual_seed``
says nothing of it: two runs differ, and only distributions are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ...relay.ir import dims
from ...relay.op.kernel import grid
from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of, refused
from .effects import require_none
from .formulas import known_sizes
from .functions import mapped_tensors
from .matrix_kernels import WIDE, at, number
from .relay_operators import looped, lowered

if TYPE_CHECKING:
    from torch import fx

__all__ = ["RANDOM_NUMBERS"]


def _drawn(importer: Importing, kind: str, shape: list[tirx.Expr]) -> relax.Expr:
    """Return numbers in float64, `uniform` from 0 to below 1 or `normal`, of a shape."""
    seed = lowered(importer, "random.contrib_seed")
    made = lowered(importer, f"random.contrib_{kind}", seed, shape=[dims.simplify(d) for d in shape])
    return cast("relax.Expr", made)


def _mapped(importer: Importing, node: fx.Node, kind: str, function: Callable[[tirx.Expr], tirx.Expr]) -> relax.Expr:
    """Return a function of numbers, of the shape and the type of a node's result."""
    drawn = _drawn(importer, kind, known_sizes(importer, node))
    return cast_to(importer, mapped_tensors(importer, [drawn], WIDE, function, name=kind), dtype_of(node))


def _plain(importer: Importing, node: fx.Node, *, kind: str) -> relax.Expr:
    return cast_to(importer, _drawn(importer, kind, known_sizes(importer, node)), dtype_of(node))


def _uniform(importer: Importing, node: fx.Node) -> relax.Expr:
    _, low, high, *_ = arguments_of(node)
    return _mapped(importer, node, "uniform", lambda u: u * number(high - low) + number(low))


def _exponential(importer: Importing, node: fx.Node) -> relax.Expr:
    _, rate, *_ = arguments_of(node)
    return _mapped(importer, node, "uniform", lambda u: -tirx.log1p(-u) / number(rate))


def _integers(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return whole numbers from one to below another; the first is 0 where only one is given."""
    names = [argument.name for argument in cast("Any", node.target)._schema.arguments]
    values = dict(zip(names, arguments_of(node), strict=True))
    low, high = values.get("low", 0), values["high"]
    if not (isinstance(low, int) and isinstance(high, int)):
        raise refused(node, "draws whole numbers between bounds that are computed")
    return _mapped(importer, node, "uniform", lambda u: tirx.floor(u * number(high - low)) + number(low))


def _normal(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return normal numbers of means and deviations, each a number or a tensor."""
    mean, deviation = arguments_of(node)[:2]
    emit, op = importer.block_builder.emit, relax.op
    made = _drawn(importer, "normal", known_sizes(importer, node))
    for value, combine in ((deviation, op.multiply), (mean, op.add)):
        own = importer.env.get(value)
        factor = relax.const(float(value), WIDE) if own is None else cast_to(importer, own, WIDE)
        made = emit(combine(made, factor))
    return cast_to(importer, made, dtype_of(node))


def _normal_like(importer: Importing, node: fx.Node) -> relax.Expr:
    _, mean, deviation, *_ = arguments_of(node)
    return _mapped(importer, node, "normal", lambda z: z * number(deviation) + number(mean))


def _kept(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return elements that are kept, with what makes up for the others, which are 0; and which are kept."""
    data, chance, trains = arguments_of(node)
    value, emit, op = importer.env[data], importer.block_builder.emit, relax.op
    shape = list(value.ty.shape)
    if trains is False or chance == 0:
        return emit(relax.Tuple([value, emit(op.full(relax.ShapeExpr(shape), relax.const(True, "bool")))]))
    dtype = str(value.ty.dtype)
    mask = emit(op.greater_equal(_drawn(importer, "uniform", shape), relax.const(float(chance), WIDE)))
    scale = relax.const(0.0 if chance == 1 else 1 / (1 - chance), dtype)
    made = emit(op.multiply(emit(op.multiply(value, emit(op.astype(mask, dtype)))), scale))
    return emit(relax.Tuple([made, mask]))


def _places(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return positions on the last axis, as likely as the numbers there say; without putting back, if asked for.

    Those of the largest of u ** (1 / weight), u uniform (Efraimidis and Spirakis, 2006), are drawn without putting
    back; one each of a row of its own is drawn with it.
    """
    data, count, puts_back, *_ = arguments_of(node)
    value, emit, op = cast_to(importer, importer.env[data], WIDE), importer.block_builder.emit, relax.op
    *lead, classes = list(value.ty.shape)
    drawings = known_sizes(importer, node)[-1]
    _require_weights(importer, node, value)
    if not puts_back:
        if not isinstance(count, int):
            raise refused(node, "draws a number of positions that is computed, without putting back")
        keys = [_drawn(importer, "uniform", [*lead, classes]), value]

        def key(u: tirx.Expr, weight: tirx.Expr) -> tirx.Expr:
            # The logarithm of it; what weighs nothing comes last.
            return tirx.Select(weight > number(0), tirx.log(u) / weight, number(float("-inf")))

        ranked = mapped_tensors(importer, keys, WIDE, key, name="rank")
        return emit(op.topk(ranked, count, axis=-1, ret_type="indices", largest=True, dtype="int64"))
    sums = emit(op.cumsum(value, axis=len(lead)))
    drawn = _drawn(importer, "uniform", [*lead, drawings])

    def kernel(sums: te.Tensor, drawn: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, sums.shape[-1]), "k")

        def place(*at: tirx.Expr) -> tirx.Expr:
            row, whole = at[:-1], sums(*at[:-1], sums.shape[-1] - 1)
            return te.sum((sums(*row, k) <= drawn(*at) * whole).astype("int64"), axis=k)

        return te.compute(drawn.shape, place, name="multinomial")

    return importer.block_builder.emit_te(kernel, sums, drawn, primfunc_name_hint="multinomial")


def _require_weights(importer: Importing, node: fx.Node, value: relax.Expr) -> None:
    """Check that some position of each row may be drawn: no weight is below 0, or no number, and not all are 0."""

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        flag, total = outputs
        T.buffer_store(flag, tirx.const(0, "int64"), [0])
        with grid(list(x.shape[:-1])) as row:
            T.buffer_store(total, number(0), [0])
            with grid([x.shape[-1]]) as (k,):
                weight = T.bind(x[at(row, k)])
                is_good = tirx.all(weight >= number(0), tirx.Not(tirx.isinf(weight)))
                T.buffer_store(total, total[0] + tirx.Select(is_good, weight, number(-math.inf)), [0])
            with T.If(tirx.Not(total[0] > number(0))), T.Then():
                T.buffer_store(flag, tirx.const(1, "int64"), [0])

    flag, _ = looped(importer, [([1], "int64"), ([1], WIDE)], body, value, name="weighed")
    message = f"{node.name}: in a row of weights one is negative or not finite, or all are 0"
    require_none(importer, flag, f"{node.name}_weights", message)


def _permuted(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the numbers below another in an order that is as likely as any other: Fisher's and Yates' shuffle."""
    (length,) = known_sizes(importer, node)
    drawn = _drawn(importer, "uniform", [length])

    def body(outputs: list[tirx.Buffer], drawn: tirx.Buffer) -> None:
        (out,) = outputs
        with grid([out.shape[0]]) as (i,):
            other = T.bind((drawn[i] * (i + 1).astype(WIDE)).astype("int64"))
            T.buffer_store(out, i, [i])
            moved = T.bind(out[other])
            T.buffer_store(out, i, [other])
            with T.If(other != i), T.Then():
                T.buffer_store(out, moved, [i])

    made = looped(importer, [([length], "int64")], body, drawn, name="permuted")
    return cast_to(importer, cast("relax.Expr", made), dtype_of(node))


def _leaky(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return numbers, those below 0 times the middle of two others, in training times any between these."""
    data, _, low, high, trains, *_ = arguments_of(node)
    value, emit, op = importer.env[data], importer.block_builder.emit, relax.op
    dtype, shape = str(value.ty.dtype), list(value.ty.shape)
    one, zero = relax.const(1, dtype), relax.const(0, dtype)
    factor = relax.const((low + high) / 2, dtype)
    if trains:
        drawn = _drawn(importer, "uniform", shape)
        ranged = mapped_tensors(importer, [drawn], WIDE, lambda u: u * number(high - low) + number(low), name="slope")
        factor = cast_to(importer, ranged, dtype)
    noise = emit(op.where(emit(op.less(value, zero)), factor, one))
    return emit(relax.Tuple([emit(op.multiply(value, noise)), noise]))


RANDOM_NUMBERS: dict[str, Converter] = {
    "exponential.default": _exponential,
    "multinomial.default": _places,
    "native_dropout.default": _kept,
    **dict.fromkeys(("normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor"), _normal),
    "normal_functional.default": _normal_like,
    **dict.fromkeys(("rand.default", "rand_like.default"), partial(_plain, kind="uniform")),
    **dict.fromkeys(("randn.default", "randn_like.default"), partial(_plain, kind="normal")),
    **dict.fromkeys(("randint.default", "randint.low", "randint_like.default", "randint_like.low_dtype"), _integers),
    "randperm.default": _permuted,
    "rrelu_with_noise_functional.default": _leaky,
    "uniform.default": _uniform,
}
"""The converters, by the names of PyTorch's operators."""
