"""Sums of pairs of products as int16: exact for every weight, where the instruction alone would saturate."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.kernels.packed_product.products import convolved, packed_product
from tests.kernels.packed_product.test_integers import CONVOLUTIONS, compiled, integers, target_of
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.kernels.packed_product.encodings import weight_from_json, weight_to_json
from vmkit.kernels.packed_product.pairs import PAIRS, IntegerPairs, pairs_of
from vmkit.kernels.packed_product.shape import ProductShape
from vmkit.kernels.packed_product.weight import PackedWeight
from vmkit.optimize.ops.packed_product import packed_weight
from vmkit.relay.op.registry import entry
from vmkit.target import canonical_target
from vmkit.target.integer_unit import integer_unit

TARGETS = ["int16 of 512 bits", "int16 of 256 bits"]


def some_large(*shape: int) -> np.ndarray:
    """Return weights of which a few pairs are too large, among them those of the ends of the range."""
    weight = np.clip(np.random.default_rng(1).normal(0, 30, shape).round(), -128, 127).astype("int8")
    flat = weight.reshape(-1)
    flat[:4], flat[-4:] = (127, 127, -128, -128), (127, 2, -1, -128)
    return weight


def encoding_of(target: str) -> str:
    unit = integer_unit(canonical_target(target).primary)
    assert unit is not None
    encoding = pairs_of(unit)
    assert encoding is not None
    return encoding.name


def test_units_of_one_instruction_need_no_pairs() -> None:
    for cpu in ("rocketlake", "alderlake", "sapphirerapids", "znver4"):
        unit = integer_unit(canonical_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}").primary)
        assert unit is not None and unit.in_pairs is None and pairs_of(unit) is None


@pytest.mark.sweep
@pytest.mark.parametrize("encoding", PAIRS, ids=lambda encoding: encoding.name)
@pytest.mark.parametrize("make", [some_large, lambda *shape: integers(*shape, dtype="int8")], ids=["few", "many"])
def test_pairs_of_a_packed_weight_are_within_limits(encoding: IntegerPairs, make: object) -> None:
    weight = make(40, 3, 2, 6)  # type: ignore[operator]
    plain = PackedWeight(ProductShape(6, 40, (3, 2)), encoding)
    packing = PackedWeight(plain.product, encoding, plain.extras_of(weight))
    assert packing.extras and weight_from_json(weight_to_json(packing)) == packing
    packed = packing.pack(weight)
    assert packed.shape == packing.shape
    flat, rows = packed.reshape(packing.blocks, -1), packing.groups + packing.extras
    groups = flat[:, : rows * packing.block * 4].reshape(packing.blocks, rows, packing.block, 4).astype("int64")
    pairs = groups.reshape(*groups.shape[:-1], 2, 2)
    assert (np.maximum(pairs, 0).sum(-1) * 255 <= 32767).all() and (np.minimum(pairs, 0).sum(-1) * 255 >= -32768).all()
    words = np.ascontiguousarray(flat[:, rows * packing.block * 4 :]).view("<i4")
    for block in groups, words:
        assert len(block) == packing.blocks
    for number, (of_block, listed) in enumerate(zip(groups, words, strict=True)):
        whole = of_block[: packing.groups]
        for extra, place in enumerate(listed[1 : listed[0] + 1]):
            whole[place // 4] += of_block[packing.groups + extra]
        units = whole.transpose(1, 0, 2).reshape(packing.block, 3, -1)[:, :, : packing.length]
        wanted = weight.reshape(40, 3, -1)[number * packing.block : (number + 1) * packing.block]
        np.testing.assert_array_equal(units[: len(wanted)], wanted)


@pytest.mark.sweep
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("make", [some_large, lambda *shape: integers(*shape, dtype="int8")], ids=["few", "many"])
def test_dense_of_any_rows_is_exact(name: str, make: object) -> None:
    target = target_of(name)
    for inner, units in ((128, 64), (101, 37)):
        weight = make(units, inner)  # type: ignore[operator]
        for rows in (relay.Any(), 7):
            data = relay.var("x", shape=(rows, inner), dtype="uint8")
            out = packed_product(data, weight[:, None, None, :], encoding_of(target), 0)
            machine = compiled(data, relay.cast(out, "float64"), target)
            for count in (0, 1, 3, 13, 33, 300) if not isinstance(rows, int) else (rows,):
                x = integers(count, inner)
                got = machine.run(x).numpy()
                np.testing.assert_array_equal(got, x.astype("int64") @ weight.astype("int64").T)


@pytest.mark.sweep
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_convolution_is_exact(name: str, is_dynamic: bool) -> None:
    target = target_of(name)
    for case, (shape, units, kernel, strides, padding, dilation) in CONVOLUTIONS.items():
        x, w = integers(*shape), some_large(units, *kernel, shape[-1])
        sizes = (relay.Any(), relay.Any(), relay.Any(), shape[-1]) if is_dynamic else shape
        data = relay.var("x", shape=sizes, dtype="uint8")
        attrs = {"kernel_size": kernel, "strides": strides, "padding": padding, "dilation": dilation}
        machine = compiled(data, packed_product(data, w, encoding_of(target), 77, **attrs), target)
        wanted = convolved(x, w, strides, padding, dilation, 77)
        np.testing.assert_array_equal(machine.run(x).numpy(), wanted, err_msg=case)


@pytest.mark.parametrize("name", [*TARGETS, "llvm"])
def test_what_a_weight_says_of_itself_reaches_nothing_else(name: str) -> None:
    """A weight is data: it may say that groups are there that are not, at places that are none."""
    target, weight = name if name == "llvm" else target_of(name), some_large(64, 1, 1, 128)
    encoding = "int8_pairs_narrow" if name == "llvm" else encoding_of(target)
    data = relay.var("x", shape=(3, 128), dtype="uint8")
    call = packed_product(data, weight, encoding, 0)
    layout = packed_weight(call.attrs)
    packed = call.args[1].data.numpy().reshape(layout.blocks, -1).copy()
    words = np.full((layout.blocks, layout.words), 1 << 30, "<i4")
    words[:, 0], words[:, 2::2] = (1 << 31) - 1, -(1 << 30)
    packed[:, -words.shape[1] * 4 :] = words.view("int8")
    given = relay.const(packed.reshape(layout.shape))
    said = relay.Call(call.op, [data, given, call.args[2]], call.attrs)
    result = compiled(data, said, target).run(integers(3, 128)).numpy()
    assert result.shape == (3, 64) and np.abs(result.astype("int64")).max() <= 128 * 2 * 255 * 128


@pytest.mark.parametrize("encoding", PAIRS, ids=lambda encoding: encoding.name)
def test_packing_takes_little_memory_beside_the_weight(encoding: IntegerPairs) -> None:
    weight = some_large(256, 3, 3, 256)
    shape = ProductShape.of_window(256, 256, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0))
    tracemalloc.start()
    try:
        extras = PackedWeight(shape, encoding).extras_of(weight)
        packed = PackedWeight(shape, encoding, extras).pack(weight)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The weight filled up, and what one block of outputs takes meanwhile.
    assert most < packed.nbytes + 2 * weight.nbytes


def test_groups_that_are_there_twice_are_of_pairs_alone() -> None:
    for encoding, extras in (("int8", 1), ("int16_narrow", 4), ("int8_pairs", -1)):
        operator = entry("nn.contrib_packed_product")
        with pytest.raises(TypeCheckError, match=f"extras is {extras}, expected 0"):
            packed_weight(operator.attrs(encoding=encoding, channels=128, units=64, extras=extras))


def test_operator_needs_no_unit() -> None:
    for case in ("few channels", "blocks and channels that are not full", "dilation and strides"):
        shape, units, kernel, strides, padding, dilation = CONVOLUTIONS[case]
        data, x = relay.var("x", shape=shape, dtype="uint8"), integers(*shape)
        w = some_large(units, *kernel, shape[-1])
        attrs = {"kernel_size": kernel, "strides": strides, "padding": padding, "dilation": dilation}
        got = compiled(data, packed_product(data, w, "int8_pairs_narrow", 77, **attrs), "llvm").run(x).numpy()
        np.testing.assert_array_equal(got, convolved(x, w, strides, padding, dilation, 77))
