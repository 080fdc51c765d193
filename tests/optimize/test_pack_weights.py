"""Packed weights: which blocks they get, and that the kernels over them compute the convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import s_tir

import vmkit
from tests.relay.op.onnx_reference import onnx_result
from tests.relay.programs import type_error
from vmkit import relay
from vmkit._tvm import tensor_view
from vmkit.compiler.relay_passes import PASSES
from vmkit.optimize import PackWeights
from vmkit.relay.ir.visit import post_order
from vmkit.relay.lower import lower_module
from vmkit.relay.transform import FoldConstant, InferType
from vmkit.relay.transform.evaluation import evaluate_now
from vmkit.schedule.cpu import dot, filled, schedule_kernels
from vmkit.target import canonical_target
from vmkit.values.halves import HALVES

TARGET = canonical_target("llvm").primary
ROWS = tvm.tirx.Var("rows", "int64")


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def convolution(shape: tuple[Any, ...], weight: np.ndarray, **options: Any) -> relay.Function:
    """Return a convolution with bias over data (n, channels, ...); the weight is that of ONNX."""
    x = relay.var("x", shape=shape)
    y = relay.nn.conv2d(x, relay.const(weight), **options)
    return relay.Function([x], relay.nn.relu(relay.nn.bias_add(y, relay.const(numbers(weight.shape[0])))))


def channels_last(inputs: int, outputs: int, groups: int) -> relay.Function:
    x, weight = relay.var("x", shape=(1, 5, 7, inputs)), relay.const(numbers(1, 1, inputs // groups, outputs))
    y = relay.nn.conv2d(x, weight, groups=groups, data_layout="NHWC", kernel_layout="HWIO")
    return relay.Function([x], relay.nn.relu(y))


def packed(function: relay.Function, lanes: int) -> tvm.IRModule:
    mod = tvm.IRModule({"main": function})
    for each in (InferType(), PackWeights(lanes), FoldConstant(), InferType()):
        mod = each(mod)
    return mod


def conv_of(mod: tvm.IRModule) -> Any:
    is_conv = (n for n in post_order(mod["main"]) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d")
    return next(is_conv)


@pytest.mark.parametrize(
    ("outputs", "groups", "layout", "first"),
    [
        (64, 1, "OHWI32o", 2),
        (48, 1, "OHWI16o", 3),
        (136, 4, "OHWI16o", 4 * 3),
        (1000, 1, "OHWI16o", 63),
        (24, 1, "OHWI16o", 2),
        (8, 1, "OHWI8o", 1),
        (12, 1, "OHWI16o", 1),
        (6, 1, "OHWI4o", 2),
        (3, 1, "OHWI", 3),
        (4, 2, "HWIO", 1),
    ],
)
def test_blocks_divide_the_channels_or_the_last_one_is_filled(
    outputs: int, groups: int, layout: str, first: int
) -> None:
    call = conv_of(packed(channels_last(8, outputs, groups), 16))
    assert (call.attrs.kernel_layout, int(call.args[1].checked_type.shape[0])) == (layout, first)
    assert int(call.checked_type.shape[3]) == outputs


def test_what_fills_a_block_is_zero() -> None:
    weight = conv_of(packed(channels_last(8, 20, 2), 8)).args[1].data.numpy()
    assert weight.shape == (2 * 2, 1, 1, 4, 8)
    assert (weight[1::2, ..., 2:] == 0).all() and (weight[1::2, ..., :2] != 0).all()


@pytest.mark.parametrize(("outputs", "groups"), [(34, 2), (58, 1), (10, 1), (6, 1)])
def test_the_rule_for_filled_blocks_applies(outputs: int, groups: int) -> None:
    lowered = lower_module(packed(channels_last(8, outputs, groups), 8), TARGET).module
    kernels = [f for f in lowered.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    convolutions = [f for f in kernels if "conv2d_nhwc" in f.script()]
    assert len(convolutions) == 1
    assert filled.RULE.decide(s_tir.Schedule(convolutions[0]), TARGET) is not None


def test_rows_go_by_all_filled_blocks_of_a_weight_that_is_in_the_cache() -> None:
    """A line of the result in which a block ends is written once, with what the next block begins with."""

    def order(inputs: int) -> list[int]:
        x, weight = relay.var("x", shape=(1000, inputs)), relay.const(numbers(300, inputs))
        lowered = lower_module(packed(relay.Function([x], relay.nn.dense(x, weight)), 16), TARGET).module
        (product,) = (f for f in lowered.functions.values() if isinstance(f, tvm.tirx.PrimFunc) and "dense" in str(f))
        scheduled = schedule_kernels(tvm.IRModule({"main": product}), TARGET)["main"]
        found: list[int] = []
        tvm_ffi.structural_walk(scheduled.body, (tvm.tirx.For, lambda loop: found.append(int(loop.extent))))
        return found[-2:]  # inner loops come first

    assert order(20)[0] == order(2000)[1] == 10  # 20 blocks, two at a time


@pytest.mark.parametrize("rows", [40, relay.Any()])
def test_where_the_units_end_is_tested_for_whole_lines(rows: Any) -> None:
    """Elements that are tested for one by one would not go in vectors."""
    lowered = lower_module(packed(dense(100, rows, 7), 8), TARGET).module
    (product,) = (f for f in lowered.functions.values() if isinstance(f, tvm.tirx.PrimFunc) and "dense" in str(f))
    made = schedule_kernels(tvm.IRModule({"main": product}), TARGET)["main"].script()
    assert "T.where(" not in made and "< T.int64(100):" in made


@pytest.mark.parametrize("shape", [(41, 20), (relay.Any(), 20), (relay.Any(), relay.Any(), 20)])
def test_dense_layers_of_filled_blocks_have_their_values(shape: tuple[Any, ...]) -> None:
    weight, x = numbers(300, 20), relay.var("x", shape=shape)
    layer = relay.nn.dense(x, relay.const(weight))
    function = relay.Function([x], relay.nn.relu(layer))
    for target in ("native", "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3"):
        machine = vmkit.VirtualMachine(vmkit.compile(function, target=target))
        for rows in (0, 1, 7, 16, 41, 100) if len(shape) == 2 and not isinstance(shape[0], int) else (41,):
            data = numbers(rows, 20) if len(shape) == 2 else numbers(3, rows, 20)
            data.reshape(-1)[:1], data.reshape(-1)[1:2] = np.inf, 1e30
            with np.errstate(all="ignore"):
                wanted = np.maximum(data @ weight.T, 0)
            np.testing.assert_allclose(machine.run(data).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_sums_of_few_output_channels_are_kept_in_vectors() -> None:
    lowered = lower_module(packed(channels_last(8, 3, 1), 8), TARGET).module
    (convolution,) = (f for f in lowered.functions.values() if isinstance(f, tvm.tirx.PrimFunc) and "conv2d" in str(f))
    decisions = dot.RULE.decide(s_tir.Schedule(convolution), TARGET)
    assert decisions is not None and decisions.outputs == 3


@pytest.mark.sweep
@pytest.mark.parametrize("size", ["known", "unknown"])
@pytest.mark.parametrize(
    ("inputs", "outputs", "groups", "kernel", "strides", "padding"),
    [
        (8, 34, 2, 1, (1, 1), (0, 0)),
        (8, 68, 4, 1, (1, 1), (0, 0)),
        (5, 58, 1, 3, (2, 1), (1, 2)),
        (3, 6, 1, 3, (1, 1), (1, 1)),
        (16, 136, 1, 1, (2, 2), (0, 0)),
        (24, 24, 24, 3, (1, 2), (1, 1)),
        (20, 20, 20, 5, (1, 1), (2, 2)),
        (24, 24, 3, 3, (1, 1), (1, 1)),
        (16, 3, 1, 3, (2, 1), (1, 2)),
        (24, 4, 2, 1, (1, 1), (0, 0)),
        (9, 2, 1, 3, (1, 1), (1, 1)),
    ],
)
def test_compiled_convolutions_agree_with_onnxruntime(
    inputs: int,
    outputs: int,
    groups: int,
    kernel: int,
    strides: tuple[int, int],
    padding: tuple[int, int],
    size: str,
) -> None:
    weight, bias = numbers(outputs, inputs // groups, kernel, kernel), numbers(outputs)
    shape: tuple[Any, ...] = (2, inputs, 11, 19)
    data = numbers(*(int(d) for d in shape))
    if size == "unknown":
        shape = (relay.Any(), inputs, relay.Any(), relay.Any())
    function = convolution(shape, weight, strides=strides, padding=padding, groups=groups)
    attrs = {"strides": list(strides), "pads": [*padding, *padding], "group": groups}
    expected = np.maximum(onnx_result("Conv", data, weight, bias, **attrs), 0)
    actual = vmkit.VirtualMachine(vmkit.compile(function, target="native"), vmkit.device("cpu")).run(data).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_channels_that_the_blocks_cannot_be_filled_from_are_a_type_error() -> None:
    x, weight = relay.var("x", shape=(1, 5, 7, 4)), relay.var("w", shape=(3, 1, 1, 4, 8))
    options = {"data_layout": "NHWC", "kernel_layout": "OHWI8o"}
    for channels, is_right in ((24, True), (17, True), (16, False), (25, False)):
        result = relay.nn.conv2d(x, weight, channels=channels, **options)
        if not is_right:
            assert type_error([x, weight], result) == f"channels is {channels}, but the weight makes 24"
        else:
            mod = InferType()(tvm.IRModule({"main": relay.Function([x, weight], result)}))
            assert int(mod["main"].checked_type.ret_type.shape[3]) == channels


@pytest.mark.parametrize(
    ("units", "layout", "blocks"),
    [
        (20, "NC16n", 2),
        (12, "NC16n", 1),
        (72, "NC16n", 5),
        (200, "NC16n", 14),  # 13, of which no few go together, and one more
        (100, "NC16n", 8),
        (48, "NC16n", 3),
        (8, "NC8n", 1),
        (257, "NC16n", 18),
        (1001, "NC16n", 63),
    ],
)
def test_the_last_block_of_units_is_filled_where_there_are_several(units: int, layout: str, blocks: int) -> None:
    (call,) = dense_calls(packed(dense(units, 3, 7), 16))
    assert (call.attrs.weight_layout, int(call.args[1].checked_type.shape[0])) == (layout, blocks)
    assert [int(d) for d in call.checked_type.shape] == [3, units]
    lowered = lower_module(packed(dense(units, 3, 7), 16), TARGET).module
    (kernel,) = [f for f in lowered.functions.values() if isinstance(f, tvm.tirx.PrimFunc) and "dense" in f.script()]
    is_filled = filled.RULE.decide(s_tir.Schedule(kernel), TARGET) is not None
    assert is_filled == (blocks * call.args[1].checked_type.shape[-1] != units)


@pytest.mark.parametrize(
    ("units", "of_one", "of_three", "of_any"),
    [
        (200, "NC8n", "NC16n", "NC16n"),  # 13 whole vectors, 25 halves of them: five at a time
        (104, "NC16n", "NC16n", "NC16n"),  # 13 halves go by one by one, too
        (100, "NC4n", "NC16n", "NC16n"),  # 25 quarters
        (72, "NC16n", "NC16n", "NC16n"),  # 5 whole vectors
    ],
)
def test_blocks_of_one_row_are_narrow_where_whole_vectors_would_be_alone(
    units: int, of_one: str, of_three: str, of_any: str
) -> None:
    rows = {1: of_one, 2: of_one, 3: of_three, ROWS: of_any}
    found = {count: dense_calls(packed(dense(units, count, 7), 16))[0].attrs.weight_layout for count in rows}
    assert found == rows


@pytest.mark.parametrize(("units", "rows"), [(100, 8), (120, 8), (1000, 4)])
def test_an_unknown_number_of_rows_goes_by_powers_of_two(units: int, rows: int) -> None:
    lowered = lower_module(packed(dense(units, ROWS, 7), 16), TARGET).module
    (kernel,) = [f for f in lowered.functions.values() if isinstance(f, tvm.tirx.PrimFunc) and "dense" in f.script()]
    decisions = filled.RULE.decide(s_tir.Schedule(kernel), canonical_target("llvm -mcpu=x86-64-v4").primary)
    assert decisions is not None and decisions.rows == rows


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["native", "llvm -mcpu=x86-64-v3 -num-cores=2"])
@pytest.mark.parametrize("units", [12, 20, 72, 100, 257, 302])
def test_dense_layers_with_filled_blocks_keep_their_values(units: int, target: str) -> None:
    for shape, sizes in (
        ((7,), ((7,),)),
        ((5, 3, 7), ((5, 3, 7),)),
        ((ROWS, 7), ((1, 7), (2, 7), (3, 7), (5, 7), (40, 7))),
    ):
        function = dense(units, *shape)
        machine = vmkit.VirtualMachine(vmkit.compile(function, target=target))
        for size in sizes:
            data = numbers(*size)
            expected = np.maximum(data @ numbers(units, 7).T + numbers(units), 0)
            np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_units_that_the_blocks_cannot_be_filled_from_are_a_type_error() -> None:
    x, weight = relay.var("x", shape=(2, 4)), relay.var("w", shape=(3, 4, 8))
    for units, is_right in ((24, True), (17, True), (9, True), (8, False), (25, False)):
        result = relay.nn.contrib_dense_pack(x, weight, "NC8n", units=units)
        if not is_right:
            assert type_error([x, weight], result) == f"units is {units}, but weight has 24"
        else:
            mod = InferType()(tvm.IRModule({"main": relay.Function([x, weight], result)}))
            assert int(mod["main"].checked_type.ret_type.shape[1]) == units


def dense(units: int, *shape: Any) -> relay.Function:
    """Return a dense layer of 7 channels with a bias and an activation."""
    x = relay.var("x", shape=shape)
    return relay.Function(
        [x], relay.nn.relu(relay.add(relay.nn.dense(x, relay.const(numbers(units, 7))), relay.const(numbers(units))))
    )


def dense_calls(mod: tvm.IRModule) -> list[Any]:
    return [
        e for e in post_order(mod["main"]) if getattr(getattr(e, "op", None), "name", "") == "nn.contrib_dense_pack"
    ]


@pytest.mark.parametrize("units", [4, 24, 64])
def test_dense_layers_of_doubles_have_blocks_of_as_many_vectors(units: int) -> None:
    x, weight = relay.var("x", shape=(relay.Any(), 9), dtype="float64"), np.random.default_rng(units).random((units, 9))
    function = relay.Function([x], relay.nn.dense(x, relay.const(weight)))
    machine = vmkit.VirtualMachine(vmkit.compile(function, "native"))
    for rows in (0, 1, 3, 6, 17):
        value = np.random.default_rng(rows).random((rows, 9))
        np.testing.assert_allclose(machine.run(value).numpy(), value @ weight.T, rtol=1e-13)


def dense_weight(weight: np.ndarray, *passes: Any) -> np.ndarray:
    """Return the packed weight of a dense layer, after some passes that fold constants."""
    x = relay.var("x", shape=(ROWS, weight.shape[1]))
    mod = tvm.IRModule({"main": relay.Function([x], relay.nn.dense(x, relay.const(weight)))})
    for each in (InferType(), *passes, FoldConstant(), InferType()):
        mod = each(mod)
    (call,) = (n for n in post_order(mod["main"]) if isinstance(n, relay.Call) and n.op.name.endswith("dense_pack"))
    return call.args[1].data


EXACT = {
    "float16": numbers(64, 20).astype("float16").astype("float32"),
    "bfloat16": (numbers(64, 20).view("uint32") & np.uint32(0xFFFF0000)).view("float32") * np.float32(2.0**40),
    "float32": numbers(64, 20),
}


@pytest.mark.parametrize("dtype", EXACT)
def test_weights_of_dense_layers_that_16_bits_hold_are_stored_in_16_bits(dtype: str) -> None:
    weight = EXACT[dtype]
    packed, whole = dense_weight(weight, PackWeights(16, HALVES)), dense_weight(weight, PackWeights(16))
    assert (str(packed.dtype), str(whole.dtype)) == (dtype, "float32")
    assert tuple(packed.shape) == tuple(whole.shape) == (2, 20, 32)
    if dtype == "bfloat16":
        bits = np.from_dlpack(tensor_view(packed, packed.shape, "uint16")).astype("uint32") << 16
        np.testing.assert_array_equal(bits.view("float32"), whole.numpy())
    else:
        np.testing.assert_array_equal(packed.numpy().astype("float32"), whole.numpy())


@pytest.mark.parametrize(
    ("cpu", "dtype"), [("x86-64-v3", "float16"), ("x86-64", "float32"), ("sapphirerapids", "float32")]
)
def test_a_target_says_whether_weights_are_stored_in_16_bits(cpu: str, dtype: str) -> None:
    target = canonical_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}", None).primary
    (row,) = (each for each in PASSES if each.name == "PackWeights")
    assert str(dense_weight(EXACT["float16"], PackWeights(**row.told(target, evaluate_now))).dtype) == dtype


def halves(dtype: str, *shape: int) -> relay.Expr:
    """Return numbers of 16 bits as float32."""
    return relay.cast(relay.cast(relay.const(numbers(*shape)), dtype), "float32")


def folded(body: relay.Expr, kept: Any = HALVES) -> relay.Function:
    """Return a function of a body after constants are folded, before weights are packed."""
    mod = InferType()(tvm.IRModule({"main": relay.Function(relay.ir.free_vars(body), body)}))
    # What is cast to 16 bits is a constant first, as in a model's file.
    casts = [n for n in post_order(mod["main"]) if isinstance(n, relay.Call) and n.attrs and n.op.name == "cast"]
    inner = {n: relay.ir.Constant(evaluate(n)) for n in casts if n.checked_type.dtype in HALVES}
    mod = InferType()(tvm.IRModule({"main": relay.ir.rewrite(mod["main"], inner)}))
    return InferType()(FoldConstant(halves=kept)(mod))["main"]


def evaluate(expr: relay.Expr) -> tvm.runtime.Tensor:
    (value,) = evaluate_now(InferType()(tvm.IRModule({"main": relay.Function([], relay.Tuple([expr]))})))
    return value


@pytest.mark.parametrize("dtype", HALVES)
def test_large_weights_of_16_bits_are_packed_as_they_are(dtype: str) -> None:
    x, weight = relay.var("x", shape=(ROWS, 1024)), halves(dtype, 512, 1024)
    function = folded(relay.nn.dense(x, weight))
    assert function.body.args[1].op.name == "cast" and function.body.args[1].args[0].checked_type.dtype == dtype
    whole = folded(relay.nn.dense(x, weight), ()).body.args[1]
    (call, plain) = (packed_dense(function, PackWeights(16, types)) for types in (HALVES, ()))
    assert (call.args[1].checked_type.dtype, plain.args[1].checked_type.dtype) == (dtype, "float32")
    assert call.checked_type.dtype == plain.checked_type.dtype == "float32"
    expected = whole.data.numpy().reshape(16, 32, 1024).transpose(0, 2, 1)
    for each in (call, plain):
        np.testing.assert_array_equal(evaluate(relay.cast(each.args[1], "float32")).numpy(), expected)


def packed_dense(function: relay.Function, pack: Any) -> relay.Call:
    mod = tvm.IRModule({"main": function})
    for each in (pack, FoldConstant(), InferType()):
        mod = each(mod)
    assert not any(isinstance(n, relay.Call) and n.op.name == "cast" for n in post_order(mod["main"]))
    return mod["main"].body


def test_of_16_bits_stays_only_what_is_large_and_a_weight_of_dense_layers_alone() -> None:
    x = relay.var("x", shape=(ROWS, 1024))
    weight, small = halves("float16", 1024, 1024), halves("float16", 64, 1024)
    bodies = {
        "small": relay.nn.dense(x, small),
        "another reader": relay.nn.dense(x, weight) + relay.sum(weight),
        "scaled": relay.nn.dense(x, weight * relay.const(2.0)),
        "the data": relay.nn.dense(weight, weight),
        "kept": relay.nn.dense(relay.nn.dense(x, weight), weight),
    }
    left = {
        name: any(isinstance(n, relay.Call) and n.op.name == "cast" for n in post_order(folded(body)))
        for name, body in bodies.items()
    }
    assert left == {name: name == "kept" for name in bodies}
