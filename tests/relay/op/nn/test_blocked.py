"""Operators over tensors with axes in blocks give what they give over plain ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.relay.op.onnx_reference import onnx_result
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import TypeCheckError, VMError
from vmkit.relay import nn, var
from vmkit.relay.op.nn.layout import Layout

Any_ = relay.Any


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def relaid(array: np.ndarray, plain: str, layout: str) -> np.ndarray:
    """Return an array whose axes are `plain` in a layout, by cutting its axes and transposing."""
    axes = re.findall(r"(\d*)([A-Za-z])", layout)
    cut: list[tuple[str, int]] = []
    shape: list[int] = []
    for letter, size in zip(plain, array.shape, strict=True):
        blocks = [(name, int(count)) for count, name in axes if name == letter.lower()]
        whole = int(np.prod([count for _, count in blocks], dtype=int))
        cut += [(letter, size // whole), *blocks]
        shape += [size // whole, *[count for _, count in blocks]]
    waiting = list(enumerate(name for name, _ in cut))
    order = []
    for _, name in axes:
        at = next(i for i, (_, other) in enumerate(waiting) if other == name)
        order.append(waiting.pop(at)[0])
    return np.ascontiguousarray(array.reshape(shape).transpose(order))


def shape_of(array: np.ndarray, layout: str, dim: Any) -> list[Any]:
    """Return an array's shape with the sizes of whole axes known or not; those of blocks are always known."""
    letters = re.findall(r"[A-Za-z]", layout)
    return [dim(d) if letter.isupper() else d for letter, d in zip(letters, array.shape, strict=True)]


CONV2D = [
    ("NCHW2c", "OIHW2i3o", "NCHW3c"),
    ("NCHW2n4c", "OIHW3o2i", "NCHW2n6c"),
    ("NCHW4c", "OIHW2i6o2i", "NHWC"),
    ("HWCN", "HWIO", ""),
    ("CHWN", "OHWI", "NCHW"),
    ("NHWC", "HWOI", "NHWC2c"),
]


def test_conv2d_takes_every_layout(dim: Any) -> None:
    data, weight = numbers(2, 4, 6, 7), numbers(6, 4, 3, 3)
    expected = onnx_result("Conv", data, weight, strides=[2, 1], pads=[1, 0, 1, 0])
    params, arrays, results, references = [], [], [], []
    for i, (source, kernel, out) in enumerate(CONV2D):
        x, w = relaid(data, "NCHW", source), relaid(weight, "OIHW", kernel)
        xs = var(f"x{i}", shape=shape_of(x, source, dim)), var(f"w{i}", shape=w.shape)
        options = {"data_layout": source, "kernel_layout": kernel, "out_layout": out}
        results.append(nn.conv2d(*xs, strides=(2, 1), padding=(1, 0), **options))
        references.append(relaid(expected, "NCHW", out or source))
        params += xs
        arrays += [x, w]
    assert_same(compiled(params, *results)(*arrays), tuple(references), rtol=1e-4, atol=1e-5)


def test_grouped_and_transposed_convolutions_take_blocks(dim: Any) -> None:
    data, weight, turned = numbers(2, 4, 6, 7), numbers(6, 2, 3, 3), numbers(4, 3, 3, 2)
    grouped = onnx_result("Conv", data, weight, group=2, pads=[1] * 4)
    transposed = onnx_result("ConvTranspose", data, turned, group=2, strides=[2, 2], output_padding=[1, 0])
    line = onnx_result("Conv", data[..., 0], weight[..., 0], group=2)
    x, w, v = relaid(data, "NCHW", "NCHW2c"), relaid(weight, "OIHW", "OIHW2i2o"), relaid(turned, "IOHW", "IOHW3o2i")
    y, u = relaid(data[..., 0], "NCW", "NCW4c"), relaid(weight[..., 0], "OIW", "OWI2o")
    xs = var("x", shape=shape_of(x, "NCHW2c", dim)), var("w", shape=w.shape), var("v", shape=v.shape)
    ys = var("y", shape=shape_of(y, "NCW4c", dim)), var("u", shape=u.shape)
    run = compiled(
        [*xs, *ys],
        nn.conv2d(*xs[:2], padding=1, groups=2, data_layout="NCHW2c", kernel_layout="OIHW2i2o"),
        nn.conv2d_transpose(
            xs[0], xs[2], 2, groups=2, output_padding=(1, 0), data_layout="NCHW2c", kernel_layout="IOHW3o2i"
        ),
        nn.conv1d(*ys, groups=2, data_layout="NCW4c", kernel_layout="OWI2o", out_layout="NCW"),
    )
    expected = relaid(grouped, "NCHW", "NCHW2c"), relaid(transposed, "NCHW", "NCHW2c"), line
    assert_same(run(x, w, v, y, u), expected, rtol=1e-4, atol=1e-5)


def test_packed_convolutions_and_dense_agree_with_plain_ones(dim: Any) -> None:
    data, weight, deep = numbers(2, 8, 5, 5), numbers(4, 8, 3, 3), numbers(8, 1, 3, 3)
    rows, square = numbers(3, 6), numbers(8, 6)
    x, w, d = relaid(data, "NCHW", "NCHW8c"), relaid(weight, "OIHW", "OIHW8i4o"), relaid(deep, "OIHW", "OIHW1i4o")
    n, m = relaid(square, "NC", "NC4n"), relaid(square, "NC", "NC4n2c")
    params = [var("x", shape=shape_of(x, "NCHW8c", dim)), var("w", shape=w.shape), var("d", shape=d.shape)]
    params += [var("r", shape=(dim(3), dim(6))), var("n", shape=n.shape), var("m", shape=m.shape)]
    xs, ws, ds, rs, ns, ms = params
    run = compiled(
        params,
        nn.contrib_conv2d_nchwc(xs, ws, padding=1, kernel_layout="OIHW8i4o", out_layout="NCHW4c", channels=4),
        nn.contrib_depthwise_conv2d_nchwc(xs, ds, groups=8, kernel_layout="OIHW1i4o", out_layout="NCHW4c"),
        nn.contrib_dense_pack(rs, ns, units=8),
        nn.contrib_dense_pack(rs, ms, "NC4n2c"),
    )
    expected = (
        relaid(onnx_result("Conv", data, weight, pads=[1] * 4), "NCHW", "NCHW4c"),
        relaid(onnx_result("Conv", data, deep, group=8), "NCHW", "NCHW4c"),
        rows @ square.T,
        rows @ square.T,
    )
    assert_same(run(x, w, d, rows, n, m), expected, rtol=1e-4, atol=1e-5)


def test_a_packed_weight_shows_its_blocks_where_its_layout_does_not_name_them() -> None:
    data, weight, deep = numbers(2, 8, 5, 5), numbers(4, 8, 3, 3), numbers(8, 1, 3, 3)
    x, w, d = relaid(data, "NCHW", "NCHW8c"), relaid(weight, "OIHW", "OIHW8i4o"), relaid(deep, "OIHW", "OIHW1i8o")
    xs, ws, ds = (var(n, shape=t.shape) for n, t in (("x", x), ("w", w), ("d", d)))
    run = compiled(
        [xs, ws, ds],
        nn.contrib_conv2d_nchwc(xs, ws, padding=1, out_layout="NCHW4c", channels=4, kernel_size=(3, 3)),
        nn.contrib_depthwise_conv2d_nchwc(xs, ds, groups=8),
    )
    expected = (
        relaid(onnx_result("Conv", data, weight, pads=[1] * 4), "NCHW", "NCHW4c"),
        relaid(onnx_result("Conv", data, deep, group=8), "NCHW", "NCHW8c"),
    )
    assert_same(run(x, w, d), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "target"),
    [("NCHW", "NCHW2c"), ("NCHW2c", "NHWC"), ("NCHW2c", "NCHW4c"), ("NHWC", "HWNC2n2c"), ("NCHW2c2c", "NCHW4c")],
)
def test_layout_transform_moves_between_blocks(source: str, target: str, dim: Any) -> None:
    data = numbers(2, 8, 3, 5)
    before, after = relaid(data, "NCHW", source), relaid(data, "NCHW", target)
    x = var("x", shape=shape_of(before, source, dim))
    assert_same(compiled([x], relay.layout_transform(x, source, target))(before), after)


def test_layout_transform_fills_a_last_block_with_zeros() -> None:
    data = numbers(1, 3, 2, 2)
    x = var("x", shape=(1, Any_(), 2, 2))
    padded = np.concatenate([data, np.zeros((1, 1, 2, 2), "float32")], axis=1)
    assert_same(compiled([x], relay.layout_transform(x, "NCHW", "NCHW4c"))(data), relaid(padded, "NCHW", "NCHW4c"))


def test_index_and_position_of_a_layout_are_inverse() -> None:
    layout = Layout.of("OIHW4i3o2i")
    whole = {"O": 7, "I": 13, "H": 1, "W": 2}
    index = [int(i) for i in layout.index(whole)]
    assert index == [2, 1, 1, 2, 2, 1, 1]
    assert {letter: int(i) for letter, i in layout.position(index).items()} == whole


def test_weight_without_a_type_gets_that_of_its_layout() -> None:
    x, w = var("x", shape=(1, 8, 224, 224, 4, 4), dtype="int8"), var("w", shape=(4, 8, 3, 3, 4, 4), dtype="int8")
    options = {"padding": 1, "channels": 16, "kernel_size": (3, 3), "data_layout": "NCHW4n4c", "out_dtype": "int32"}
    typed = relay.transform.infer_expr(relay.Function([x, w], nn.conv2d(x, w, kernel_layout="OIHW4o4i", **options)))
    assert str(typed.ret_type) == "Tensor[(1, 4, 224, 224, 4, 4), int32]"
    v = var("v", dtype="int8")
    relay.transform.infer_expr(relay.Function([x, v], nn.conv2d(x, v, kernel_layout="OIHW4o4i", **options)))
    assert str(v.checked_type) == "Tensor[(4, 8, 3, 3, 4, 4), int8]"


@pytest.mark.parametrize(
    ("data", "weight", "options", "reason"),
    [
        ((1, 2, 5, 5, 3), (4, 4, 3, 3), {"data_layout": "NCHW2c"}, "data has 3 elements in the block 2c of NCHW2c"),
        ((1, 4, 5, 5), (4, 4, 3, 3), {"data_layout": "NCHW2c"}, "data must have 5 dimensions, not 4"),
        ((1, 4, 5, 5), (3, 4, 3, 3), {"out_layout": "NCHW2c"}, "axis C has 3 elements, which the blocks of NCHW2c"),
        ((1, 4, 2, 5, 2), (4, 4, 3, 3), {"data_layout": "NCHW2h"}, "data_layout 'NCHW2h' cuts one of the spatial axes"),
    ],
)
def test_type_errors_name_the_block(data: Any, weight: Any, options: Any, reason: str) -> None:
    x, w = var("x", shape=data), var("w", shape=weight)
    assert type_error([x, w], nn.conv2d(x, w, **options)).startswith(reason)


def test_blocks_that_do_not_fit_at_run_time_are_an_error() -> None:
    x, w = var("x", shape=(1, 2, 5, 5, Any_())), var("w", shape=(Any_(), 4, 3, 3))
    result = nn.conv2d(x, w, data_layout="NCHW2c")
    run = compiled([x, w], result)
    assert run(numbers(1, 2, 5, 5, 2), numbers(4, 4, 3, 3)).shape == (1, 2, 3, 3, 2)
    with pytest.raises(VMError, match="data has 3 elements in the block c of NCHW2c, expected 2"):
        run(numbers(1, 2, 5, 5, 3), numbers(4, 4, 3, 3))
    with pytest.raises(VMError, match="the blocks of NCHW2c do not divide axis C; 1 is left"):
        run(numbers(1, 2, 5, 5, 2), numbers(3, 4, 3, 3))


def test_a_layout_that_is_none_is_refused() -> None:
    x = var("x", shape=(1, 4, 5, 5))
    for layout in ("NCH", "NCHWc", "NCHW0c", "NNCHW", "16cNHW"):
        with pytest.raises(TypeCheckError):
            relay.transform.infer_expr(relay.Function([x], relay.layout_transform(x, "NCHW", layout)))
