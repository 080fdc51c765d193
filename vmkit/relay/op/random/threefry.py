"""The Threefry generator: keys, random bits, and keys made of a key.

A key is ten words of 64 bits:

====== ==============================================================================
0 to 3 the key of the cipher
4, 5   the path: one bit for each split that led here, 1 for the right one
6, 7   the counter; only the last word counts
8, 9   one bit, where the next split goes into the path; none when the path is full
====== ==============================================================================

The i-th block of four random words is words 4 to 7, each plus i, enciphered under words 0 to 3.

The cipher is Threefry-4x64-20 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), with two
differences that make the numbers Relay's: each mix adds its second word once more, and there is no key after the last
round. Splitting follows Claessen and Pałka, "Splittable pseudorandom number generators using cryptographic hashing"
(Haskell 2013).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.expr import Constant
from ...ir.expr import const as relay_const
from ...ir.types import Dim, IncompleteType, TensorType, TupleType, Type
from ..attrs import Attrs, Ints, attrs_node
from ..elementwise import require_tensor
from ..kernel import Result, const, grid, loops
from ..registry import OpPattern, Parameters, operator
from ..shape import reshape_value

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__ = ["infer_key", "key_type", "random_words", "require_key", "require_shape", "threefry_key"]

_KEY_WORDS = 10
_ROUNDS = 20
_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_PARITY = 0x1BD11BDAA9FC1A22
_ALL_ONES = (1 << 64) - 1
_FIRST_BIT = 1 << 63


def threefry_key(seed: int) -> Constant:
    """Return the key of a seed.

    Parameters
    ----------
    seed : int
        From 0 to 2**256 - 1.

    Raises
    ------
    TypeCheckError
        If the seed is no such number.

    Examples
    --------
    >>> from vmkit import relay
    >>> relay.random.threefry_key(1).data.numpy().tolist()
    [1, 0, 0, 0, 0, 0, 0, 0, 9223372036854775808, 0]
    """
    if not hasattr(seed, "__index__") or not 0 <= int(seed) < 1 << 256:
        raise TypeCheckError(f"a seed is an integer from 0 to 2**256 - 1, not {seed!r}")
    words = [int(seed) >> (64 * k) & _ALL_ONES for k in range(4)]
    return relay_const([*words, 0, 0, 0, 0, _FIRST_BIT, 0], "uint64")


def key_type() -> TensorType:
    """Return the type of a key."""
    return TensorType([_KEY_WORDS], "uint64")


def infer_key(attrs: Attrs | None, key: Type, *others: Type) -> dict[int, Type]:
    """Say that a first input of unknown type is a key."""
    return {0: key_type()} if isinstance(key, IncompleteType) else {}


def require_key(key: Type) -> None:
    """Check that a type can be that of a key; TypeCheckError otherwise."""
    given = require_tensor(key, "key")
    if given.dtype != "uint64" or len(given.shape) != 1 or dims.equal(given.shape[0], _KEY_WORDS) is False:
        raise TypeCheckError(f"key must be {key_type()}, not {given}; relay.random.threefry_key makes one")


def require_shape(shape: Sequence[int]) -> list[int]:
    """Return the shape of random numbers; TypeCheckError where a dimension is negative."""
    if any(d < 0 for d in shape):
        raise TypeCheckError(f"out_shape {list(shape)} has a negative dimension")
    return list(shape)


def random_words(context: LowerContext, key: relax.Expr, count: Dim) -> tuple[relax.Expr, relax.Expr]:
    """Return the next key and a vector of `count` random words."""
    _require_length(context, key)
    whole, rest = dims.floordiv(count, 4), dims.sub(count, dims.mul(dims.floordiv(count, 4), 4))

    def body(outputs: list[tirx.Buffer], key: tirx.Buffer, sizes: list[tirx.Expr]) -> None:
        state, words, block = outputs
        count, whole, rest = sizes
        old = _words(key, range(_KEY_WORDS))
        # The counter's complement is how far it can go; 0.14 keeps one value free.
        with T.If(tirx.bitwise_not(old[7]) > dims.as_expr(count).astype("uint64")):
            with T.Then():
                _store(state, old)
            with T.Else():
                _restart(state, old, block)
        cipher, counter = _words(state, range(4)), _words(state, range(4, 8))
        with grid([whole]) as (i,):
            for j, word in enumerate(_encipher(block, cipher, [_sum(w, i.astype("uint64")) for w in counter])):
                T.buffer_store(words, word, [i * 4 + j])
        # The words that make no whole block come from one with only the last word advanced.
        done = T.Bind(_sum(counter[3], (dims.as_expr(whole) * 4).astype("uint64")))
        with _when(rest, 0):
            last = _encipher(block, cipher, [*counter[:3], done])
            for j in range(3):
                with _when(rest, j):
                    T.buffer_store(words, last[j], [dims.as_expr(whole) * 4 + j])
        T.buffer_store(state, _uint(0), [const(6)])
        T.buffer_store(state, done, [const(7)])
        with _when(rest, 0):
            T.buffer_store(state, _sum(done, _uint(4)), [const(7)])

    results: list[Result] = [([_KEY_WORDS], "uint64"), ([count], "uint64"), ([4], "uint64")]
    state, words, _ = loops(context, results, body, key, [count, whole, rest])
    return state, words


def _require_length(context: LowerContext, key: relax.Expr) -> None:
    (length,) = context.shape(key)
    context.require_equal(
        length, _KEY_WORDS, f"{context.operator}: a key has {{expected}} words, this one has {{actual}}"
    )


@contextmanager
def _when(count: tirx.Expr | int, least: int) -> Iterator[None]:
    """Write statements that run where a number of words is greater than `least`."""
    with T.If(dims.as_expr(count) > const(least)), T.Then():
        yield


def _uint(value: int) -> tirx.Expr:
    return tirx.const(value, "uint64")


def _sum(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Return the sum of two words modulo 2**64.

    TVM lets LLVM assume that a sum of unsigned integers does not wrap, so the highest bit is added by itself.
    """
    highest, others = _uint(_FIRST_BIT), _uint(_FIRST_BIT - 1)
    return ((a & others) + (b & others)) ^ ((a ^ b) & highest)


def _words(buffer: tirx.Buffer, positions: Sequence[int]) -> list[tirx.Expr]:
    return [T.Bind(buffer[const(k)]) for k in positions]


def _store(state: tirx.Buffer, words: Sequence[tirx.Expr]) -> None:
    for k, word in enumerate(words):
        T.buffer_store(state, word, [const(k)])


def _encipher(block: tirx.Buffer, key: Sequence[tirx.Expr], words: Sequence[tirx.Expr]) -> list[tirx.Expr]:
    """Write statements that leave four words, enciphered, in the buffer `block`; return them in order."""
    schedule = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ _uint(_PARITY)]
    _store(block, words)
    # The rounds exchange two words; here their places do.
    a, b, c, d = (const(k) for k in range(4))
    for turn in range(_ROUNDS):
        if turn % 4 == 0:
            added = [schedule[(turn // 4 + j) % 5] for j in range(4)]
            added[3] = _sum(added[3], _uint(turn // 4))
            for at, word in zip((a, b, c, d), added, strict=True):
                T.buffer_store(block, _sum(block[at], word), [at])
        left, right = _ROTATIONS[turn % 8]
        _mix(block, a, b, left)
        _mix(block, c, d, right)
        b, d = d, b
    return [block[at] for at in (a, b, c, d)]


def _mix(block: tirx.Buffer, first: tirx.Expr, second: tirx.Expr, rotation: int) -> None:
    T.buffer_store(block, _sum(block[first], block[second]), [first])
    rotated = (block[second] << _uint(rotation)) | (block[second] >> _uint(64 - rotation))
    # In the paper the sum alone is joined with the rotated word; Relay adds the word a second time.
    T.buffer_store(block, _sum(block[first], block[second]) ^ rotated, [second])


def _restart(state: tirx.Buffer, old: Sequence[tirx.Expr], block: tirx.Buffer) -> None:
    """Write the key to go on with where the counter has no room: a longer path, or a new cipher key."""
    with T.If(_is_full(old)):
        with T.Then():
            fresh = _encipher(block, old[:4], [_uint(_ALL_ONES)] * 4)
            _store(state, [*fresh, *[_uint(0)] * 4, _uint(_FIRST_BIT), _uint(0)])
        with T.Else():
            path = [old[4] | old[8], old[5] | old[9]]
            _store(state, [*old[:4], *path, _uint(0), _uint(0), *_next_bit(old)])


def _is_full(words: Sequence[tirx.Expr]) -> tirx.Expr:
    """Return whether the path has no room for another bit."""
    return (words[8] | words[9]) == _uint(0)


def _next_bit(words: Sequence[tirx.Expr]) -> list[tirx.Expr]:
    """Return words 8 and 9 with their bit one place further right."""
    return [words[8] >> _uint(1), (words[9] >> _uint(1)) | (words[8] << _uint(63))]


@attrs_node("relay.attrs.ThreefryGenerateAttrs")
class ThreefryGenerateAttrs(Attrs):
    """Attributes of random.threefry_generate."""

    out_shape: Ints


@operator(
    "random.threefry_generate",
    "key",
    attrs=ThreefryGenerateAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
    parameters=Parameters("key shape", renamed={"shape": "out_shape"}),
)
class ThreefryGenerate:
    """The next key, and a tensor of random words (uint64)."""

    infer_inputs = staticmethod(infer_key)

    @staticmethod
    def relation(attrs: ThreefryGenerateAttrs, key: Type) -> Type:
        require_key(key)
        return TupleType([key_type(), TensorType(require_shape(attrs.out_shape), "uint64")])

    @staticmethod
    def lower(context: LowerContext, attrs: ThreefryGenerateAttrs, key: relax.Expr) -> tuple[relax.Expr, ...]:
        shape = list(attrs.out_shape)
        state, words = random_words(context, key, dims.product(shape))
        return state, reshape_value(context, words, shape)


@operator("random.threefry_split", "key", level=10, pattern=OpPattern.OPAQUE)
class ThreefrySplit:
    """Two keys, whose numbers are independent of each other; the given key is not to be used again."""

    infer_inputs = staticmethod(infer_key)

    @staticmethod
    def relation(attrs: None, key: Type) -> Type:
        require_key(key)
        return TupleType([key_type(), key_type()])

    @staticmethod
    def lower(context: LowerContext, attrs: None, key: relax.Expr) -> tuple[relax.Expr, ...]:
        _require_length(context, key)

        def body(outputs: list[tirx.Buffer], key: tirx.Buffer) -> None:
            left, right, block = outputs
            old = _words(key, range(_KEY_WORDS))
            with T.If(_is_full(old)):
                with T.Then():
                    fresh, zero = _encipher(block, old[:4], old[4:8]), _uint(0)
                    for state, path in ((left, zero), (right, _uint(_FIRST_BIT))):
                        _store(state, [*fresh, path, zero, zero, zero, _uint(_FIRST_BIT >> 1), zero])
                with T.Else():
                    bit = _next_bit(old)
                    _store(left, [*old[:8], *bit])
                    _store(right, [*old[:4], old[4] | old[8], old[5] | old[9], *old[6:8], *bit])

        key_words = ([_KEY_WORDS], "uint64")
        return loops(context, [key_words, key_words, ([4], "uint64")], body, key)[:2]
