"""At level 1 kernels that differ in sizes alone are one, and values stay what they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

import vmkit
from vmkit import relay
from vmkit.compiler.stages import fused_kernels
from vmkit.schedule.cpu import schedule_kernels

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
SIZES = ((2, 5, 8), (1, 7, 20), (3, 4, 32))
INPUTS = [np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in SIZES]


def program(layer: Callable[[relay.Expr, int], relay.Expr]) -> relay.Function:
    """Return what a layer makes of an input of each of the sizes."""
    inputs = [relay.var(f"x{i}", shape=shape) for i, shape in enumerate(SIZES)]
    return relay.Function(inputs, relay.Tuple([layer(x, i) for i, x in enumerate(inputs)]))


def joined(x: relay.Expr, _: int) -> relay.Expr:
    return relay.concatenate([x, relay.nn.relu(x), x], axis=2)


def scaled(x: relay.Expr, at: int) -> relay.Expr:
    per_channel = relay.const(np.arange(SIZES[at][2], dtype="float32"))
    return relay.tanh(relay.add(relay.multiply(x, per_channel), per_channel))


def turned(x: relay.Expr, _: int) -> relay.Expr:
    return relay.transpose(x, [2, 0, 1])


def sliced(x: relay.Expr, at: int) -> relay.Expr:
    """Where it begins is no extent of anything."""
    return relay.strided_slice(x, [0, 0, at + 1], [1, 4, 7])


def padded(x: relay.Expr, _: int) -> relay.Expr:
    return relay.nn.pad(x, ((0, 0), (1, 2), (1, 1)), 0.0)


def padded_by_size(x: relay.Expr, at: int) -> relay.Expr:
    return relay.nn.pad(x, ((0, 0), (at + 1, at + 1), (0, 0)), 0.0)


def padded_before(x: relay.Expr, at: int) -> relay.Expr:
    """What is put before it is not half of what it grows by."""
    return relay.nn.pad(x, ((0, 0), (at + 1, 3 * at), (0, 0)), 0.0)


def pooled(x: relay.Expr, _: int) -> relay.Expr:
    return relay.nn.max_pool1d(x, pool_size=3, strides=1, padding=(1, 1), layout="NWC")


def summed(x: relay.Expr, _: int) -> relay.Expr:
    return relay.sum(x, axis=[2])


def kernels(function: relay.Function, level: int, disabled: Sequence[str] = ()) -> list[tirx.PrimFunc]:
    with vmkit.PassContext(opt_level=level, disabled_pass=list(disabled)):
        mod = fused_kernels(function, TARGET)
    return [each for each in mod.functions.values() if isinstance(each, tirx.PrimFunc)]


def run(function: relay.Function, level: int) -> list[np.ndarray]:
    with vmkit.PassContext(opt_level=level):
        executable = vmkit.compile(function, TARGET)
    return [each.numpy() for each in vmkit.VirtualMachine(executable, "cpu").run(*INPUTS)]


@pytest.mark.parametrize(
    ("layer", "count"),
    [
        (joined, 1),
        (scaled, 1),
        (turned, 1),
        (padded, 1),
        (padded_by_size, 1),
        (padded_before, 3),
        (pooled, 1),
        (sliced, 3),
        (summed, 3),
    ],
)
def test_kernels_that_differ_in_sizes_alone_are_one(layer: Callable[[relay.Expr, int], relay.Expr], count: int) -> None:
    function = program(layer)
    assert len(kernels(function, 1)) == count
    assert len(kernels(function, 2)) == len(kernels(function, 1, ["ShareKernels"])) == 3
    for made, expected in zip(run(function, 1), run(function, 2), strict=True):
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


def test_values_are_numpys() -> None:
    made = run(program(lambda x, at: joined(scaled(x, at), at)), 1)
    for x, y in zip(INPUTS, made, strict=True):
        channels = np.arange(x.shape[2], dtype="float32")
        z = np.tanh(x * channels + channels)
        np.testing.assert_allclose(y, np.concatenate([z, np.maximum(z, 0), z], axis=2), rtol=1e-5, atol=1e-6)


def test_extents_that_do_not_differ_stay_known() -> None:
    x, y = relay.var("x", shape=(1, 5, 8)), relay.var("y", shape=(1, 9, 8))
    (kernel,) = kernels(relay.Function([x, y], relay.Tuple([relay.exp(x), relay.exp(y)])), 1)
    shapes = [list(param.ty.shape) for param in kernel.params if is_buffer_var(param)]
    assert [[isinstance(size, tvm.ir.Var) for size in shape] for shape in shapes] == [[False, True, False]] * 2
    assert shapes[0][1].same_as(shapes[1][1])


def of_unknown_sizes(layer: Callable[[relay.Expr, int], relay.Expr]) -> tuple[relay.Function, list[np.ndarray]]:
    """Return what a layer makes of images of any number and size, of 8 and of 24 channels, and such images."""
    channels = (8, 24)
    images = [relay.var(f"x{c}", shape=(relay.Any(), relay.Any(), relay.Any(), c)) for c in channels]
    function = relay.Function(images, relay.Tuple([layer(x, c) for x, c in zip(images, channels, strict=True)]))
    return function, [np.random.default_rng(c).standard_normal((2, 5, 7, c)).astype("float32") for c in channels]


def clipped(x: relay.Expr, channels: int) -> relay.Expr:
    return relay.nn.relu(relay.add(x, relay.const(np.arange(channels, dtype="float32"))))


def of_windows(x: relay.Expr, _: int) -> relay.Expr:
    return relay.nn.max_pool2d(x, pool_size=(3, 3), padding=(1, 1), layout="NHWC")


def of_weights(x: relay.Expr, channels: int) -> relay.Expr:
    weight = relay.const(np.linspace(-1, 1, 9 * channels, dtype="float32").reshape(3, 3, channels, 1))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWOI"}
    return relay.nn.conv2d(x, weight, padding=(1, 1), groups=channels, channels=channels, kernel_size=(3, 3), **layouts)


@pytest.mark.parametrize(("layer", "fewer"), [(clipped, 1), (of_windows, 1), (of_weights, 0)])
def test_of_unknown_sizes_all_are_shared_but_windows_with_weights(
    layer: Callable[[relay.Expr, int], relay.Expr], fewer: int
) -> None:
    function, inputs = of_unknown_sizes(layer)
    assert len(kernels(function, 1, ["ShareKernels"])) - len(kernels(function, 1)) == fewer
    results = []
    for level in (1, 2):
        with vmkit.PassContext(opt_level=level):
            executable = vmkit.compile(function, TARGET)
        results.append(vmkit.VirtualMachine(executable, "cpu").run(*inputs))
    for made, expected in zip(*results, strict=True):
        np.testing.assert_allclose(made.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def many(layer: Callable[[relay.Expr], relay.Expr], count: int) -> tuple[relay.Function, list[np.ndarray]]:
    """Return what a layer makes of so many inputs of sizes that differ, and inputs."""
    shapes = [(1, 3, 5, 8 * i + 68) for i in range(count)]
    inputs = [relay.var(f"x{i}", shape=shape) for i, shape in enumerate(shapes)]
    values = [np.random.default_rng(i).standard_normal(shape).astype("float32") for i, shape in enumerate(shapes)]
    return relay.Function(inputs, relay.Tuple([layer(x) for x in inputs])), values


def normalised(x: relay.Expr) -> relay.Expr:
    channels = np.arange(int(x.type_annotation.shape[-1]), dtype="float32")
    return relay.nn.relu(relay.add(relay.multiply(x, relay.const(channels)), relay.const(1 - channels)))


def test_by_default_many_maps_of_elements_are_one() -> None:
    function, values = many(normalised, 6)
    assert (len(kernels(function, 2)), len(kernels(function, 2, ["ShareKernels"]))) == (1, 6)
    machine = vmkit.VirtualMachine(vmkit.compile(function, TARGET), "cpu")
    for x, y in zip(values, machine.run(*values), strict=True):
        channels = np.arange(x.shape[-1], dtype="float32")
        np.testing.assert_allclose(y.numpy(), np.maximum(x * channels + (1 - channels), 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: relay.concatenate([x, relay.nn.relu(x)], axis=3),
        lambda x: relay.transpose(x, [0, 2, 1, 3]),
        lambda x: relay.sum(x, axis=[3]),
        lambda x: relay.nn.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), 0.0),
        lambda x: relay.strided_slice(x, [0, 0, 0, 4], [1, 3, 5, 68]),
        lambda x: relay.take(x, relay.const(np.array([2, 0, 1])), axis=1, mode="clip"),
    ],
    ids=["joined", "turned", "summed", "padded", "sliced", "taken"],
)
def test_by_default_others_are_made_for_their_sizes(layer: Callable[[relay.Expr], relay.Expr]) -> None:
    function, _ = many(layer, 6)
    assert len(kernels(function, 2)) == len(kernels(function, 2, ["ShareKernels"])) == 6


def test_by_default_few_maps_and_short_or_unlike_ones_are_made_for_their_sizes() -> None:
    shapes = {
        "few": [(3, 5, 64 + i) for i in range(5)],
        "short": [(3, 5, 40 + i) for i in range(6)],
        "not in lines alone": [(3 + i, 5, 64 + i) for i in range(6)],
    }
    for case, sizes in shapes.items():
        inputs = [relay.var(f"x{i}", shape=size) for i, size in enumerate(sizes)]
        function = relay.Function(inputs, relay.Tuple([relay.exp(x) for x in inputs]))
        assert len(kernels(function, 2)) == len(sizes), case


def looked_up(tables: Sequence[np.ndarray]) -> relay.Function:
    """Return the sum of what each of some tables has at the places that are given, the last where there is none."""
    places = relay.var("places", shape=(tirx.Var("n", "int64"), 3), dtype="int64")
    found = [relay.take(relay.const(table), places, axis=0, mode="clip") for table in tables]
    return relay.Function([places], relay.Tuple([relay.multiply(x, x) for x in found]))


def test_by_default_many_that_look_up_in_tables_of_different_lengths_are_one() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((10 + 7 * i, 4)).astype("float32") for i in range(6)]
    function = looked_up(tables)
    assert (len(kernels(function, 2)), len(kernels(function, 2, ["ShareKernels"]))) == (1, 6)
    machine = vmkit.VirtualMachine(vmkit.compile(function, TARGET), "cpu")
    for count in (1, 5):
        places = rng.integers(-3, 60, (count, 3))
        for table, found in zip(tables, machine.run(places), strict=True):
            wanted = table[np.clip(places, 0, len(table) - 1)] ** 2
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_tables_of_unlike_rows_and_few_of_them_are_made_for_their_sizes() -> None:
    rows = [np.zeros((10 + i, 3 + i), "float32") for i in range(6)]
    assert len(kernels(looked_up(rows), 2)) == 6
    assert len(kernels(looked_up([np.zeros((10 + i, 4), "float32") for i in range(5)]), 2)) == 5


def test_large_maps_that_are_one_are_shared_among_cores() -> None:
    def is_parallel(channels: int) -> list[bool]:
        inputs = [relay.var(f"x{i}", shape=(8, 8, channels + i)) for i in range(6)]
        module = fused_kernels(relay.Function(inputs, relay.Tuple([relay.exp(x) for x in inputs])), TARGET)
        functions = schedule_kernels(module, TARGET).functions.values()
        return ["T.parallel(" in each.script() for each in functions if isinstance(each, tirx.PrimFunc)]

    assert (is_parallel(64), is_parallel(256)) == ([False], [True])


@pytest.mark.parametrize(
    "layer",
    [
        relay.exp,
        lambda x: relay.concatenate([x, relay.nn.relu(x)], axis=3),
        lambda x: relay.transpose(x, [0, 2, 3, 1]),
        lambda x: relay.nn.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), 0.0),
        lambda x: relay.nn.max_pool2d(x, (3, 3), padding=(1, 1), layout="NHWC"),
    ],
    ids=["map", "joined", "turned", "padded", "pooled"],
)
def test_what_is_large_at_all_sizes_is_shared_among_cores(layer: Callable[[relay.Expr], relay.Expr]) -> None:
    def compiled(function: relay.Function, level: int) -> vmkit.Executable:
        with vmkit.PassContext(opt_level=level):
            return vmkit.compile(function, TARGET)

    def results(executable: vmkit.Executable, values: list[np.ndarray]) -> list[np.ndarray]:
        return [y.numpy() for y in vmkit.VirtualMachine(executable, "cpu", num_threads=2).run(*values)]

    for sizes, is_parallel in (([(1, 40, 50, 16), (1, 31, 23, 48)], True), ([(1, 40, 50, 16), (1, 4, 5, 48)], False)):
        inputs = [relay.var(f"x{i}", shape=size) for i, size in enumerate(sizes)]
        values = [np.random.default_rng(i).standard_normal(size).astype("float32") for i, size in enumerate(sizes)]
        function = relay.Function(inputs, relay.Tuple([layer(x) for x in inputs]))
        one, own = compiled(function, 1), compiled(function, 2)
        assert one.profiling is not None
        texts = [each.script() for each in one.profiling.functions().values() if "vmkit.by_rule" in each.attrs]
        assert ["T.parallel(" in text for text in texts] == [is_parallel]
        for made, expected in zip(results(one, values), results(own, values), strict=True):
            np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6)
