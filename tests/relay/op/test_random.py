"""Random operators give Relay's numbers: against the generator written out in Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import TypeCheckError, VMError
from vmkit.relay import random, var

MASK = (1 << 64) - 1
ROTATIONS = [(14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)]


def enciphered(key: list[int], words: list[int]) -> list[int]:
    """Threefry-4x64-20 as Relay has it: a mix adds its second word twice, and no key follows the last round."""
    schedule = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ 0x1BD11BDAA9FC1A22]
    x = list(words)
    for turn in range(20):
        if turn % 4 == 0:
            s = turn // 4
            x = [(x[j] + schedule[(s + j) % 5] + (s if j == 3 else 0)) & MASK for j in range(4)]
        for pair, r in zip((0, 2), ROTATIONS[turn % 8], strict=True):
            total, other = (x[pair] + x[pair + 1]) & MASK, x[pair + 1]
            x[pair], x[pair + 1] = total, ((total + other) & MASK) ^ ((other << r | other >> (64 - r)) & MASK)
        x = [x[0], x[3], x[2], x[1]]
    return x


def generated(key: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The next key and `count` words."""
    k = [int(v) for v in key]
    if k[7] >= MASK - count:
        bit = k[8] << 64 | k[9]
        if bit == 0:
            k = [*enciphered(k[:4], [MASK] * 4), 0, 0, 0, 0, 1 << 63, 0]
        else:
            k = [*k[:4], k[4] | k[8], k[5] | k[9], 0, 0, bit >> 65, bit >> 1 & MASK]
    words = [w for i in range(count // 4) for w in enciphered(k[:4], [(c + i) & MASK for c in k[4:8]])]
    k[7] += count // 4 * 4
    if count % 4:
        words += enciphered(k[:4], k[4:8])[: count % 4]
        k[7] = k[7] + 4 & MASK
    k[6] = 0
    return np.array(k, "uint64"), np.array(words, "uint64")


def split(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = [int(v) for v in key]
    bit = k[8] << 64 | k[9]
    if bit == 0:
        fresh = enciphered(k[:4], k[4:8])
        keys = [[*fresh, path, 0, 0, 0, 1 << 62, 0] for path in (0, 1 << 63)]
    else:
        after = [bit >> 65, bit >> 1 & MASK]
        keys = [[*k[:8], *after], [*k[:4], k[4] | k[8], k[5] | k[9], *k[6:8], *after]]
    return np.array(keys[0], "uint64"), np.array(keys[1], "uint64")


def key_of(seed: int) -> np.ndarray:
    return random.threefry_key(seed).data.numpy()


def unit(words: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "float32":
        return ((words & np.uint64(0xFFFFFFFF)) >> np.uint64(9)).astype(dtype) / np.float32(1 << 23)
    return (words >> np.uint64(12)).astype(dtype) / float(1 << 52)


def test_first_words_are_those_that_relay_recorded() -> None:
    key, words = compiled([], random.threefry_generate(random.threefry_key(1), (12,)))()
    assert key.tolist() == [1, 0, 0, 0, 0, 0, 0, 12, 1 << 63, 0]
    assert words[:3].tolist() == [17177944308465414780, 3733049263667422849, 17198659010121151173]
    assert words[-1] == 16600826032826174324


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 4), (0, 5)])
def test_generated_words_and_the_next_key_agree_with_the_reference(shape: tuple[int, ...]) -> None:
    key = var("key", shape=(10,), dtype="uint64")
    run = compiled([key], random.threefry_generate(key, shape))
    full, half = key_of(3), key_of(5)
    full[4:8], full[8:] = [1, 2, 0, MASK - 2], 0  # no room in the counter, nor in the path
    half[4:8], half[8:] = [1 << 63, 0, 0, MASK - 1], [1, 0]  # the path goes over into its second word
    later = key_of((1 << 200) + 12345)
    later[6:8] = [9, 1000]
    for start in (key_of(0), later, full, half):
        expected, words = generated(start, int(np.prod(shape)))
        state, numbers = run(start)
        assert_same((state, numbers), (expected, words.reshape(shape)))


def test_splits_agree_with_the_reference_also_where_the_path_is_full() -> None:
    key = var("key", shape=(relay.Any(),), dtype="uint64")
    run = compiled([key], random.threefry_split(key))
    state = key_of(1)
    for turn in range(140):
        expected = split(state)
        assert_same(run(state), expected)
        state = expected[turn % 3 != 0]
    with pytest.raises(VMError, match=r"random.threefry_split: a key has 10 words, this one has 9"):
        run(state[:9])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_and_normal_numbers_are_made_of_the_words(dtype: str) -> None:
    key = random.threefry_key(7)
    low = var("low", shape=(), dtype=dtype)
    run = compiled(
        [low],
        relay.TupleGetItem(random.uniform(key, (3, 5), dtype, low=low, high=4.0), 1),
        random.uniform(key, (8,), dtype),
        relay.TupleGetItem(random.normal(key, (2, 3), dtype, mean=low, scale=2.0), 1),
    )
    given = np.array(-1.5, dtype)
    shifted, (state, standard), normal = run(given)
    numbers = unit(generated(key_of(7), 15)[1], dtype)
    np.testing.assert_array_equal(shifted, (numbers * (np.array(4, dtype) - given) + given).reshape(3, 5))
    expected, words = generated(key_of(7), 8)
    assert_same((state, standard), (expected, unit(words, dtype)), rtol=0, atol=0)
    one, two = np.split(unit(generated(key_of(7), 12)[1], dtype), 2)
    deviates = np.sqrt(-2 * np.log(1 - one)) * np.sin(2 * np.pi * two) * 2 + given
    assert_same(normal, deviates.reshape(2, 3).astype(dtype))


def drawn(key: np.ndarray, probs: np.ndarray, samples: int) -> np.ndarray:
    weights = np.maximum(probs, 0)
    sums = np.cumsum(weights / weights.sum(-1, keepdims=True), -1)
    numbers = unit(generated(key, int(np.prod(probs.shape[:-1])) * samples)[1], "float32")
    numbers = numbers.reshape(*probs.shape[:-1], samples)
    return (numbers[..., None] >= sums[..., None, :]).sum(-1).astype("int32")


def test_multinomial_draws_by_cumulative_probability(dim: Any) -> None:
    key = var("key", shape=(10,), dtype="uint64")
    probs = var("probs", shape=(dim(2), dim(3), dim(4)), dtype="float64")
    run = compiled([key, probs], random.multinomial(key, probs, num_samples=5))
    shapes = [(2, 3, 4)] if isinstance(probs.type_annotation.shape[0], int) else [(2, 3, 4), (1, 1, 1), (3, 7, 2)]
    for shape in shapes:
        weights = np.random.default_rng(0).normal(0.5, size=shape)
        weights[..., -1] = np.abs(weights[..., -1])
        state, positions = run(key_of(11), weights)
        assert_same(positions, drawn(key_of(11), weights, 5))
        assert_same(state, generated(key_of(11), shape[0] * shape[1] * 5)[0])


def test_what_has_no_probability_is_not_drawn() -> None:
    key, probs = random.threefry_key(2), np.array([[0, 3, -1, 0], [0, 0, 0, 0]], "float32")
    positions = compiled([], random.multinomial(key, relay.const(probs), 64))()[1]
    assert_same(positions, np.array([[1] * 64, [0] * 64], "int32"))


def test_nothing_to_draw_from_is_an_error_when_run() -> None:
    key, probs = var("key", shape=(10,), dtype="uint64"), var("probs", shape=(2, relay.Any()))
    run = compiled([key, probs], random.multinomial(key, probs, 2))
    with pytest.raises(VMError, match=r"the last dimension of probs is 0: nothing to draw from"):
        run(key_of(0), np.zeros((2, 0), "float32"))


def test_keys_without_annotation_get_their_type() -> None:
    key, low = var("key"), var("low")
    relay.transform.infer_expr(relay.Function([key, low], random.uniform(key, (3,), "float64", low, 2.0)))
    assert (str(key.checked_type), str(low.checked_type)) == ("Tensor[(10), uint64]", "float64")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: random.threefry_generate(relay.const(np.ones(9, "uint64")), (12,)),
            "key must be Tensor[(10), uint64], not Tensor[(9), uint64]; relay.random.threefry_key makes one",
        ),
        (
            lambda: random.threefry_split(relay.const(np.ones(10, "int64"))),
            "key must be Tensor[(10), uint64], not Tensor[(10), int64]; relay.random.threefry_key makes one",
        ),
        (
            lambda: random.threefry_generate(random.threefry_key(0), (2, -1)),
            "out_shape [2, -1] has a negative dimension",
        ),
        (
            lambda: random.uniform(random.threefry_key(0), (2,), "float16"),
            "random numbers are float32 or float64, not float16",
        ),
        (
            lambda: random.normal(random.threefry_key(0), (2,), mean=relay.const([1.0])),
            "mean must be a scalar of float32, not Tensor[(1), float32]",
        ),
        (
            lambda: random.multinomial(random.threefry_key(0), relay.const([1, 2])),
            "probs must be a tensor of floats with a last dimension to draw from, not Tensor[(2), int32]",
        ),
    ],
)
def test_wrong_arguments_say_what_is_wrong(build: Any, message: str) -> None:
    assert type_error([], build()) == message


def test_a_seed_is_a_number_of_256_bits() -> None:
    with pytest.raises(TypeCheckError, match=r"a seed is an integer from 0 to 2\*\*256 - 1, not -1"):
        random.threefry_key(-1)
