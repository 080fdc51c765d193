"""Convolutions with channels first, as an implicit GEMM: the sums, whatever the windows, the groups and the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import te, tirx, topi

import vmkit
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import implicit_gemm

AVX2, AVX512 = (tvm.target.Target({"kind": "llvm", "mcpu": cpu}) for cpu in ("znver3", "znver4"))


def model(
    shape: tuple[Any, ...], weight: np.ndarray, has_relu: bool = True, has_other: bool = False, **attributes: Any
) -> onnx.ModelProto:
    constants = {"w": weight, "b": np.arange(len(weight), dtype="float32")}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["s"], **attributes)]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
    nodes.append(helper.make_node("Relu" if has_relu else "Identity", ["s"], ["r" if has_other else "y"]))
    if has_other:
        nodes.append(helper.make_node("Mul", ["r", "o"], ["y"]))
        inputs.append(helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, [None] * len(shape)))
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "conv", inputs, [helper.make_empty_tensor_value_info("y")], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def assert_agrees(made: onnx.ModelProto, target: str, *calls: Sequence[tuple[int, ...]]) -> None:
    """Assert that a model whose convolution keeps its channels first computes what the standard says, in some calls."""
    random = np.random.default_rng(0)
    with vmkit.PassContext(disabled_pass=["ConvertLayout"]):
        machine = vmkit.VirtualMachine(vmkit.compile(made, target), "cpu")
    names = [each.name for each in made.graph.input]
    for shapes in calls:
        arrays = {name: random.normal(size=shape).astype("float32") for name, shape in zip(names, shapes, strict=True)}
        (expected,) = ReferenceEvaluator(made).run(None, arrays)
        np.testing.assert_allclose(machine.run(**arrays).numpy(), expected, rtol=1e-4, atol=1e-3)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype("float32")


# Lines that vectors fill, that they do not, that are shorter than one; every second to every fifth element.
@pytest.mark.parametrize(
    ("outer", "inner", "kernel", "size", "attributes"),
    [
        (33, 5, (3, 3), (9, 16), {"pads": [1] * 4}),
        (7, 3, (3, 2), (8, 21), {"pads": [1, 0, 1, 1], "strides": [2, 2]}),
        (20, 4, (1, 1), (5, 7), {}),
        (20, 4, (1, 1), (5, 7), {"strides": [1, 2]}),
        (5, 2, (5, 5), (6, 3), {"pads": [2] * 4}),
        (19, 2, (3, 3), (11, 13), {"strides": [3, 3], "pads": [0, 1, 1, 0]}),
        (6, 3, (3, 3), (9, 12), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
        (24, 2, (7, 7), (16, 16), {"strides": [2, 2], "pads": [3] * 4}),
        (40, 1, (20,), (101,), {"strides": [5]}),
        (2, 1, (11,), (131,), {"strides": [3], "pads": [4, 6]}),
        (19, 3, (4, 4), (16, 34), {"strides": [4, 4]}),
        (3, 2, (17,), (60,), {"strides": [2], "pads": [4, 3]}),
        (18, 3, (2, 3, 3), (4, 5, 9), {"pads": [0, 1, 1, 1, 1, 1]}),
        (20, 3, (1, 1, 1), (4, 5, 9), {}),
    ],
)
def test_sums_are_those_of_the_convolution(
    outer: int, inner: int, kernel: tuple[int, ...], size: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    shape = (2, inner, *size)
    assert_agrees(model(shape, weights(outer, inner, *kernel), **attributes), "llvm -mattr=+avx2,+fma", [shape])


@pytest.mark.parametrize(
    ("groups", "inner", "outer", "stride", "pad"),
    [(12, 1, 1, 1, 1), (12, 1, 1, 2, 1), (12, 1, 2, 3, 0), (9, 2, 3, 1, 0), (9, 2, 3, 2, 1), (2, 3, 20, 2, 1)],
)
def test_groups_see_their_own_channels(groups: int, inner: int, outer: int, stride: int, pad: int) -> None:
    shape = (2, groups * inner, 9, 15)
    weight = weights(groups * outer, inner, 3, 3)
    made = model(shape, weight, group=groups, strides=[stride, stride], pads=[pad] * 4)
    assert_agrees(made, "llvm", [shape])


# Tiles that end with the lines and go over their end, windows by steps and with gaps, padding on one side and on none.
@pytest.mark.parametrize(
    ("channels", "kernel", "size", "attributes"),
    [
        (9, (7, 7), (23, 19), {"pads": [3] * 4}),
        (9, (3, 5), (11, 37), {"pads": [1, 0, 2, 4], "strides": [2, 1]}),
        (9, (3, 3), (9, 29), {"pads": [1] * 4, "strides": [2, 2]}),
        (9, (5, 2), (14, 40), {"pads": [2, 2, 1, 0], "strides": [2, 3]}),
        (3, (4, 3), (12, 20), {"dilations": [2, 3]}),
        (3, (2, 1), (3, 9), {"pads": [1, 0, 0, 0]}),
    ],
)
def test_depthwise_tiles_share_lines(
    channels: int, kernel: tuple[int, int], size: tuple[int, int], attributes: dict[str, Any]
) -> None:
    made = model(("n", channels, *size), weights(channels, 1, *kernel), group=channels, has_other=True, **attributes)
    result = tuple(
        ReferenceEvaluator(made).run(None, {"x": weights(2, channels, *size), "o": np.ones(1, "f4")})[0].shape
    )
    made.graph.input[1].CopyFrom(helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, ["n", *result[1:]]))
    assert_agrees(made, "native", [(2, channels, *size), result])


@pytest.mark.parametrize(
    ("free", "kernel", "stride", "groups"),
    [
        ((0, 2, 3), 1, 1, 1),
        ((0, 2), 3, 2, 1),
        ((3,), 3, 2, 10),
        ((2, 3), 3, 3, 1),
        ((0, 2, 3), 3, 5, 1),
        ((0, 2, 3), 3, 1, 10),
    ],
)
def test_sizes_may_be_known_at_run_time_only(free: tuple[int, ...], kernel: int, stride: int, groups: int) -> None:
    attributes = {"strides": [stride, stride], "pads": [kernel // 2] * 4, "group": groups}
    shape = tuple(f"n{axis}" if axis in free else each for axis, each in enumerate((2, 10, 9, 15)))
    sizes = [(2, 10, 9, 15), (1, 10, 3, 4), (1, 10, 1, 1), (3, 10, 2, 33)]
    calls = [tuple(d if a in free else (2, 10, 9, 15)[a] for a, d in enumerate(size)) for size in sizes]
    made = model(shape, weights(20, 10 // groups, kernel, kernel), **attributes)
    assert_agrees(made, "native", *[[each] for each in dict.fromkeys(calls)])


@pytest.mark.parametrize(
    ("kernel", "other"),
    [(1, (2, 20, 9, 15)), (1, (1, 1, 9, 15)), (1, (2, 20, 9, 1)), (1, (15,)), (3, (2, 20, 9, 15)), (3, (1, 1, 1, 15))],
)
def test_what_follows_is_computed_beside_it(kernel: int, other: tuple[int, ...]) -> None:
    shape = (2, 4, 9, 15)
    made = model(shape, weights(20, 4, kernel, kernel), has_other=True, pads=[kernel // 2] * 4)
    made.graph.input[1].CopyFrom(helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, other))
    assert_agrees(made, "native", [shape, other])


def placeholders(*shapes: tuple[int, ...]) -> list[te.Tensor]:
    return [te.placeholder([tirx.IntImm("int64", d) for d in shape], name=f"x{at}") for at, shape in enumerate(shapes)]


def decided(shape: tuple[int, ...], weight: tuple[int, ...], stride: int, target: tvm.target.Target) -> Any:
    x, w = placeholders(shape, weight)
    sums = topi.nn.conv2d_nchw(x, w, stride, 0, 1)
    plain = rules.prepared(te.create_prim_func([x, w, sums]))
    assert plain is not None
    assert next(rule for rule in rules.RULES if rule.decide(plain, target) is not None) is implicit_gemm.RULE
    return implicit_gemm.RULE.decide(plain, target)


def test_panels_are_for_many_channels_and_gathered_for_wide_steps() -> None:
    assert not decided((1, 8, 58, 58), (8, 8, 3, 3), 1, AVX2).packed
    assert decided((1, 8, 58, 58), (64, 8, 3, 3), 1, AVX2).packed
    assert not decided((1, 8, 58, 58), (64, 8, 3, 3), 2, AVX2).gathered
    assert not decided((1, 8, 60, 60), (8, 8, 4, 4), 4, AVX2).gathered
    assert decided((1, 8, 60, 60), (8, 8, 5, 5), 5, AVX2).gathered


def test_tiles_fit_registers() -> None:
    for target, registers in ((AVX2, 16), (AVX512, 32)):
        made = decided((1, 64, 58, 58), (64, 64, 3, 3), 1, target)
        assert made.rows * made.vectors + made.vectors < registers


def test_candidates_compute_the_same() -> None:
    x, w = placeholders((1, 3, 8, 20), (10, 3, 3, 3))
    plain = rules.prepared(te.create_prim_func([x, w, topi.nn.conv2d_nchw(x, w, 1, 1, 1)]))
    assert plain is not None
    target = tvm.target.Target("llvm")
    values = [weights(1, 3, 8, 20), weights(10, 3, 3, 3)]
    made = list(implicit_gemm.RULE.candidates(plain, target))
    results = []
    for decisions in [made[0], *made[1::17]]:
        function = rules.scheduled(plain, implicit_gemm.RULE, target, decisions)
        module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        result = tvm.runtime.tensor(np.full((1, 10, 8, 20), np.nan, "float32"))
        tvm.compile(module, "llvm")["main"](*map(tvm.runtime.tensor, values), result)
        results.append(result.numpy())
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-5)
