"""Numbers of the Mersenne Twister, by seed: those that numpy's RandomState gives.

The generator is MT19937 (Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform
pseudorandom number generator", 1998), started by one word of 32 bits. A number takes two words, 53 bits of which make a
float64; normal ones come in pairs by Marsaglia's polar method. All of it as ``numpy.random.RandomState(seed)`` does it,
which is what ONNX's reference implementation draws with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Expr
from ...ir.types import Dim, TensorType, Type
from ..attrs import Attrs, Dims, attrs_node, field
from ..create import fill
from ..elementwise import require_tensor
from ..fields import REQUIRED
from ..kernel import const, grid, indexed, loops
from ..registry import OpPattern, Parameters, entry, operator
from ..shape import reshape_value

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []

_WORDS = 624
_AHEAD = 397
_LOW_32 = (1 << 32) - 1


@operator("random.contrib_seed", level=10, pure=False)
class RandomSeed:
    """A seed that is another one at every call.

    By the generator of TVM's runtime, which every thread has one of, started by the clock when it is first used.
    """

    @staticmethod
    def relation(attrs: None) -> Type:
        return TensorType([], "int64")

    @staticmethod
    def lower(context: LowerContext, attrs: None) -> relax.Expr:
        drawn = relax.op.call_dps_packed(
            "tvm.contrib.random.randint",
            (relax.prim_value(0), relax.prim_value((1 << 31) - 1)),
            relax.TensorType([1], "int32"),
        )
        return indexed(context, [], lambda i, drawn: drawn(const(0)).astype("int64"), context.emit(drawn))


@attrs_node("relay.attrs.ContribRandomAttrs")
class ContribRandomAttrs(Attrs):
    """Attributes of random numbers by seed: their shape, if there is no tensor to take it from."""

    shape: Dims = field((), script=REQUIRED, doc="Shape of the numbers, or the tensor whose shape they have.")


_PARAMETERS = Parameters("seed shape")


def _made(name: str, seed: Expr, shape: Dims | Expr) -> Expr:
    """Return a call of an operator, the shape being its own or, where it is an expression, that of a tensor."""
    if isinstance(shape, Expr):
        return entry(name).call(seed, shape)
    return entry(name).call(seed, shape=shape)


def _relation(attrs: ContribRandomAttrs, seed: Type, *like: Type) -> Type:
    given = require_tensor(seed, "seed")
    if len(given.shape) or given.dtype != "int64":
        raise TypeCheckError(f"seed must be a scalar of int64, not {given}")
    if len(like) > 1:
        raise TypeCheckError("the shape is that of one tensor; more are given")
    return TensorType(list(require_tensor(like[0], "like").shape if like else attrs.shape), "float64")


def _shape(context: LowerContext, attrs: ContribRandomAttrs, like: tuple[relax.Expr, ...]) -> list[Dim]:
    return list(context.shape(like[0]) if like else context.dims(list(attrs.shape)))


@operator(
    "random.contrib_uniform",
    "seed",
    "*like",
    attrs=ContribRandomAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=_PARAMETERS,
)
class ContribUniform:
    """Numbers that are equally likely anywhere from 0 to below 1, of a shape or of the shape of a tensor."""

    make = staticmethod(partial(_made, "random.contrib_uniform"))
    relation = staticmethod(_relation)

    @staticmethod
    def lower(context: LowerContext, attrs: ContribRandomAttrs, seed: relax.Expr, *like: relax.Expr) -> relax.Expr:
        shape = _shape(context, attrs, like)

        def body(outputs: list[tirx.Buffer], seed: tirx.Buffer) -> None:
            out, state, position, number = outputs
            _start(state, position, seed)
            with grid(list(out.shape)) as i:
                _draw(state, position, number)
                T.buffer_store(out, number[0], i)

        return _flat(context, shape, [], body, seed)


@operator(
    "random.contrib_normal",
    "seed",
    "*like",
    attrs=ContribRandomAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=_PARAMETERS,
)
class ContribNormal:
    """Numbers of the normal distribution with mean 0 and deviation 1, of a shape or of the shape of a tensor."""

    make = staticmethod(partial(_made, "random.contrib_normal"))
    relation = staticmethod(_relation)

    @staticmethod
    def lower(context: LowerContext, attrs: ContribRandomAttrs, seed: relax.Expr, *like: relax.Expr) -> relax.Expr:
        shape = _shape(context, attrs, like)

        def body(outputs: list[tirx.Buffer], seed: tirx.Buffer) -> None:
            out, state, position, number, pair = outputs
            (count,) = out.shape
            _start(state, position, seed)
            with grid([tirx.floordiv(count + 1, const(2))]) as (i,):
                _polar(state, position, number, pair)
                # The second of a pair comes first.
                T.buffer_store(out, pair[1] * pair[2], [i * 2])
                with T.If(i * 2 + 1 < count), T.Then():
                    T.buffer_store(out, pair[0] * pair[2], [i * 2 + 1])

        return _flat(context, shape, [([3], "float64")], body, seed)


def _flat(
    context: LowerContext, shape: list[Dim], scratch: list[Any], body: Callable[..., None], seed: relax.Expr
) -> relax.Expr:
    """Return numbers of a shape that a kernel draws in row-major order."""
    count = dims.product(shape)
    if isinstance(count, int) and count == 0:
        return fill(context, shape, 0.0, "float64")
    results: list[Any] = [([count], "float64"), ([_WORDS], "uint32"), ([1], "int64"), ([1], "float64"), *scratch]
    return reshape_value(context, loops(context, results, body, seed)[0], shape)


# -- the generator, as statements of a kernel


def _u32(value: int) -> tirx.Expr:
    return tirx.const(value, "uint32")


def _start(state: tirx.Buffer, position: tirx.Buffer, seed: tirx.Buffer) -> None:
    """Fill the state from the lowest 32 bits of a seed."""
    T.buffer_store(state, (seed[()] & tirx.const(_LOW_32, "int64")).astype("uint32"), [const(0)])
    with grid([_WORDS - 1]) as (i,):
        last = state[i]
        # TVM lets LLVM assume that unsigned arithmetic does not wrap: 64 bits hold what 32 do not.
        wide = (last ^ (last >> _u32(30))).astype("uint64") * tirx.const(1812433253, "uint64")
        wide = (wide + (i + 1).astype("uint64")) & tirx.const(_LOW_32, "uint64")
        T.buffer_store(state, wide.astype("uint32"), [i + 1])
    T.buffer_store(position, const(_WORDS), [const(0)])


def _draw(state: tirx.Buffer, position: tirx.Buffer, number: tirx.Buffer) -> None:
    """Write the next number in [0, 1) to the buffer `number`."""
    with T.If(position[0] == const(_WORDS)), T.Then():
        with grid([_WORDS]) as (i,):
            follows = tirx.Select(i == _WORDS - 1, const(0), i + 1)
            ahead = tirx.Select(i < _WORDS - _AHEAD, i + _AHEAD, i + (_AHEAD - _WORDS))
            joined = T.bind((state[i] & _u32(0x80000000)) | (state[follows] & _u32(0x7FFFFFFF)))
            twisted = tirx.Select((joined & _u32(1)) == _u32(0), _u32(0), _u32(0x9908B0DF))
            T.buffer_store(state, state[ahead] ^ (joined >> _u32(1)) ^ twisted, [i])
        T.buffer_store(position, const(0), [const(0)])
    # The words of a state are an even number, so that both words of a number are there.
    high, low = (_tempered(T.bind(state[position[0] + k])) for k in (0, 1))
    upper = (high >> _u32(5)).astype("float64") * tirx.const(float(1 << 26), "float64")
    whole = upper + (low >> _u32(6)).astype("float64")
    T.buffer_store(number, whole / tirx.const(float(1 << 53), "float64"), [const(0)])
    T.buffer_store(position, position[0] + 2, [const(0)])


def _tempered(word: tirx.Expr) -> tirx.Expr:
    word = T.bind(word ^ (word >> _u32(11)))
    word = T.bind(word ^ ((word << _u32(7)) & _u32(0x9D2C5680)))
    word = T.bind(word ^ ((word << _u32(15)) & _u32(0xEFC60000)))
    return T.bind(word ^ (word >> _u32(18)))


def _polar(state: tirx.Buffer, position: tirx.Buffer, number: tirx.Buffer, pair: tirx.Buffer) -> None:
    """Draw points of the square until one is in the circle; leave it in `pair`, with what makes it normal."""
    one, two = tirx.const(1.0, "float64"), tirx.const(2.0, "float64")
    T.buffer_store(pair, one, [const(2)])
    with T.While(tirx.any(pair[2] >= one, pair[2] == tirx.const(0.0, "float64"))):
        for k in (0, 1):
            _draw(state, position, number)
            T.buffer_store(pair, number[0] * two - one, [const(k)])
        T.buffer_store(pair, pair[0] * pair[0] + pair[1] * pair[1], [const(2)])
    square = T.bind(pair[2])
    T.buffer_store(pair, tirx.sqrt(tirx.const(-2.0, "float64") * tirx.log(square) / square), [const(2)])
