"""ConvertLayout: what follows a convolution goes on in its layout, and everything computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.attaching import attached_to
from tests.relay.transform.passes import after, assert_becomes, operators
from vmkit import relay
from vmkit.errors import OptionError
from vmkit.relay.op.registry import build
from vmkit.relay.transform import ConvertLayout, LayoutConfig

TO_NCHW = {"nn.conv2d": ["NCHW", "default"]}
TO_NHWC = {"nn.conv2d": ["NHWC", "default"]}


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


X, W = v("x", 1, 8, 8, 4), v("w", 3, 3, 4, 6)
W2 = v("w2", 3, 3, 6, 6)


def nhwc(x: Any, w: Any, channels: int = 6, **attrs: Any) -> Any:
    return relay.nn.conv2d(
        x, w, channels=channels, kernel_size=(3, 3), padding=(1, 1), data_layout="NHWC", kernel_layout="HWIO", **attrs
    )


def nchw(x: Any, w: Any, channels: int = 6) -> Any:
    return relay.nn.conv2d(x, w, channels=channels, kernel_size=(3, 3), padding=(1, 1))


def lt(x: Any, source: str = "NHWC", target: str = "NCHW") -> Any:
    return relay.layout_transform(x, source, target)


def kernel(w: Any) -> Any:
    return lt(w, "HWIO", "OIHW")


def back(x: Any) -> Any:
    return lt(x, "NCHW", "NHWC")


def test_a_layout_that_is_there_already_changes_nothing() -> None:
    x, w = v("x", 1, 4, 8, 8), v("w", 6, 4, 3, 3)
    before = relay.nn.relu(nchw(x, w))
    assert_becomes(ConvertLayout(TO_NCHW), before, before)


def test_elementwise_operators_follow() -> None:
    before = relay.nn.relu(nhwc(X, W))
    assert_becomes(ConvertLayout(TO_NCHW), before, back(relay.nn.relu(nchw(lt(X), kernel(W)))), X, W)


def test_bias_scalars_and_pools_follow() -> None:
    b = v("b", 6)
    y = relay.nn.relu(relay.nn.bias_add(nhwc(X, W), b, axis=3) + relay.const(1.0))
    before = relay.cast(relay.nn.max_pool2d(y, (2, 2), layout="NHWC"), "int32")
    bias = lt(relay.expand_dims(b, 0, 3))
    y = relay.nn.relu(relay.add(nchw(lt(X), kernel(W)), bias) + relay.const(1.0))
    assert_becomes(ConvertLayout(TO_NCHW), before, back(relay.cast(relay.nn.max_pool2d(y, (2, 2)), "int32")), X, W, b)


def test_operators_with_layouts_of_their_own_keep_them() -> None:
    before = relay.nn.max_pool2d(relay.nn.relu(nhwc(X, W)), (2, 2), layout="NHWC")
    y = back(relay.nn.relu(nchw(lt(X), kernel(W))))
    expected = relay.nn.max_pool2d(y, (2, 2), layout="NHWC", out_layout="NHWC")
    assert_becomes(ConvertLayout({**TO_NCHW, "nn.max_pool2d": ["NHWC"]}), before, expected, X, W)


def test_concatenation_of_both_kinds() -> None:
    y = nhwc(X, W)
    before = relay.concatenate([y, nhwc(y, W2)], axis=3)
    z = nchw(lt(X), kernel(W))
    expected = back(relay.concatenate([z, nchw(z, kernel(W2))], axis=1))
    assert_becomes(ConvertLayout(TO_NCHW), before, expected, X, W, W2)


def test_a_value_used_in_both_layouts_is_changed_back_once() -> None:
    y = relay.nn.relu(nhwc(X, W))
    before = relay.Tuple([relay.nn.relu(nhwc(y, W2)), relay.nn.batch_flatten(y)])
    z = relay.nn.relu(nchw(lt(X), kernel(W)))
    expected = relay.Tuple([back(relay.nn.relu(nchw(z, kernel(W2)))), relay.nn.batch_flatten(back(z))])
    assert_becomes(ConvertLayout(TO_NCHW), before, expected, X, W, W2)


@pytest.mark.parametrize("name", ["layer_norm", "instance_norm"])
def test_normalisation_follows_with_its_axis(name: str) -> None:
    norm, g, b = getattr(relay.nn, name), v("g", 6), v("b", 6)
    before = norm(nhwc(X, W), g, b, axis=3)
    assert_becomes(ConvertLayout(TO_NCHW), before, back(norm(nchw(lt(X), kernel(W)), g, b, axis=1)), X, W, g, b)


def test_a_resized_axis_is_where_it_lies_now() -> None:
    size, placement = v("size", 1, dtype="int64"), v("placement", 4, dtype="float64")

    def resized(data: Any, axis: int) -> Any:
        return build("image.contrib_resize_axis", data, size, placement, axis=axis, size=9)

    before, expected = resized(nhwc(X, W), -2), back(resized(nchw(lt(X), kernel(W)), 3))
    assert_becomes(ConvertLayout(TO_NCHW), before, expected, X, W, size, placement)


def test_batch_normalisation_follows_with_its_axis() -> None:
    parts = [v(n, 6) for n in "gbmv"]
    before = relay.nn.relu(relay.nn.batch_norm(nhwc(X, W), *parts, axis=3)[0])
    expected = back(relay.nn.relu(relay.nn.batch_norm(nchw(lt(X), kernel(W)), *parts, axis=1)[0]))
    assert_becomes(ConvertLayout(TO_NCHW), before, expected, X, W, *parts)


def test_transposes_and_slices_know_the_axes() -> None:
    y, z = nhwc(X, W), nchw(lt(X), kernel(W))
    table = [
        (relay.transpose(y, (0, 3, 1, 2)), relay.transpose(z, (0, 1, 2, 3))),
        (relay.transpose(y), relay.transpose(z, (1, 3, 2, 0))),
        (relay.slice_like(y, y, axes=(1, 2)), back(relay.slice_like(z, z, axes=(2, 3)))),
        (relay.sum(y, axis=(1, 2)), relay.sum(z, axis=(2, 3))),
        (relay.sum(y, axis=3, keepdims=True), back(relay.sum(z, axis=(1,), keepdims=True))),
        (relay.max(y, axis=0), lt(relay.max(z, axis=(0,)), "CHW", "HWC")),
    ]
    for before, expected in table:
        assert_becomes(ConvertLayout(TO_NCHW), before, expected, X, W)


def test_slices_whose_lists_end_early_are_filled_up() -> None:
    before = relay.strided_slice(nhwc(X, W), begin=[0, 1], end=[1, -1, 7], strides=[1, 1, 2, 1])
    expected = relay.strided_slice(nchw(lt(X), kernel(W)), [0, 0, 1, 0], [1, 6, -1, 7], [1, 1, 1, 2])
    assert_becomes(ConvertLayout(TO_NCHW), before, back(expected), X, W)


def test_other_layouts_and_kernels() -> None:
    x, w = v("x", 1, 4, 8, 8), v("w", 4, 1, 3, 3)
    depthwise = relay.nn.conv2d(x, w, channels=4, groups=4, kernel_size=(3, 3))
    got = after(ConvertLayout(TO_NHWC), depthwise, x, w)
    assert [c.attrs.dst_layout for c in _calls(got, "layout_transform")] == ["NHWC", "HWOI", "NCHW"]
    volume, k = v("x", 1, 4, 4, 4, 4), v("w", 2, 4, 3, 3, 3)
    got = after(ConvertLayout({"nn.conv3d": ["NDHWC", "default"]}), relay.nn.conv3d(volume, k), volume, k)
    assert [c.attrs.dst_layout for c in _calls(got, "layout_transform")] == ["NDHWC", "DHWIO", "NCDHW"]


def _calls(function: Any, name: str) -> list[Any]:
    nodes = relay.ir.post_order(function)
    return [n for n in nodes if isinstance(n, relay.Call) and n.op.name == name]


def test_a_network_computes_the_same() -> None:
    rng = np.random.default_rng(0)
    x = v("x", relay.Any(), 8, 8, 4)
    w, w2, b, big = v("w", 3, 3, 4, 6), v("w2", 3, 3, 6, 6), v("b", 6), v("big", 8, 8, 6)
    y = relay.nn.relu(relay.nn.bias_add(nhwc(x, w), b, axis=3)) * big
    branch = relay.nn.prelu(nhwc(y, w2), b, axis=3)
    parts = relay.split(relay.concatenate([y, branch], axis=-1), 2, axis=3)
    z = relay.nn.softmax(relay.nn.pad(parts[0] + parts[1], ((0, 0), (1, 0), (0, 2), (0, 0))), axis=-1)
    tail = relay.strided_slice(z, [0, 1, 0, 1], [9, 7, 6, 6], [1, 2, 1, 1])
    pooled = relay.nn.avg_pool2d(tail, (2, 2), layout="NHWC")
    body = relay.Tuple(
        [pooled, relay.mean(z, axis=(1, 2)), relay.argmax(z, axis=3), relay.squeeze(relay.max(y, 1, True), [1])]
    )
    params = [x, w, w2, b, big]
    got = after(ConvertLayout(TO_NCHW), body, *params)
    assert operators(got).count("layout_transform") <= 9
    shapes = [(2, 8, 8, 4), (3, 3, 4, 6), (3, 3, 6, 6), (6,), (8, 8, 6)]
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    expected = compiled(params, body)(*values)
    assert_same(compiled(list(got.params), got.body)(*values), expected, rtol=1e-4, atol=1e-4)


def test_unknown_operators_and_layouts_are_refused() -> None:
    with pytest.raises(OptionError, match=r"there is no operator 'nn\.conv2'; did you mean"):
        ConvertLayout({"nn.conv2": ["NCHW"]})
    with pytest.raises(OptionError, match="a list that begins with the data layout"):
        ConvertLayout({"nn.conv2d": "NCHW"})
    x, w = v("x", 1, 3, 8, 8), v("w", 8, 3, 3, 3)
    with pytest.raises(
        OptionError, match=r"no kernel layout goes with NHCW by default; name one; did you mean .*'NHWC'"
    ):
        after(ConvertLayout({"nn.conv2d": ["NHCW", "default"]}), nchw(x, w, 8), x, w)


def test_blocks_make_packed_convolutions_where_they_divide_the_channels() -> None:
    x, w, w2 = v("x", 1, 3, 8, 8), v("w", 8, 3, 3, 3), v("w2", 8, 8, 3, 3)
    before = relay.nn.relu(nchw(relay.nn.relu(nchw(x, w, 8)), w2, 8))
    y = lt(relay.nn.relu(nchw(x, w, 8)), "NCHW", "NCHW4c")
    packed = relay.nn.contrib_conv2d_nchwc(
        y,
        lt(w2, "OIHW", "OIHW4i4o"),
        channels=8,
        kernel_size=(3, 3),
        padding=(1, 1),
        data_layout="NCHW4c",
        kernel_layout="OIHW4i4o",
    )
    expected = lt(relay.nn.relu(packed), "NCHW4c", "NCHW")
    assert_becomes(ConvertLayout({"nn.conv2d": ["NCHW4c", "OIHW4i4o"]}), before, expected, x, w, w2)


def test_a_configuration_leaves_convolutions_as_they_are() -> None:
    before = relay.nn.relu(nhwc(nhwc(X, W), W2))
    with LayoutConfig(skip_layers=[1]) as config:
        got = relay.nn.relu(nhwc(back(nchw(lt(X), kernel(W))), W2))
        assert_becomes(ConvertLayout(TO_NCHW), before, got, X, W, W2)
    assert config.skip_counter == 2
    assert LayoutConfig.current is None


def test_an_attached_function_converts_instead() -> None:
    def by_hand(attrs: Any, inputs: Any, tinfos: Any, desired: Any) -> Any:
        assert list(desired) == ["NCHW", "default"]
        return nchw(*inputs)

    with attached_to("nn.conv2d", "FTVMConvertOpLayout", by_hand):
        assert_becomes(
            ConvertLayout(TO_NCHW), relay.nn.relu(nhwc(X, W)), back(relay.nn.relu(nchw(lt(X), kernel(W)))), X, W
        )


def test_an_operator_without_layouts_of_its_own_stays(caplog: pytest.LogCaptureFixture) -> None:
    before = relay.nn.relu(nhwc(X, W))
    assert_becomes(ConvertLayout({"nn.relu": ["NCHW"]}), before, before, X, W)
    assert "desired_layouts of nn.relu: the operator has no layout of its own" in caplog.text


def test_topk_and_regions_of_interest_follow() -> None:
    y, z = nhwc(X, W), nchw(lt(X), kernel(W))
    assert_becomes(ConvertLayout(TO_NCHW), relay.topk(y, 2, axis=3)[0], back(relay.topk(z, 2, axis=1)[0]), X, W)
    rois = v("rois", 2, 5)
    before = relay.vision.roi_align(y, rois, (2, 2), 1.0, 2, layout="NHWC")
    wanted = {**TO_NCHW, "vision.roi_align": ["NCHW", "default"]}
    expected = back(relay.vision.roi_align(z, rois, (2, 2), 1.0, 2, layout="NCHW"))
    assert_becomes(ConvertLayout(wanted), before, expected, X, W, rois)


def test_the_gradient_by_the_weight_takes_both_tensors_in_a_layout() -> None:
    grad, data = v("grad", 1, 6, 8, 8), v("x", 1, 4, 8, 8)
    attrs = {"channels": 6, "kernel_size": (3, 3), "padding": (1, 1)}
    before = relay.nn.conv2d_backward_weight(
        grad, data, grad_layout="NCHW", data_layout="NCHW", kernel_layout="OIHW", **attrs
    )
    made = relay.nn.conv2d_backward_weight(
        lt(grad, "NCHW", "NHWC"),
        lt(data, "NCHW", "NHWC"),
        grad_layout="NHWC",
        data_layout="NHWC",
        kernel_layout="HWIO",
        **attrs,
    )
    wanted = {"nn.conv2d_backward_weight": ["NHWC", "default"]}
    assert_becomes(ConvertLayout(wanted), before, lt(made, "HWIO", "OIHW"), grad, data)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 1, 1, 6), (6,)])
@pytest.mark.parametrize("is_first", [False, True])
def test_an_operand_that_is_broadcast_follows_the_other_one(shape: tuple[int, ...], is_first: bool) -> None:
    b = v("b", *shape)
    y = nhwc(X, W)
    before = relay.nn.relu(relay.multiply(*((b, y) if is_first else (y, b))))
    y = nchw(lt(X), kernel(W))
    moved = lt(b if len(shape) == 4 else relay.expand_dims(b, 0, 3))
    assert_becomes(
        ConvertLayout(TO_NCHW),
        before,
        back(relay.nn.relu(relay.multiply(*((moved, y) if is_first else (y, moved))))),
        X,
        W,
        b,
    )
