"""Random numbers of a distribution, made of random words: uniform, normal, multinomial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.expr import const as relay_const
from ...ir.types import IncompleteType, TensorType, TupleType, Type
from ..attrs import Attrs, DType, Int, Ints, attrs_node, attrs_row, field
from ..elementwise import require_tensor
from ..kernel import Result, const, grid, indexed, loops
from ..nn.sparse import converted
from ..registry import OpPattern, Parameters, entry, operator
from ..shape import reshape_value
from .threefry import infer_key, key_type, random_words, require_key, require_shape

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

# How many bits of a word a number takes, and of which width the word is read: a float32 is made of the lower half.
_FRACTION = {"float32": (23, 32), "float64": (52, 64)}


def _unit(word: tirx.Expr, dtype: str) -> tirx.Expr:
    """Return the number in [0, 1) that a random word stands for."""
    bits, width = _FRACTION[dtype]
    kind = f"uint{width}"
    word = word if width == 64 else word.astype(kind)
    return (word >> tirx.const(width - bits, kind)).astype(dtype) / tirx.const(1 << bits, dtype)


def _scalars(attrs: DrawnAttrs, key: Type, *parameters: Type) -> dict[int, Type]:
    """Infer inputs of unknown type: a key and two scalars."""
    unknown = {k: TensorType([], attrs.out_dtype) for k, p in enumerate(parameters, 1) if isinstance(p, IncompleteType)}
    return infer_key(attrs, key) | unknown


def _numbers(attrs: DrawnAttrs, key: Type, parameters: dict[str, Type]) -> Type:
    require_key(key)
    if attrs.out_dtype not in _FRACTION:
        raise TypeCheckError(f"random numbers are float32 or float64, not {attrs.out_dtype or 'of no data type'}")
    for name, given in parameters.items():
        tensor = require_tensor(given, name)
        if len(tensor.shape) or tensor.dtype != attrs.out_dtype:
            raise TypeCheckError(f"{name} must be a scalar of {attrs.out_dtype}, not {tensor}")
    return TupleType([key_type(), TensorType(require_shape(attrs.out_shape), attrs.out_dtype)])


def _made(name: str, key: Expr, shape: Sequence[int], dtype: str, **parameters: float | Expr) -> Expr:
    """Return a call of an operator, whose parameters may be numbers, of the data type that is drawn."""
    given = [p if isinstance(p, Expr) else relay_const(p, dtype) for p in parameters.values()]
    return entry(name).call(key, *given, out_shape=shape, out_dtype=dtype)


_DRAWN = {"shape": "out_shape", "dtype": "out_dtype"}


@attrs_row
class DrawnAttrs(Attrs):
    """What the distributions have in common."""

    out_shape: Ints = field(doc="Shape of the numbers.")
    out_dtype: DType = field("", script="float32", doc="Data type of the numbers, float32 or float64.")


@attrs_node("relay.attrs.UniformAttrs")
class UniformAttrs(DrawnAttrs):
    """Attributes of random.uniform."""


@operator(
    "random.uniform",
    "key",
    "low",
    "high",
    attrs=UniformAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("key shape dtype low high", renamed=_DRAWN, given={"low": 0.0, "high": 1.0}),
)
class Uniform:
    """The next key, and numbers that are equally likely anywhere from low to below high."""

    infer_inputs = staticmethod(_scalars)

    make = staticmethod(partial(_made, "random.uniform"))

    @staticmethod
    def relation(attrs: UniformAttrs, key: Type, low: Type, high: Type) -> Type:
        return _numbers(attrs, key, {"low": low, "high": high})

    @staticmethod
    def lower(
        context: LowerContext, attrs: UniformAttrs, key: relax.Expr, low: relax.Expr, high: relax.Expr
    ) -> tuple[relax.Expr, ...]:
        shape = list(attrs.out_shape)
        count = dims.product(shape)
        state, words = random_words(context, key, count)

        def element(i: tuple[tirx.Expr, ...], words: te.Tensor, low: te.Tensor, high: te.Tensor) -> tirx.Expr:
            return _unit(words(i[0]), attrs.out_dtype) * (high() - low()) + low()

        return state, reshape_value(context, indexed(context, [count], element, words, low, high), shape)


@attrs_node("relay.attrs.NormalAttrs")
class NormalAttrs(DrawnAttrs):
    """Attributes of random.normal."""


@operator(
    "random.normal",
    "key",
    "mean",
    "scale",
    attrs=NormalAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("key shape dtype mean scale", renamed=_DRAWN, given={"mean": 0.0, "scale": 1.0}),
)
class Normal:
    """The next key, and numbers of a normal distribution with a mean and a standard deviation.

    By the transform of Box and Muller ("A note on the generation of random normal deviates", 1958), of which the sine
    is used: one number takes one word from each half of the random words.
    """

    infer_inputs = staticmethod(_scalars)

    make = staticmethod(partial(_made, "random.normal"))

    @staticmethod
    def relation(attrs: NormalAttrs, key: Type, mean: Type, scale: Type) -> Type:
        return _numbers(attrs, key, {"mean": mean, "scale": scale})

    @staticmethod
    def lower(
        context: LowerContext, attrs: NormalAttrs, key: relax.Expr, mean: relax.Expr, scale: relax.Expr
    ) -> tuple[relax.Expr, ...]:
        shape, dtype = list(attrs.out_shape), attrs.out_dtype
        count = dims.product(shape)
        state, words = random_words(context, key, dims.mul(count, 2))

        def element(i: tuple[tirx.Expr, ...], words: te.Tensor, mean: te.Tensor, scale: te.Tensor) -> tirx.Expr:
            one, two = _unit(words(i[0]), dtype), _unit(words(i[0] + count), dtype)
            radius = tirx.sqrt(tirx.const(-2, dtype) * tirx.log(tirx.const(1, dtype) - one))
            return radius * tirx.sin(tirx.const(2 * math.pi, dtype) * two) * scale() + mean()

        return state, reshape_value(context, indexed(context, [count], element, words, mean, scale), shape)


@attrs_node("relay.attrs.MultinomialAttrs")
class MultinomialAttrs(Attrs):
    """Attributes of random.multinomial."""

    num_samples: Int = field(1, doc="How many positions are drawn for each row.")


@operator("random.multinomial", "key", "probs", attrs=MultinomialAttrs, level=10, pattern=OpPattern.OPAQUE)
class Multinomial:
    """The next key, and positions along the last dimension of probs, drawn with the probabilities that stand there.

    The probabilities of a row need not sum up to 1; negative ones count as 0.
    """

    infer_inputs = staticmethod(infer_key)

    @staticmethod
    def relation(attrs: MultinomialAttrs, key: Type, probs: Type) -> Type:
        require_key(key)
        rows = require_tensor(probs, "probs")
        if not len(rows.shape) or not rows.dtype.startswith(("float", "bfloat")):
            raise TypeCheckError(f"probs must be a tensor of floats with a last dimension to draw from, not {rows}")
        if attrs.num_samples < 0:
            raise TypeCheckError(f"num_samples is {attrs.num_samples}; it cannot be negative")
        if dims.equal(rows.shape[-1], 0):
            raise TypeCheckError(f"probs is {rows}: there is nothing to draw from")
        return TupleType([key_type(), TensorType([*list(rows.shape)[:-1], attrs.num_samples], "int32")])

    @staticmethod
    def lower(
        context: LowerContext, attrs: MultinomialAttrs, key: relax.Expr, probs: relax.Expr
    ) -> tuple[relax.Expr, ...]:
        *outer, classes = context.shape(probs)
        if not isinstance(classes, int):
            context.require(classes > 0, "random.multinomial: the last dimension of probs is 0: nothing to draw from")
        rows = dims.product(outer)
        state, words = random_words(context, key, dims.mul(rows, attrs.num_samples))
        dtype = "float64" if str(probs.ty.dtype) == "float64" else "float32"
        flat = reshape_value(context, converted(context, probs, dtype), [rows, classes])

        def body(outputs: list[tirx.Buffer], words: tirx.Buffer, probs: tirx.Buffer) -> None:
            drawn, total, sums, fallback = outputs
            rows, classes = probs.shape

            def weight(row: tirx.Expr, at: tirx.Expr) -> tirx.Expr:
                return tirx.max(probs[row, at], tirx.const(0, dtype))

            with grid([rows]) as (row,):
                T.buffer_store(total, tirx.const(0, dtype), [const(0)])
                T.buffer_store(fallback, const(0), [const(0)])
                with grid([classes]) as (at,):
                    T.buffer_store(total, total[0] + weight(row, at), [const(0)])
                with grid([classes]) as (at,):
                    before = tirx.if_then_else(at == 0, tirx.const(0, dtype), sums[tirx.max(at - 1, const(0))])
                    T.buffer_store(sums, before + weight(row, at) / total[0], [at])
                    # Rounding may leave the last sum below the number drawn: the last that can be drawn is taken.
                    with T.If(weight(row, at) > tirx.const(0, dtype)), T.Then():
                        T.buffer_store(fallback, at, [const(0)])
                with grid([attrs.num_samples]) as (sample,):
                    number = T.Bind(_unit(words[row * attrs.num_samples + sample], "float32").astype(dtype))
                    T.buffer_store(drawn, fallback[0].astype("int32"), [row, sample])
                    with grid([classes]) as (back,):
                        at = classes - 1 - back
                        with T.If(sums[at] > number), T.Then():
                            T.buffer_store(drawn, at.astype("int32"), [row, sample])

        results: list[Result] = [([rows, attrs.num_samples], "int32"), ([1], dtype), ([classes], dtype), ([1], "int64")]
        drawn = loops(context, results, body, words, flat)[0]
        return state, reshape_value(context, drawn, [*outer, attrs.num_samples])
