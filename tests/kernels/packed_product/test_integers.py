"""Products of integers of 8 bits: every kernel gives exactly the sums of int32."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from tests.kernels.packed_product.products import convolved, packed_product
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.kernels import builder
from vmkit.kernels.packed_product.encodings import weight_from_json, weight_to_json
from vmkit.kernels.packed_product.integer_loops import IntegerProduct
from vmkit.kernels.packed_product.integer_plan import IntegerPlan
from vmkit.kernels.packed_product.integers import INTEGERS, IntegerGroups, integers_of
from vmkit.kernels.packed_product.loops import Finish, Row
from vmkit.kernels.packed_product.shape import ProductShape
from vmkit.kernels.packed_product.weight import PackedWeight
from vmkit.relay.ir import post_order
from vmkit.relay.op.registry import entry
from vmkit.target import canonical_target, llvm
from vmkit.target.integer_unit import IntegerUnit, integer_unit
from vmkit.target.matrix_unit import is_permitted

X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu"
# For each instruction a cpu that has it and no better one; the features that this machine needs.
TARGETS = {
    "tiles": (f"{X86}=sapphirerapids", ("amx-int8", "avx512vnni")),
    "vectors of 512 bits": (f"{X86}=rocketlake", ("avx512vnni",)),
    "vectors of 512 bits, bytes in order": (f"{X86}=cascadelake", ("avx512vnni",)),
    "vectors of 256 bits": (f"{X86}=alderlake", ("avxvnni",)),
    "int16 of 512 bits": (f"{X86}=skylake-avx512", ("avx512bw",)),
    "int16 of 256 bits": (f"{X86}=haswell", ("avx2",)),
}


def target_of(name: str) -> str:
    """Return a target with some instructions that runs on this machine, or skip the test."""
    text, features = TARGETS[name]
    config = canonical_target(text).primary
    lacking = [feature for feature in features if not llvm.host_features().get(feature)]
    if name == "tiles" and (lacking or not is_permitted()):
        pytest.skip("this machine has no matrix unit (AMX) that it may use; test_tiles.py emulates one")
    if lacking:
        pytest.skip(f"this machine has no {' and no '.join(lacking)}; the other instructions' tests run")
    missing = llvm.missing_on_host(str(config.attrs["mtriple"]), str(config.attrs["mcpu"]), ())
    return f"{text} -mattr={','.join(f'-{feature}' for feature in missing)}" if missing else text


def integers(*shape: int, dtype: str = "uint8") -> np.ndarray:
    """Return integers of the whole range of a type, its ends among the first and the last."""
    info = np.iinfo(dtype)
    values = np.random.default_rng(sum(shape)).integers(info.min, info.max + 1, shape).astype(dtype)
    flat = values.reshape(-1)
    flat[: flat.size // 4] = info.max
    flat[flat.size - flat.size // 4 :] = info.min
    return values


def product(data: relay.Expr, weight: np.ndarray, target: str, filler: int = 0, **attrs: Any) -> relay.Call:
    """Return a call of the operator with a weight packed for the instructions of a target."""
    unit = integer_unit(canonical_target(target).primary)
    assert unit is not None
    return packed_product(data, weight, integers_of(unit, len(weight)).name, filler, **attrs)


def compiled(data: Any, out: Any, target: str) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(relay.Function([data], out), target=target))


def test_units_are_known_by_their_features() -> None:
    found = {name: integer_unit(canonical_target(text).primary) for name, (text, _) in TARGETS.items()}
    sizes = {name: (unit.lanes, unit.group, unit.has_tiles) for name, unit in found.items() if unit is not None}
    assert sizes == {
        "tiles": (16, 4, True),
        "vectors of 512 bits": (16, 4, False),
        "vectors of 512 bits, bytes in order": (16, 4, False),
        "vectors of 256 bits": (8, 4, False),
        "int16 of 512 bits": (16, 2, False),
        "int16 of 256 bits": (8, 2, False),
    }
    assert integer_unit(canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64").primary) is None
    assert integer_unit(canonical_target("llvm -mtriple=aarch64-linux-gnu").primary) is None


@pytest.mark.parametrize("encoding", INTEGERS, ids=lambda encoding: encoding.name)
def test_packed_weight_holds_every_element_once(encoding: IntegerGroups) -> None:
    for window in ((1, 1), (3, 2)):
        for dilation in ((1, 1), (2, 3)):
            packing = PackedWeight(ProductShape(6, 40, window, dilation=dilation), encoding)
            weight = integers(40, *window, 6, dtype="int8")
            packed, (unit, row, column, channel) = packing.pack(weight), np.indices(weight.shape)
            index = encoding.index(packing, row, column, channel, unit)
            at = tuple(np.broadcast_to(i, weight.shape) for i in index)
            assert packed.shape == packing.shape and packed.dtype == encoding.weight
            np.testing.assert_array_equal(packed[at], weight)
            assert np.count_nonzero(packed) == np.count_nonzero(weight)
            assert weight_from_json(weight_to_json(packing)) == packing


def test_operator_says_what_an_encoding_takes() -> None:
    operator, data = entry("nn.contrib_packed_product"), relay.var("x", shape=(2, 4), dtype="uint8")
    weight = relay.const(np.zeros((1, 1, 1, 32, 4), "int8"))
    sizes = {"channels": 4, "units": 5}
    for values, args, said in (
        ({"encoding": "int9", **sizes}, (data, weight), "there is no encoding 'int9'; did you mean"),
        ({"encoding": "int8", **sizes}, (data, weight), "int8 takes 1 filler, not 0"),
        ({"encoding": "int16", **sizes}, (data, weight), "data must be uint8 and weight int16, not uint8 and int8"),
    ):
        function = relay.Function([data], operator.call(*args, **values))
        with pytest.raises(TypeCheckError, match=said):
            relay.transform.InferType()(tvm.IRModule({"main": function}))


@pytest.mark.parametrize("name", TARGETS)
def test_dense_of_any_rows_is_exact(name: str) -> None:
    target = target_of(name)
    for inner, units in ((128, 64), (101, 37), (64, 16), (30, 3)):
        weight = integers(units, inner, dtype="int8")
        for rows in (relay.Any(), 7, 33):
            data = relay.var("x", shape=(rows, inner), dtype="uint8")
            machine = compiled(data, relay.cast(product(data, weight[:, None, :], target), "float64"), target)
            for count in (0, 1, 3, 13, 16, 31, 33, 300) if not isinstance(rows, int) else (rows,):
                x = integers(count, inner)
                got = machine.run(x).numpy()
                np.testing.assert_array_equal(got, x.astype("int64") @ weight.astype("int64").T)


CONVOLUTIONS = {
    "blocks and channels that are not full": ((2, 7, 11, 40), 50, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "unlike strides": ((1, 13, 14, 32), 16, (3, 2), (2, 3), (1, 0, 0, 1), (1, 1)),
    "dilation and strides": ((2, 15, 16, 32), 32, (3, 3), (2, 2), (2, 2, 2, 2), (3, 2)),
    "few channels": ((2, 21, 22, 3), 24, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1)),
    "pointwise": ((2, 5, 7, 96), 80, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "pointwise, positions and units in whole groups": ((2, 7, 8, 32), 64, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "pointwise, few units": ((1, 7, 8, 24), 20, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "rows in whole groups": ((2, 5, 14, 8), 32, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "pointwise, strides": ((2, 6, 7, 64), 64, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1)),
    "larger than the cache": ((1, 50, 130, 64), 16, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "nothing around": ((2, 9, 10, 8), 40, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)),
    "nothing around, short rows": ((2, 9, 5, 8), 40, (3, 2), (1, 1), (0, 0, 0, 0), (1, 1)),
    "nothing around, larger than the cache": ((2, 70, 61, 128), 16, (2, 3), (2, 2), (0, 0, 0, 0), (1, 1)),
    "nothing before, zeros behind": ((2, 9, 10, 8), 16, (3, 3), (1, 1), (0, 0, 1, 1), (1, 1)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("is_dynamic", "cores"), [(False, 1), (True, 1), (False, 2)], ids=["static", "dynamic", "two cores"]
)
def test_convolution_is_exact(name: str, is_dynamic: bool, cores: int) -> None:
    target, calls, data, wanted = f"{target_of(name)} -num-cores={cores}", [], [], []
    for shape, units, kernel, strides, padding, dilation in CONVOLUTIONS.values():
        x, w = integers(*shape), integers(units, *kernel, shape[-1], dtype="int8")
        sizes = (relay.Any(), relay.Any(), relay.Any(), shape[-1]) if is_dynamic else shape
        data.append((relay.var(f"x{len(data)}", shape=sizes, dtype="uint8"), x))
        attrs = {"kernel_size": kernel, "strides": strides, "padding": padding, "dilation": dilation}
        calls.append(relay.cast(product(data[-1][0], w, target, 77, **attrs), "float64"))
        wanted.append(convolved(x, w, strides, padding, dilation, 77))
    function = relay.Function([v for v, _ in data], relay.Tuple(calls))
    machine = vmkit.VirtualMachine(vmkit.compile(function, target=target))
    for case, got, want in zip(CONVOLUTIONS, machine.run(*(x for _, x in data)), wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), want, err_msg=case)


def plan_of(units: int, data: tuple[int, ...], cores: int, kernel: tuple[int, int] = (1, 1)) -> IntegerPlan:
    """Return the plan of a convolution of images with nothing lost at their borders."""
    unit = IntegerUnit(16, 4, 32)
    shape = ProductShape(data[-1], units, kernel, padding=(kernel[0] // 2, kernel[1] // 2))
    with builder.kernel():
        plan = IntegerPlan.of(PackedWeight(shape, integers_of(unit)), data, (*data[:-1], units), unit, cores)
        builder.T.evaluate(0)
    return plan


@pytest.mark.parametrize(
    ("units", "data", "cores", "kernel", "rows"),
    [
        (96, (1, 112, 112, 16), 2, (1, 1), 112 * 56),
        (64, (1, 56, 56, 64), 2, (3, 3), 28),
        (32, (1, 160, 160, 64), 2, (3, 3), 20),  # as many as fit in the cache, a divisor of a core's
        (96, (1, 112, 112, 16), 1, (1, 1), None),
        (96, (1, 112, 112, 16), 1000, (1, 1), None),  # a core would have few positions
        (64, (1, 55, 56, 64), 2, (3, 3), None),  # one core would have more rows than the other
        (512, (1, 7, 7, 512), 2, (3, 3), None),  # more weights than data
        (64, (8, 7, 7, 64), 2, (3, 3), 7),  # whole images
        (64, (8, 7, 7, 64), 3, (3, 3), None),
        (64, (3136, 64), 2, (1, 1), None),  # no images
    ],
)
def test_cores_take_rows_of_their_own_where_there_is_more_data_than_weights(
    units: int, data: tuple[int, ...], cores: int, kernel: tuple[int, int], rows: int | None
) -> None:
    plan = plan_of(units, data, cores, kernel)
    assert plan.is_over_chunks is (rows is not None)
    if rows is not None:
        assert plan.rows_at_once == rows


def fetched(channels: int, units: int, rows: int, unit: IntegerUnit, has_residual: bool = False, how: int = 0) -> int:
    """Return how many places a dense layer fetches to the nearest cache before it reads, or writes, what is there."""
    window = PackedWeight(ProductShape(channels, units), integers_of(unit))
    with builder.kernel() as made:
        buffers = [(rows, channels), window.shape, (rows, units)]
        data, weight, residual = (
            builder.T.alloc_buffer(shape, dtype)
            for shape, dtype in zip(buffers, ("uint8", "int8", "int8"), strict=True)
        )

        def write(row: Row) -> None:
            with builder.T.vectorized(row.lanes) as lane:
                builder.T.buffer_store(residual, row.sums(lane).astype("int8"), [*row.index, row.first + lane])

        finish = Finish(write, [residual] if has_residual else [], [residual] if how else [])
        shape = [builder.integer(rows), builder.integer(units)]
        IntegerProduct(window, data, weight, shape, unit, None).emit(finish)
    return len(re.findall(rf"llvm\.prefetch.*, {how}, 3, 1\)", made.get().script()))


def test_data_of_the_next_positions_are_fetched_where_they_fit() -> None:
    unit = IntegerUnit(16, 4, 32)
    assert fetched(256, 64, 700, unit) == 14  # one for each position of a tile
    assert fetched(2048, 64, 112, unit) == 0  # no room in the nearest cache
    assert fetched(256, 64, 140, unit) == 0  # so few stay in the core's own cache
    assert fetched(256, 64, 700, IntegerUnit(8, 4, 16)) == 0  # as many streams as the machine foresees


def test_a_residual_is_fetched_while_sums_are_made() -> None:
    assert fetched(2048, 64, 112, IntegerUnit(16, 4, 32), has_residual=True) == 1  # in a loop over positions
    assert fetched(64, 64, 140, IntegerUnit(8, 4, 16), has_residual=True) == 1
    assert fetched(2048, 64, 112, IntegerUnit(16, 4, 32), how=1) == 1  # what is written, too


@pytest.mark.parametrize("name", TARGETS)
def test_operator_needs_no_unit(name: str) -> None:
    packed_for, (shape, units, kernel, strides, padding, dilation) = TARGETS[name][0], CONVOLUTIONS["few channels"]
    data, x = relay.var("x", shape=shape, dtype="uint8"), integers(*shape)
    w = integers(units, *kernel, shape[-1], dtype="int8")
    attrs = {"kernel_size": kernel, "strides": strides, "padding": padding, "dilation": dilation}
    got = compiled(data, product(data, w, packed_for, 77, **attrs), "llvm").run(x).numpy()
    np.testing.assert_array_equal(got, convolved(x, w, strides, padding, dilation, 77))


@pytest.mark.parametrize("name", TARGETS)
def test_words_are_exact_over_one_axis(name: str) -> None:
    target, x, w = target_of(name), integers(2, 19, 24), integers(40, 1, 3, 24, dtype="int8")
    data = relay.var("x", shape=x.shape, dtype="uint8")
    attrs = {"kernel_size": [3], "strides": [1], "padding": [1, 1], "dilation": [1]}
    got = compiled(data, product(data, w, target, 9, **attrs), target).run(x).numpy()
    np.testing.assert_array_equal(got, convolved(x[:, None], w, (1, 1), (0, 1, 0, 1), (1, 1), 9)[:, 0])


ZEROS = {"none": (0, 0), "of the data": (200, 0), "of both": (3, 131), "of the weight, far off": (0, 255)}


@pytest.mark.parametrize("dtypes", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8")])
def test_quantised_operators_are_exact_with_zero_points(dtypes: tuple[str, str]) -> None:
    target, (x_dtype, w_dtype) = target_of("vectors of 512 bits"), dtypes
    x, w = integers(9, 100, dtype=x_dtype), integers(48, 100, dtype=w_dtype)
    image, filters = integers(1, 16, 8, 9, dtype=x_dtype), integers(32, 16, 3, 3, dtype=w_dtype)
    matrix, picture = (
        relay.var("x", shape=(relay.Any(), 100), dtype=x_dtype),
        relay.var("y", shape=image.shape, dtype=x_dtype),
    )
    results, wanted = [], []
    for x_zero, w_zero in ZEROS.values():
        zeros = [
            relay.const(np.int32(z - 128 if dtype == "int8" else z))
            for z, dtype in ((x_zero, x_dtype), (w_zero, w_dtype))
        ]
        a, b = (int(z.data.numpy()) for z in zeros)
        one = relay.const(np.float32(1))
        results.append(relay.qnn.op.dense(matrix, relay.const(w), *zeros, one, one, units=48))
        wanted.append((x.astype("int64") - a) @ (w.astype("int64") - b).T)
        window = {"kernel_size": (3, 3), "channels": 32, "padding": (1, 1)}
        results.append(relay.qnn.op.conv2d(picture, relay.const(filters), *zeros, one, one, **window))
        moved = image.astype("int64").transpose(0, 2, 3, 1) - a, filters.astype("int64").transpose(0, 2, 3, 1) - b
        wanted.append(convolved(*moved, (1, 1), (1, 1, 1, 1), (1, 1), 0).transpose(0, 3, 1, 2))
    function = relay.Function([matrix, picture], relay.Tuple(results))
    optimized, _ = vmkit.VMCompiler().optimize(tvm.IRModule({"main": function}), target)
    calls = [node for node in post_order(optimized["main"]) if isinstance(getattr(node, "op", None), tvm.ir.Op)]
    names = [node.op.name for node in calls]
    assert names.count("nn.contrib_packed_product") >= len(results)
    assert "nn.dense" not in names
    # The data are summed over windows where a weight is a number more than int8.
    assert all(node.attrs.channels == 1 for node in calls if node.op.name == "nn.conv2d")
    machine = vmkit.VirtualMachine(vmkit.compile(function, target=target))
    for got, want in zip(machine.run(x, image), wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
