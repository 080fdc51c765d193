"""AlterOpLayout: calls that scripts prefer, what follows them in their layout, and the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.attaching import attached_to
from tests.relay.transform.passes import after, assert_becomes, operators
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.transform import AlterOpLayout, InferCorrectLayoutOutput


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


X, W = v("x", 1, 8, 6, 6), v("w", 16, 8, 3, 3)


def conv(x: Any, w: Any, **attrs: Any) -> Any:
    return relay.nn.conv2d(x, w, channels=16, kernel_size=(3, 3), padding=(1, 1), **attrs)


def lt(x: Any, source: str = "NCHW", target: str = "NCHW4c") -> Any:
    return relay.layout_transform(x, source, target)


BLOCKED = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o"}


def blocked(x: Any, w: Any) -> Any:
    return conv(x, w, **BLOCKED)


def in_blocks(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
    values = {f.name: getattr(attrs, f.name) for f in attrs.declared}
    return relay.nn.conv2d(*inputs, **{**values, **BLOCKED})


def made(x: Any = X) -> Any:
    """The convolution after the pass, in blocks."""
    return blocked(lt(x), lt(W, "OIHW", "OIHW4i4o"))


@pytest.fixture
def blocks():
    with attached_to("nn.conv2d", "FTVMAlterOpLayout", in_blocks):
        yield


def test_without_attached_functions_nothing_changes():
    before = relay.nn.relu(conv(X, W))
    assert_becomes(AlterOpLayout(), before, before, X, W)


def test_a_function_sees_attributes_inputs_placeholders_and_the_type():
    seen = []

    def none(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> None:
        seen.append((attrs.data_layout, len(inputs), [list(t.shape) for t in tinfos], out_type))

    before = relay.nn.relu(conv(X, W))
    with attached_to("nn.conv2d", "FTVMAlterOpLayout", none):
        assert_becomes(AlterOpLayout(), before, before, X, W)
    layout, count, shapes, ty = seen[0]
    assert (layout, count, shapes) == ("NCHW", 2, [[1, 8, 6, 6], [16, 8, 3, 3]])
    assert ty == relay.TensorType((1, 16, 6, 6))


def test_inputs_may_become_other_expressions():
    def doubled(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
        data, weight = inputs
        values = {f.name: getattr(attrs, f.name) for f in attrs.declared}
        return relay.nn.conv2d(data, relay.multiply(weight, relay.const(2.0)), **values)

    with attached_to("nn.conv2d", "FTVMAlterOpLayout", doubled):
        expected = relay.nn.relu(conv(X, relay.multiply(W, relay.const(2.0))))
        assert_becomes(AlterOpLayout(), relay.nn.relu(conv(X, W)), expected, X, W)


def test_only_a_call_takes_the_place_of_a_call():
    with (
        attached_to("nn.conv2d", "FTVMAlterOpLayout", lambda *_: X),
        pytest.raises(ModelError, match=r"FTVMAlterOpLayout of nn\.conv2d must return a call or None"),
    ):
        after(AlterOpLayout(), conv(X, W), X, W)


B, ROW, ONE = v("b", 16), v("row", 6), v("one", 1)
FOLLOWING = {
    "elementwise": (lambda y: relay.cast(relay.nn.relu(y), "int32"), None, "NCHW4c"),
    "bias": (
        lambda y: relay.nn.bias_add(y, B),
        lambda z: relay.add(z, lt(relay.expand_dims(relay.expand_dims(B, 1, 2), 0, 1))),
        "NCHW4c",
    ),
    "row": (
        lambda y: relay.add(ROW, y),
        lambda z: relay.add(lt(relay.expand_dims(ROW, 0, 3), "NCHW", "NCHW1c"), z),
        "NCHW4c",
    ),
    "one element": (lambda y: relay.multiply(y, ONE), None, "NCHW4c"),
    "pool": (
        lambda y: relay.nn.max_pool2d(y, (2, 2)),
        lambda z: relay.nn.max_pool2d(z, (2, 2), layout="NCHW4c"),
        "NCHW4c",
    ),
    "sum of channels": (
        lambda y: relay.sum(y, axis=1, keepdims=True),
        lambda z: relay.sum(z, axis=[1, 4], keepdims=True),
        "NCHW1c",
    ),
    "all but channels": (
        lambda y: relay.mean(y, axis=1, exclude=True),
        lambda z: relay.mean(z, axis=[1, 4], exclude=True),
        "C4c",
    ),
    "pad": (
        lambda y: relay.nn.pad(y, ((0, 0), (0, 0), (1, 2), (0, 1))),
        lambda z: relay.nn.pad(z, ((0, 0), (0, 0), (1, 2), (0, 1), (0, 0))),
        "NCHW4c",
    ),
    "slice of whole blocks": (
        lambda y: relay.strided_slice(y, [0, 4], [1, 12]),
        lambda z: relay.strided_slice(z, [0, 1], [1, 3]),
        "NCHW4c",
    ),
    "slice by axes": (
        lambda y: relay.strided_slice(y, [8, 1], [16, 4], axes=[1, 3]),
        lambda z: relay.strided_slice(z, [2, 1], [4, 4], axes=[1, 3]),
        "NCHW4c",
    ),
    "concatenation": (
        lambda y: relay.concatenate([y, relay.nn.relu(y)], axis=1),
        None,
        "NCHW4c",
    ),
    "split": (
        lambda y: relay.split(y, [4, 12], axis=1)[1],
        lambda z: relay.split(z, [1, 3], axis=1)[1],
        "NCHW4c",
    ),
}


@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.usefixtures("blocks")
def test_what_follows_goes_on_in_blocks(name: str):
    before, expected, layout = FOLLOWING[name]
    wanted = lt((expected or before)(made()), layout, "C" if layout == "C4c" else "NCHW")
    assert_becomes(AlterOpLayout(), before(conv(X, W)), wanted, *_params(before(conv(X, W))))


STOPPING = {
    "padded channels": lambda y: relay.nn.pad(y, ((0, 0), (1, 1), (0, 0), (0, 0))),
    "slice through a block": lambda y: relay.strided_slice(y, [0, 2], [1, 16]),
    "slice with steps": lambda y: relay.strided_slice(y, [4], [12], [2], axes=[1]),
    "split through a block": lambda y: relay.split(y, [3], axis=1)[0],
    "normalisation over channels": lambda y: relay.nn.lrn(y),
    "softmax over channels": lambda y: relay.nn.softmax(y, axis=1),
    "flattened": lambda y: relay.nn.batch_flatten(y),
    "transposed": lambda y: relay.transpose(y, (0, 2, 3, 1)),
}


@pytest.mark.parametrize("name", STOPPING)
@pytest.mark.usefixtures("blocks")
def test_what_blocks_do_not_suit_takes_whole_axes(name: str):
    operator = STOPPING[name]
    assert_becomes(AlterOpLayout(), operator(conv(X, W)), operator(lt(made(), "NCHW4c", "NCHW")), X, W)


@pytest.mark.usefixtures("blocks")
def test_a_pool_with_a_layout_that_it_insists_on_keeps_it():
    def pool(y: Any) -> Any:
        return relay.nn.max_pool2d(y, (2, 2), layout="NCHW", out_layout="NHWC")

    got = after(AlterOpLayout(), relay.nn.relu(conv(X, W)), X, W)
    assert operators(got) == ["layout_transform", "layout_transform", "nn.conv2d", "nn.relu", "layout_transform"]


@pytest.mark.usefixtures("blocks")
def test_a_change_of_layout_is_made_once():
    y = conv(X, W)
    before = relay.Tuple([relay.nn.batch_flatten(y), relay.transpose(y, (0, 2, 3, 1)), relay.nn.relu(y)])
    got = after(AlterOpLayout(), before, X, W)
    # Of the data, of the weight, of the result for two operators, and of the result of relu.
    assert operators(got).count("layout_transform") == 4


def test_blocks_may_become_others_with_what_is_broadcast():
    x, w, b = v("x", 1, 2, 6, 6, 4), v("w", 1, 2, 1, 1, 4, 4), v("b", 1, 1, 1, 1, 4)
    attrs = {"channels": 4, "kernel_size": (1, 1)}
    before = relay.nn.conv2d(x, w, data_layout="NCHW4c", kernel_layout="OIHW4i4o", **attrs) + b

    def smaller(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
        values = {f.name: getattr(attrs, f.name) for f in attrs.declared}
        return relay.nn.conv2d(*inputs, **{**values, "data_layout": "NCHW2c", "kernel_layout": "OIHW2i2o"})

    y = relay.nn.conv2d(
        lt(x, "NCHW4c", "NCHW2c"),
        lt(w, "OIHW4i4o", "OIHW2i2o"),
        data_layout="NCHW2c",
        kernel_layout="OIHW2i2o",
        **attrs,
    )
    with attached_to("nn.conv2d", "FTVMAlterOpLayout", smaller):
        expected = lt(y + lt(b, "NCHW4c", "NCHW2c"), "NCHW2c", "NCHW4c")
        assert_becomes(AlterOpLayout(), before, expected, x, w, b)


@pytest.mark.usefixtures("blocks")
def test_a_network_computes_the_same():
    y = relay.nn.relu(relay.nn.bias_add(conv(X, W), B)) + ROW
    z = relay.variance(y, axis=1, keepdims=True) + relay.nn.avg_pool2d(y, (3, 3), (1, 1), padding=(1, 1, 1, 1))
    parts = relay.split(relay.concatenate([y, z], axis=1), 2, axis=1)
    last = relay.strided_slice(parts[0] * parts[1], [0, 4], [1, 16])
    body = relay.Tuple([last, relay.mean(last, axis=1, exclude=True), relay.squeeze(relay.max(z, 2, True), [2])])
    got = after(AlterOpLayout(), body, X, W, B, ROW)
    assert "NCHW4c" in str(got)
    rng = np.random.default_rng(0)
    shapes = [(1, 8, 6, 6), (16, 8, 3, 3), (16,), (6,)]
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    expected = compiled([X, W, B, ROW], body)(*values)
    assert_same(compiled(list(got.params), got.body)(*values), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("blocks")
def test_an_attached_inference_is_asked():
    seen = []

    def stays(attrs: Any, new: Any, old: Any, types: Any) -> InferCorrectLayoutOutput:
        seen.append((None if new is None else str(new[0].name), str(old[0].name), types[0]))
        return InferCorrectLayoutOutput(["NCHW"], ["NCHW"], attrs)

    with attached_to("nn.relu", "FInferCorrectLayout", stays):
        expected = relay.nn.relu(lt(made(), "NCHW4c", "NCHW"))
        assert_becomes(AlterOpLayout(), relay.nn.relu(conv(X, W)), expected, X, W)
    ty = relay.TensorType((1, 16, 6, 6))
    assert seen == [(None, "NCHW", ty), ("NCHW4c", "NCHW", ty)]


def test_the_number_of_inputs_stays():
    with (
        attached_to("nn.conv2d", "FTVMAlterOpLayout", lambda attrs, inputs, *_: relay.nn.relu(inputs[0])),
        pytest.raises(ModelError, match=r"nn\.conv2d: what takes its place must have 2 arguments, as it has"),
    ):
        after(AlterOpLayout(), relay.nn.relu(conv(X, W)), X, W)


def _params(expr: Any) -> list[relay.Var]:
    return relay.analysis.free_vars(expr)
