"""What numpy computes of constants is what kernels compute, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.relay.ir import post_order
from vmkit.relay.op import REGISTRY, build
from vmkit.relay.op.constant_arrays import with_known_values
from vmkit.relay.transform import fold_constant, infer_module
from vmkit.relay.transform.fold_constant import fold_constants, is_partly_folded
from vmkit.values.host_memory import to_cpu_tensor

RNG = np.random.default_rng(0)
FLOATS = np.array([0.0, -0.0, 1.5, -3.25, 1e-40, 3e38, np.inf, -np.inf, np.nan, 7.0], "float32")
INTEGERS = np.array([0, -1, 127, -128, 2**31 - 1, -(2**31), 77, 300, 5, 6], "int32")
WEIGHT = RNG.standard_normal((5, 6, 3, 3)).astype("float32")
CODES = RNG.integers(0, 256, (3, 20)).astype("uint8")
BLOCKS = RNG.standard_normal((2, 3, 2, 2, 4)).astype("float32")

Case = Callable[[Any], Any]


def given(array: np.ndarray) -> list[np.ndarray]:
    """Return numbers by which others of a data type are combined."""
    return [array, array[::-1].copy()]


CASES: dict[str, list[tuple[Case, list[np.ndarray]]]] = {
    name: [
        (lambda *v, name=name: build(name, *v), given(FLOATS)),
        (lambda *v, name=name: build(name, *v), given(FLOATS.astype("float64"))),
    ]
    for name in ("add", "subtract", "multiply", "divide")
}
for name in ("add", "subtract", "multiply"):
    for dtype in ("int8", "int32", "int64", "uint8"):
        CASES[name].append((lambda *v, name=name: build(name, *v), given(INTEGERS.astype(dtype))))
CASES |= {
    "negative": [(relay.negative, [FLOATS]), (relay.negative, [INTEGERS]), (relay.negative, [INTEGERS.astype("int8")])],
    "sqrt": [(relay.sqrt, [FLOATS]), (relay.sqrt, [np.abs(WEIGHT).astype("float64")])],
    "copy": [(relay.copy, [FLOATS])],
    "cast": [
        *((lambda x, to=to: relay.cast(x, to), [INTEGERS]) for to in ("int8", "uint8", "int64", "float32", "float64")),
        (lambda x: relay.cast(x, "float32"), [np.array([1e300, 0.1, -1e-50, 16777217.0])]),
        (lambda x: relay.cast(x, "float64"), [FLOATS]),
        (lambda x: relay.cast(x, "float32"), [np.array([2**63 - 1, 2**24 + 1, -(2**53) - 1])]),
    ],
    "reshape": [
        (lambda x: relay.reshape(x, (0, -1)), [WEIGHT]),
        (lambda x: relay.reshape(x, (-4, 1, 5, -3, 3)), [WEIGHT]),
    ],
    "expand_dims": [(lambda x: relay.expand_dims(x, -2, 2), [WEIGHT])],
    "squeeze": [(relay.squeeze, [WEIGHT[:, None, :1]]), (lambda x: relay.squeeze(x, [1]), [WEIGHT[:, None, :1]])],
    "transpose": [(relay.transpose, [WEIGHT]), (lambda x: relay.transpose(x, (0, -1, 1, 2)), [WEIGHT])],
    "concatenate": [(lambda *v: relay.concatenate(v, -1), [WEIGHT, WEIGHT[..., :1].copy()])],
    "take": [
        *((lambda x, i, m=m: relay.take(x, i, 0, mode=m), [WEIGHT, INTEGERS]) for m in ("clip", "wrap", "fast")),
        (lambda x, i: relay.take(x, i), [WEIGHT, INTEGERS.reshape(2, 5)]),
        (lambda x, i: relay.take(x, i, 1, batch_dims=1), [BLOCKS, INTEGERS[:2].reshape(2, 1)]),
    ],
    "nn.pad": [
        (lambda x: relay.nn.pad(x, ((0, 3), (1, 0), (0, 0), (2, 1)), 7.5), [WEIGHT]),
        (lambda x: relay.nn.pad(x, ((0, 0), (2, 1))), [CODES]),
    ],
    "layout_transform": [
        (lambda x: relay.layout_transform(x, "OIHW", "HWIO"), [WEIGHT]),
        (lambda x: relay.layout_transform(x, "OIHW", "OIHW4i2o"), [WEIGHT]),
        (lambda x: relay.layout_transform(x, "OIHW", "IOHW8o"), [WEIGHT]),
        (lambda x: relay.layout_transform(x, "NCHW4c", "NHWC"), [BLOCKS]),
        (lambda x: relay.layout_transform(x, "NCHW4c", "WNCH5c"), [BLOCKS]),
        (lambda x: relay.layout_transform(x, "NC2c4c", "4cNC"), [BLOCKS.reshape(2, 6, 2, 4)]),
    ],
    "nn.contrib_block_dequantize": [
        (lambda *v: build("nn.contrib_block_dequantize", *v), [CODES, WEIGHT[:3, :2, 0, 0].copy()]),
        (
            lambda *v: build("nn.contrib_block_dequantize", *v, bits=2, axis=0, block_size=2),
            [CODES, *(np.resize(each, (2, 80)) for each in (WEIGHT, CODES % 4))],
        ),
    ],
}


def test_each_operator_that_numpy_computes_is_compared() -> None:
    assert set(CASES) == {name for name, each in REGISTRY.items() if each.on_arrays is not None}


def test_numpy_computes_what_kernels_do() -> None:
    calls = [(name, make, values) for name, cases in CASES.items() for make, values in cases]
    params = [[relay.var(f"p{k}_{i}", shape=v.shape, dtype=str(v.dtype)) for i, v in enumerate(values)]
              for k, (_, _, values) in enumerate(calls)]  # fmt: skip
    results = relay.Tuple([make(*vars) for (_, make, _), vars in zip(calls, params, strict=True)])
    function = relay.Function([p for each in params for p in each], results)
    machine = vmkit.VirtualMachine(vmkit.compile(function, "llvm"))
    expected = [each.numpy() for each in machine.run(*(v for _, _, values in calls for v in values))]
    constants = relay.Tuple([make(*map(relay.const, values)) for _, make, values in calls])
    made, is_whole = with_known_values(constants)
    assert is_whole
    for (name, _, values), field, want in zip(calls, constants.fields, expected, strict=True):
        if name == "take" and field.attrs.batch_dims:
            assert field not in made
            continue
        got = made[field].data.numpy()
        assert (got.dtype, got.shape) == (want.dtype, want.shape), name
        # One thing that is no number is like another.
        np.testing.assert_array_equal(got, want, err_msg=f"{name} {[v.dtype for v in values]}")
        is_number = ~np.isnan(want)
        assert got[is_number].tobytes() == want[is_number].tobytes(), name


def test_a_program_computes_what_is_left_of_what_numpy_has_computed() -> None:
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    doubled = relay.add(relay.const(x), relay.const(x))
    joined = relay.stack([doubled, relay.tanh(doubled)], 0)
    turned = relay.transpose(doubled)
    mod = infer_module(
        tvm.IRModule({"main": relay.Function([], relay.Tuple([joined, turned, relay.negative(joined)]))})
    )
    runs: list[list[str]] = []

    def evaluate(program: tvm.IRModule) -> list[tvm.runtime.Tensor]:
        runs.append(sorted(n.op.name for n in post_order(program["main"]) if isinstance(n, relay.Call)))
        return list(vmkit.VirtualMachine(vmkit.compile(program, "llvm")).run())

    body = fold_constants(mod, evaluate)["main"].body
    assert runs == [["negative", "stack", "tanh"]]
    stacked = np.stack([2 * x, np.tanh(2 * x)])
    for field, want in zip(body.fields, (stacked, 2 * x.T, -stacked), strict=True):
        np.testing.assert_allclose(field.data.numpy(), want, rtol=1e-6)


def test_many_constants_are_folded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_constant, "_PART_BYTES", 2000)
    x = np.linspace(-1, 1, 600, dtype="float32").reshape(30, 20)
    fields = [relay.transpose(relay.const(x + i)) for i in range(3)]
    fields.append(relay.tanh(fields[0]))  # which numpy leaves to a program
    mod = tvm.IRModule({"main": relay.Function([], relay.Tuple([*fields, relay.Tuple(fields[1:3])]))})
    fold = fold_constant.FoldConstant(in_parts=True)
    left = []
    while not left or is_partly_folded(mod):
        mod = fold(mod)
        left.append(sum(isinstance(n, relay.Call) for n in post_order(mod["main"])))
    assert left == [3, 2, 1, 0]
    assert mod.attrs is None or not mod.attrs.keys()
    *turned, last, pair = mod["main"].body.fields
    for got, want in zip([*turned, *pair.fields], [x.T + i for i in (0, 1, 2, 1, 2)], strict=True):
        np.testing.assert_array_equal(got.data.numpy(), want)
    np.testing.assert_allclose(last.data.numpy(), np.tanh(x.T), rtol=1e-6)


def test_what_a_part_leaves_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_constant, "_PART_BYTES", 2000)
    looked: list[int] = []
    find = fold_constant._foldable
    monkeypatch.setattr(fold_constant, "_foldable", lambda *args: looked.append(1) or find(*args))
    x, given = np.linspace(-1, 1, 600, dtype="float32").reshape(30, 20), relay.var("given", shape=(20, 30))
    fields = [relay.add(relay.transpose(relay.const(x + i)), given) for i in range(4)]
    mod = tvm.IRModule({"main": relay.Function([given], relay.Tuple(fields))})
    fold = fold_constant.FoldConstant(in_parts=True)
    mod, runs = fold(mod), 1
    while is_partly_folded(mod):
        mod, runs = fold(mod), runs + 1
    assert (runs, len(looked)) == (4, 1)
    for i, field in enumerate(mod["main"].body.fields):
        np.testing.assert_array_equal(field.args[0].data.numpy(), x.T + i)


def test_what_programs_compute_is_folded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_constant, "_PART_BYTES", 100)
    monkeypatch.setattr(fold_constant, "_RUN_BYTES", 4000)
    x = np.linspace(-1, 1, 600, dtype="float32").reshape(30, 20)
    waves = [relay.tanh(relay.const(x + i)) for i in range(5)]
    mod = tvm.IRModule(
        {"main": relay.Function([], relay.Tuple([*waves, relay.split(relay.tanh(waves[0]), 2).tuple_value]))}
    )
    fold = fold_constant.FoldConstant(in_parts=True)
    left: list[int] = []
    while not left or is_partly_folded(mod):
        assert len(left) < 9
        mod = fold(mod)
        left.append(sum(isinstance(n, relay.Call) for n in post_order(mod["main"])))
    assert left == [5, 3, 0]
    *values, parts = mod["main"].body.fields
    for i, got in enumerate(values):
        np.testing.assert_allclose(got.data.numpy(), np.tanh(x + i), rtol=1e-5)
    for got, want in zip(parts.fields, np.split(np.tanh(np.tanh(x)), 2), strict=True):
        np.testing.assert_allclose(got.data.numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_of_16_bits_are_widened_as_they_are(dtype: str) -> None:
    every = np.arange(1 << 16, dtype="uint16").view("float16")
    numbers = every[~np.isnan(every)]
    cast = relay.cast(relay.const(numbers), dtype)
    made, is_whole = with_known_values(relay.Tuple([cast]))
    assert is_whole and made[cast].data.numpy().tobytes() == numbers.astype(dtype).tobytes()
    # What is no number has bits that a processor changes.
    assert with_known_values(relay.Tuple([relay.cast(relay.const(every), dtype)])) == ({}, True)


@pytest.mark.parametrize(("before", "after"), [("float16", "float32"), ("int8", "int32"), ("float32", "float64")])
def test_what_is_cast_lies_where_kernels_read_it_and_is_not_copied(before: str, after: str) -> None:
    numbers = RNG.integers(-9, 9, (700, 500)).astype(before).T
    cast = relay.cast(relay.const(numbers), after)
    array = REGISTRY["cast"].on_arrays(cast.attrs, numbers)
    np.testing.assert_array_equal(array, numbers.astype(after), strict=True)
    assert to_cpu_tensor(array).data_ptr() == array.ctypes.data


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool"])
def test_data_types_in_which_numpy_computes_otherwise_are_left(dtype: str) -> None:
    value = relay.cast(relay.const(np.ones(3, "float32")), dtype)
    assert with_known_values(relay.Tuple([value, relay.copy(value)])) == ({}, True)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize(("first", "second"), [((4, 3), (1, 3)), ((), (5,)), ((0, 3), (3,)), ((), ())])
def test_what_numpy_computes_of_two_lies_where_kernels_can_read_it(
    name: str, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    a, b = (np.random.default_rng(n).normal(size=shape).astype("float32") for n, shape in enumerate((first, second)))
    on_arrays = REGISTRY[name].on_arrays
    assert on_arrays is not None
    value = on_arrays(None, a, b)
    expected = getattr(np, name)(a, b)
    assert value.dtype == expected.dtype and value.shape == expected.shape
    np.testing.assert_array_equal(value, expected)
    if value.size:
        tensor = to_cpu_tensor(value)
        assert tensor.data_ptr() == value.ctypes.data  # no copy
