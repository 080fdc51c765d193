"""Scales of channels move into weights where they can, and the values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import after, assert_becomes, operators
from vmkit import relay
from vmkit.relay.transform import BackwardFoldScaleAxis, FoldScaleAxis, ForwardFoldScaleAxis
from vmkit.relay.transform.channel_scale import channel_axes, kernel_axes, scale_of

relu = relay.nn.relu


def v(name: str, *shape: Any) -> relay.Var:
    return relay.var(name, shape=shape)


def positive(*shape: int) -> Any:
    return relay.const(np.random.default_rng(len(shape)).uniform(0.5, 1, shape).astype("float32"))


def conv(x: Any, w: Any, **attrs: Any) -> Any:
    return relay.nn.conv2d(x, w, padding=(1, 1), **attrs)


def assert_values(run: Any, body: Any, *params: relay.Var) -> None:
    got = after(run, body, *params)
    rng = np.random.default_rng(0)
    shapes = [[2 if isinstance(d, relay.Any) else d for d in p.type_annotation.shape] for p in params]
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    expected = compiled(list(params), body)(*values)
    assert_same(compiled(list(got.params), got.body)(*values), expected, rtol=1e-4, atol=1e-4)


X, W, B = v("x", relay.Any(), 4, 6, 6), v("w", 2, 4, 3, 3), v("b", 4, 1, 1)
S = positive(4, 1, 1)


def test_a_scale_moves_on_into_a_convolution() -> None:
    before = conv(relu(X * S) + B, W)
    vector = relay.squeeze(S, [1, 2])
    expected = conv(relu(X) + relay.divide(B, relay.expand_dims(vector, 1, 2)), W * relay.expand_dims(vector, 1, 2))
    assert_becomes(ForwardFoldScaleAxis(), before, expected, X, W, B)
    assert_values(ForwardFoldScaleAxis(), before, X, W, B)


def test_a_scale_moves_on_into_all_users() -> None:
    x, w, b, s = v("x", 2, 6, 6, 3), v("w", 3, 3, 1, 3), v("b", 3), positive(3)
    attrs = {"data_layout": "NHWC", "kernel_layout": "HWIO", "groups": 3, "channels": 3}
    y = relu(s * x) - b
    before = conv(y, w, **attrs) + conv(y, w, **attrs)
    z = relu(x) - relay.divide(b, s)
    expected = conv(z, w * s, **attrs) + conv(z, w * s, **attrs)
    assert_becomes(ForwardFoldScaleAxis(), before, expected, x, w, b)
    assert_values(ForwardFoldScaleAxis(), before, x, w, b)


def test_a_scale_moves_on_into_a_dense_layer() -> None:
    x, w, b, s = v("x", 2, 4), v("w", 3, 4), v("b", 4), positive(4)
    before = relay.nn.dense(relu(x * s) + b, w)
    assert_becomes(ForwardFoldScaleAxis(), before, relay.nn.dense(relu(x) + relay.divide(b, s), w * s), x, w, b)


def test_scales_along_the_two_parts_of_blocked_channels() -> None:
    scale = scale_of(positive(1, 2, 1, 1, 2), v("x", 2, 2, 6, 6, 2), channel_axes("NCHW2c"))
    assert scale is not None and scale.axes == (1, 4)
    assert list(scale.vector.attrs.axis) == [0, 2, 3]
    kernel = scale.along(kernel_axes("OIHW2i4o", "I"), [2, 2, 3, 3, 2, 4])
    assert list(kernel.attrs.newshape) == [1, 2, 1, 1, 2, 1]
    assert kernel_axes("OIHW2i4o", "O") == (0, 5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: conv(relay.nn.leaky_relu(y := X * S, 0.1), W) + relay.sum(y),
        lambda: conv(relu(X * relay.const(-S.data.numpy())), W),
        lambda: conv(relu(X * B), W),
        lambda: conv(X * B + S, W),
        lambda: conv(relay.tanh(X * S), W),
        lambda: relu(X * S),
    ],
)
def test_a_scale_that_cannot_move_on_stays(make: Any) -> None:
    before = make()
    assert_becomes(ForwardFoldScaleAxis(), before, before, X, W, B)


def test_a_negative_scale_needs_no_sign_kept() -> None:
    s = relay.const(-S.data.numpy())
    got = after(ForwardFoldScaleAxis(), conv(X * s, W), X, W)
    assert operators(got).count("multiply") == 1
    assert_values(ForwardFoldScaleAxis(), conv(X * s, W), X, W)


OUT, BIAS, OTHER = positive(2, 1, 1), v("bias", 2), v("other", 2, 4, 3, 3)


def test_a_scale_moves_back_into_a_convolution() -> None:
    bias = relay.expand_dims(BIAS, 1, 2)
    before = relu(conv(X, W) + bias) * OUT
    vector = relay.squeeze(OUT, [1, 2])
    weight = W * relay.expand_dims(vector, 1, 3)
    expected = relu(conv(X, weight) + bias * relay.expand_dims(vector, 1, 2))
    assert_becomes(BackwardFoldScaleAxis(), before, expected, X, W, BIAS)
    assert_values(BackwardFoldScaleAxis(), before, X, W, BIAS)


def test_a_scale_moves_back_into_both_sides_of_a_sum() -> None:
    before = (relu(conv(X, W)) + relu(conv(X, OTHER))) * OUT
    vector = relay.squeeze(OUT, [1, 2])
    first, second = (kernel * relay.expand_dims(vector, 1, 3) for kernel in (W, OTHER))
    expected = relu(conv(X, first)) + relu(conv(X, second))
    assert_becomes(BackwardFoldScaleAxis(), before, expected, X, W, OTHER)


def test_scales_of_layers_in_a_row_move_back_each() -> None:
    w2 = v("w2", 2, 2, 3, 3)
    before = relu(conv(relu(conv(X, W) * OUT), w2) * OUT)
    got = after(BackwardFoldScaleAxis(), before, X, W, w2)
    assert operators(got)[-1] == "nn.relu" and operators(got).count("multiply") == 2
    assert_values(BackwardFoldScaleAxis(), before, X, W, w2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: (y := relu(conv(X, W))) * OUT + y,
        lambda: relu(conv(X, W)) * relay.const(-OUT.data.numpy()),
        lambda: relu(conv(X, W)) * relay.expand_dims(BIAS, 1, 2),
        lambda: conv(X, W) * positive(6),
        lambda: (relu(conv(X, W)) + X2) * OUT,
    ],
)
def test_a_scale_that_cannot_move_back_stays(make: Any) -> None:
    before = make()
    assert_becomes(BackwardFoldScaleAxis(), before, before, X, W, BIAS, X2)


X2 = v("x2", relay.Any(), 2, 6, 6)


def test_a_scalar_moves_back_and_is_computed() -> None:
    w = relay.const(np.ones((2, 4, 3, 3), "float32"))
    x, b = v("x", 1, 4, 6, 6), relay.const(np.ones((2, 1, 1), "float32"))
    before = relu(conv(x, w) + b) * relay.const(2.0)
    two = relay.const(np.full((2, 4, 3, 3), 2.0, "float32"))
    assert_becomes(FoldScaleAxis(), before, relu(conv(x, two) + relay.const(np.full((2, 1, 1), 2.0, "float32"))), x)


def deconv(x: Any, w: Any, **attrs: Any) -> Any:
    return relay.nn.conv2d_transpose(x, w, strides=(2, 2), **attrs)


def test_a_scale_moves_back_into_a_transposed_convolution() -> None:
    x, w = v("x", 1, 3, 5, 5), v("w", 3, 4, 2, 2)
    vector = relay.squeeze(S, [1, 2])
    after_it = relay.expand_dims(vector, 1, 2)
    assert_becomes(BackwardFoldScaleAxis(), deconv(x, w) * S, deconv(x, w * after_it), x, w)
    assert_values(BackwardFoldScaleAxis(), deconv(x, w) * S, x, w)


def test_the_groups_of_a_transposed_convolution_are_along_its_inputs() -> None:
    x, one, two = v("x", 1, 4, 5, 5), v("one", 4, 1, 2, 2), v("two", 4, 3, 2, 2)
    wide = relay.expand_dims(relay.squeeze(S, [1, 2]), 1, 3)
    depthwise = {"groups": 4}
    expected = deconv(x, one * wide, **depthwise)
    assert_becomes(BackwardFoldScaleAxis(), deconv(x, one, **depthwise) * S, expected, x, one)
    assert_values(BackwardFoldScaleAxis(), deconv(x, one, **depthwise) * S, x, one)
    grouped = {"groups": 2}
    assert_becomes(ForwardFoldScaleAxis(), deconv(x * S, two, **grouped), deconv(x, two * wide, **grouped), x, two)
    assert_values(ForwardFoldScaleAxis(), deconv(x * S, two, **grouped), x, two)
    several = deconv(x, two, **grouped) * positive(6, 1, 1)
    assert "multiply" in operators(after(BackwardFoldScaleAxis(), several, x, two))


def assert_folds(run: Any, before: Any, expected: Any, *params: relay.Var) -> None:
    """Assert that a pass makes one expression another, and that both compute the same."""
    assert_becomes(run, before, expected, *params)
    assert_values(run, before, *params)


def test_a_scale_moves_back_into_a_dense_layer_through_its_bias() -> None:
    x, w, b, s = v("x", 3, 4), v("w", 5, 4), v("b", 5), positive(5)
    before = relu(relay.nn.bias_add(relay.nn.dense(x, w), b)) * s
    expected = relu(relay.nn.bias_add(relay.nn.dense(x, w * relay.expand_dims(s, 1, 1)), b * s))
    assert_folds(BackwardFoldScaleAxis(), before, expected, x, w, b)
    summed = (b + relay.nn.dense(x, w)) * s
    assert_folds(BackwardFoldScaleAxis(), summed, b * s + relay.nn.dense(x, w * relay.expand_dims(s, 1, 1)), x, w, b)


def test_weights_of_dense_layers_may_be_kept_from_being_computed_at_run_time() -> None:
    run = BackwardFoldScaleAxis(run_time_weights=False)
    x, w, s, known = v("x", 3, 4), v("w", 5, 4), positive(5), positive(5, 4)
    for weight, scale in ((w, s), (known, v("s", 5))):
        before = relay.nn.dense(x, weight) * scale
        assert_becomes(run, before, before)
    shared = relay.nn.dense(x, known) * s + relay.nn.dense(x + x, known)
    assert_becomes(run, shared, shared, x)
    assert_folds(run, relay.nn.dense(x, known) * s, relay.nn.dense(x, known * relay.expand_dims(s, 1, 1)), x)


@pytest.mark.parametrize("run_time_weights", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_scale_that_a_tuple_takes_too_stays(is_first: bool, run_time_weights: bool) -> None:
    scaled, kernel = X * S, positive(2, 4, 3, 3)
    fields = [scaled, conv(scaled, kernel)]
    before = relay.Tuple(fields if is_first else fields[::-1])
    assert_becomes(ForwardFoldScaleAxis(run_time_weights=run_time_weights), before, before, X)


@pytest.mark.parametrize("is_forward", [False, True])
def test_only_known_weights_take_known_scales_where_that_is_asked_for(is_forward: bool) -> None:
    """Of one row, or an image of one pixel, a gate has the shape of a scale of the channels."""
    fold = ForwardFoldScaleAxis if is_forward else BackwardFoldScaleAxis
    x, gate, known = v("x", 1, 4), v("gate", 1, 4), positive(4, 4)
    image, gates, kernel = v("image", 1, 4, 1, 1), v("gates", 1, 4, 1, 1), positive(4, 4, 1, 1)
    dense = relay.nn.dense(x * gate, known) if is_forward else relay.nn.dense(x, known) * gate
    convolved = conv(image * gates, kernel) if is_forward else conv(image, kernel) * gates
    for before in (dense, convolved):
        assert_becomes(fold(run_time_weights=False), before, before)
        assert isinstance(after(fold(), before).body.args[0], relay.Var)  # of the layer, which is all that is left
    row, scale = v("row", 1, 4), positive(1, 4)
    folded = relay.nn.dense(row * scale, known) if is_forward else relay.nn.dense(row, known) * scale
    found = after(fold(run_time_weights=False), folded, row).body
    assert found.op.name == "nn.dense" and isinstance(found.args[0], relay.Var)


@pytest.mark.parametrize(
    ("layout", "axis", "shape"), [("NCHW", 1, (6, 1, 1)), ("NCHW", -3, (6, 1, 1)), ("NHWC", 3, (6,))]
)
def test_a_bias_along_the_channels_is_scaled(layout: str, axis: int, shape: tuple[int, ...]) -> None:
    x, b, s = v("x", *((2, 4, 5, 5) if layout == "NCHW" else (2, 5, 5, 4))), v("b", 6), positive(*shape)
    w = v("w", *((6, 4, 3, 3) if layout == "NCHW" else (3, 3, 4, 6)))
    attrs = {"data_layout": layout, "kernel_layout": "OIHW" if layout == "NCHW" else "HWIO"}
    vector = relay.squeeze(s, [1, 2]) if layout == "NCHW" else s
    kernel = w * (relay.expand_dims(vector, 1, 3) if layout == "NCHW" else vector)
    before = relay.nn.bias_add(conv(x, w, **attrs), b, axis) * s
    expected = relay.nn.bias_add(conv(x, kernel, **attrs), b * vector, axis)
    assert_folds(BackwardFoldScaleAxis(), before, expected, x, w, b)


def test_a_bias_along_another_axis_keeps_the_scale_after_it() -> None:
    x, w, b = v("x", 1, 4, 6, 6), v("w", 6, 4, 3, 3), v("b", 6)
    before = relay.nn.bias_add(conv(x, w), b, axis=2) * positive(6, 1, 1)
    assert_becomes(BackwardFoldScaleAxis(), before, before, x, w, b)


BLOCKED = {"data_layout": "NCHW2c", "kernel_layout": "OIHW2i3o", "out_layout": "NCHW3c"}


@pytest.mark.parametrize("outer", [1, 2])
def test_a_scale_moves_on_into_a_blocked_convolution(outer: int) -> None:
    x, w, b = v("x", 1, outer, 5, 5, 2), v("w", 2, outer, 3, 3, 2, 3), v("b", 1, outer, 1, 1, 2)
    s = positive(1, outer, 1, 1, 2)
    before = conv(relu(x * s) - b, w, **BLOCKED)
    vector = relay.squeeze(s, [0, 2, 3])
    bias = relay.divide(b, relay.reshape(vector, (1, outer, 1, 1, 2)))
    expected = conv(relu(x) - bias, w * relay.reshape(vector, (1, outer, 1, 1, 2, 1)), **BLOCKED)
    assert_folds(ForwardFoldScaleAxis(), before, expected, x, w, b)


@pytest.mark.parametrize("outer", [1, 2])
def test_a_scale_moves_back_into_a_blocked_convolution(outer: int) -> None:
    x, w, b = v("x", 1, 2, 5, 5, 2), v("w", outer, 2, 3, 3, 2, 3), v("b", 1, outer, 1, 1, 3)
    s = positive(1, outer, 1, 1, 3)
    before = relu(conv(x, w, **BLOCKED) + b) * s
    vector = relay.squeeze(s, [0, 2, 3])
    kernel = w * relay.reshape(vector, (outer, 1, 1, 1, 1, 3))
    expected = relu(conv(x, kernel, **BLOCKED) + b * relay.reshape(vector, (1, outer, 1, 1, 3)))
    assert_folds(BackwardFoldScaleAxis(), before, expected, x, w, b)


def test_a_scale_of_a_single_channel_is_along_the_channels() -> None:
    x, w, one = v("x", 2, 1, 6, 6), v("w", 1, 1, 3, 3), positive(1, 1, 1)
    vector = relay.squeeze(one, [1, 2])
    back = conv(x, w * relay.expand_dims(vector, 1, 3))
    assert_folds(BackwardFoldScaleAxis(), conv(x, w) * one, back, x, w)
    assert_folds(ForwardFoldScaleAxis(), conv(x * one, w), conv(x, w * relay.expand_dims(vector, 1, 2)), x, w)


@pytest.mark.parametrize(
    ("make", "shape", "kernel"),
    [
        (relay.nn.conv1d, (2, 4, 7), (6, 4, 3)),
        (relay.nn.conv2d, (2, 4, 7, 7), (6, 4, 3, 3)),
        (relay.nn.conv3d, (1, 4, 5, 5, 5), (6, 4, 3, 3, 3)),
    ],
)
def test_convolutions_over_any_number_of_axes_take_scales(make: Any, shape: Any, kernel: Any) -> None:
    x, w, n = v("x", *shape), v("w", *kernel), len(shape) - 2
    into, out = (positive(c, *[1] * n) for c in (4, 6))
    inner, outer = (relay.squeeze(s, [*range(1, n + 1)]) for s in (into, out))
    expected = make(relu(x), w * relay.expand_dims(inner, 1, n))
    assert_folds(ForwardFoldScaleAxis(), make(relu(x * into), w), expected, x, w)
    expected = relu(make(x, w * relay.expand_dims(outer, 1, n + 1)))
    assert_folds(BackwardFoldScaleAxis(), relu(make(x, w)) * out, expected, x, w)


def test_a_depthwise_convolution_takes_scales_along_its_kernels() -> None:
    x, w, s = v("x", 1, 4, 6, 6), v("w", 4, 1, 3, 3), S
    wide = relay.expand_dims(relay.squeeze(s, [1, 2]), 1, 3)
    assert_folds(ForwardFoldScaleAxis(), conv(x * s, w, groups=4), conv(x, w * wide, groups=4), x, w)
    assert_folds(BackwardFoldScaleAxis(), conv(x, w, groups=4) * s, conv(x, w * wide, groups=4), x, w)


@pytest.mark.parametrize(("groups", "kernels"), [(2, 6), (4, 8)])
def test_groups_of_several_channels_or_kernels_take_no_scale_of_data(groups: int, kernels: int) -> None:
    x, w = v("x", 1, 4, 6, 6), v("w", kernels, 4 // groups, 3, 3)
    before = conv(x * S, w, groups=groups)
    assert_becomes(ForwardFoldScaleAxis(), before, before, x, w)


def test_a_scale_that_is_a_parameter_moves_where_no_sign_matters() -> None:
    x, w, s = v("x", 1, 4, 6, 6), v("w", 2, 4, 3, 3), v("s", 4, 1, 1)
    expected = conv(x, w * relay.expand_dims(relay.squeeze(s, [1, 2]), 1, 2))
    assert_folds(ForwardFoldScaleAxis(), conv(s * x, w), expected, x, w, s)
    through_relu = conv(relu(x * s), w)
    assert_becomes(ForwardFoldScaleAxis(), through_relu, through_relu, x, w, s)


def test_paths_whose_channels_lie_otherwise_take_no_scale() -> None:
    x, w = v("x", 4, 4, 6, 6), v("w", 4, 4, 3, 3)
    before = (relu(conv(x, w)) + relu(conv(x, w, out_layout="CNHW"))) * positive(4, 1, 1)
    assert_becomes(BackwardFoldScaleAxis(), before, before, x, w)


def test_paths_that_fork_and_join_are_searched_once() -> None:
    x, w = v("x", 1, 4, 6, 6), v("w", 2, 4, 3, 3)
    y = x * S
    for _ in range(40):
        y = relu(y) + relay.nn.leaky_relu(y, 0.5)
    assert_becomes(ForwardFoldScaleAxis(), y, y, x)
    assert_becomes(ForwardFoldScaleAxis(), conv(y, w), conv(y, w), x, w)
