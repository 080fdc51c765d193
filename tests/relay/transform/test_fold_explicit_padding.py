"""FoldExplicitPadding: padding that operators do by themselves, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import after, assert_becomes, operators
from vmkit import relay
from vmkit.relay.transform import FoldExplicitPadding

LEAST = float(np.finfo("float32").min)


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


IMAGE = v("x", 1, 3, 8, 8)
WIDTHS = ((0, 0), (0, 0), (1, 2), (0, 3))


def unchanged(expr: Any, *params: Any) -> None:
    assert_becomes(FoldExplicitPadding(), expr, expr, *params)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("is_last", [False, True])
def test_convolutions_take_zeros_on_their_spatial_axes(rank: int, is_last: bool):
    spatial, sides = "DHW"[3 - rank :], [(1, 2), (0, 3), (2, 0)][:rank]
    data = f"N{spatial}C" if is_last else f"NC{spatial}"
    shape = {"N": 1, "C": 3, **dict.fromkeys(spatial, 6)}
    kernel = f"{spatial}IO" if is_last else f"OI{spatial}"
    filters = {"O": 4, "I": 3, **dict.fromkeys(spatial, 3)}
    x, w = v("x", *[shape[a] for a in data]), v("w", *[filters[a] for a in kernel])
    conv = getattr(relay.nn, f"conv{rank}d")
    widths = {**dict.fromkeys("NC", (0, 0)), **dict(zip(spatial, sides, strict=True))}
    own = [1, 0, 2, 1, 0, 1][: 2 * rank]
    attrs = {"data_layout": data, "kernel_layout": kernel}
    before = conv(relay.nn.pad(x, [widths[a] for a in data]), w, padding=own, **attrs)
    added = [side[i] for i in (0, 1) for side in sides]
    expected = conv(x, w, padding=[a + b for a, b in zip(own, added, strict=True)], **attrs)
    assert_becomes(FoldExplicitPadding(), before, expected, x, w)


def test_an_average_counts_what_was_padded_as_before():
    before = relay.nn.avg_pool2d(relay.nn.pad(IMAGE, WIDTHS), (2, 2))
    expected = relay.nn.avg_pool2d(IMAGE, (2, 2), padding=(1, 0, 2, 3), count_include_pad=True)
    assert_becomes(FoldExplicitPadding(), before, expected, IMAGE)
    before = relay.nn.avg_pool2d(relay.nn.pad(IMAGE, WIDTHS), (2, 2), padding=(1, 1, 0, 0), count_include_pad=True)
    expected = relay.nn.avg_pool2d(IMAGE, (2, 2), padding=(2, 1, 2, 3), count_include_pad=True)
    assert_becomes(FoldExplicitPadding(), before, expected, IMAGE)


def test_a_maximum_takes_the_least_number_of_its_type():
    before = relay.nn.max_pool2d(relay.nn.pad(IMAGE, WIDTHS, LEAST), (2, 2))
    assert_becomes(FoldExplicitPadding(), before, relay.nn.max_pool2d(IMAGE, (2, 2), padding=(1, 0, 2, 3)), IMAGE)
    x = v("x", 1, 3, 8, 8, dtype="uint8")
    before = relay.nn.max_pool2d(relay.nn.pad(x, WIDTHS, relay.const(0, "uint8")), (2, 2))
    assert_becomes(FoldExplicitPadding(), before, relay.nn.max_pool2d(x, (2, 2), padding=(1, 0, 2, 3)), x)


def quantized(x: Any, w: Any, zero: int, **attrs: Any) -> Any:
    scale = relay.const(1.0)
    points = relay.const(zero, "int32"), relay.const(1, "int32")
    return relay.qnn.op.conv2d(x, w, *points, scale, scale, kernel_size=(3, 3), channels=4, **attrs)


def test_a_quantized_convolution_takes_the_zero_point():
    x, w = v("x", 1, 3, 8, 8, dtype="int8"), v("w", 4, 3, 3, 3, dtype="int8")
    before = quantized(relay.nn.pad(x, WIDTHS, 5.0), w, 5)
    assert_becomes(FoldExplicitPadding(), before, quantized(x, w, 5, padding=(1, 0, 2, 3)), x, w)
    unchanged(quantized(relay.nn.pad(x, WIDTHS, 0.0), w, 5), x, w)


def test_what_an_operator_cannot_do_by_itself_stays():
    w, pool = v("w", 4, 3, 3, 3), relay.nn.avg_pool2d
    unchanged(relay.nn.conv2d(relay.nn.pad(IMAGE, WIDTHS, 1.0), w), IMAGE, w)
    unchanged(relay.nn.conv2d(relay.nn.pad(IMAGE, WIDTHS, pad_mode="edge"), w), IMAGE, w)
    unchanged(relay.nn.conv2d(relay.nn.pad(v("y", 1, 2, 8, 8), ((0, 0), (0, 1), (1, 1), (1, 1))), w))
    unchanged(pool(relay.nn.pad(IMAGE, WIDTHS), (2, 2), padding=(1, 1, 0, 0)), IMAGE)
    unchanged(pool(relay.nn.pad(IMAGE, WIDTHS), (2, 2), (2, 2), ceil_mode=True), IMAGE)
    unchanged(pool(relay.nn.pad(IMAGE, WIDTHS, 1.0), (2, 2)), IMAGE)
    unchanged(relay.nn.max_pool2d(relay.nn.pad(IMAGE, WIDTHS), (2, 2)), IMAGE)
    value = v("value")
    unchanged(relay.nn.conv2d(relay.nn.pad(IMAGE, WIDTHS, value), w), IMAGE, w, value)


def test_a_network_computes_the_same():
    w = v("w", 4, 3, 3, 3)
    y = relay.nn.conv2d(relay.nn.pad(IMAGE, WIDTHS), w)
    z = relay.nn.avg_pool2d(relay.nn.pad(y, ((0, 0), (0, 0), (1, 0), (1, 1))), (3, 3))
    body = relay.nn.max_pool2d(relay.nn.pad(z, ((0, 0), (0, 0), (1, 1), (1, 1)), LEAST), (2, 2))
    got = after(FoldExplicitPadding(), body, IMAGE, w)
    assert operators(got) == ["nn.conv2d", "nn.avg_pool2d", "nn.max_pool2d"]
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(s).astype("float32") for s in ((1, 3, 8, 8), (4, 3, 3, 3))]
    expected = compiled([IMAGE, w], body)(*values)
    assert_same(compiled(list(got.params), got.body)(*values), expected, rtol=1e-5, atol=1e-5)
