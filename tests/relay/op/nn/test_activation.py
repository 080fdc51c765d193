"""Activations agree with onnxruntime and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.onnx_reference import onnx_result
from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import nn, var

Any_ = relay.Any


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return (np.random.default_rng(0).normal(size=shape) * 4).astype(dtype)


def test_activations_agree_with_their_references(dim: Any) -> None:
    x, a = var("x", shape=(dim(2), dim(3), dim(4))), var("a", shape=(dim(3),))
    table: dict[str, Any] = {
        "relu": (nn.relu(x), lambda x, a: np.maximum(x, 0)),
        "leaky_relu": (nn.leaky_relu(x, 0.1), lambda x, a: onnx_result("LeakyRelu", x, alpha=0.1)),
        "prelu": (nn.prelu(x, a), lambda x, a: np.where(x > 0, x, x * a[:, None])),
        "bias_add": (nn.bias_add(x, a), lambda x, a: x + a[:, None]),
        "bias_add, axis from the end": (nn.bias_add(x, a, axis=-2), lambda x, a: x + a[:, None]),
        "dropout": (nn.dropout(x, 0.9), lambda x, a: x),
        "dropout and its mask": (nn.dropout_raw(x), lambda x, a: (x, np.ones_like(x))),
        "fast_exp": (relay.fast_exp(x), lambda x, a: np.exp(x)),
        "fast_tanh": (relay.fast_tanh(x), lambda x, a: np.tanh(x)),
    }
    for axis in (0, 1, -1):
        for name, theirs in (("softmax", "Softmax"), ("log_softmax", "LogSoftmax"), ("fast_softmax", "Softmax")):
            result = getattr(nn, name)(x, axis=axis)
            table[f"{name} on {axis}"] = result, lambda x, a, t=theirs, i=axis: onnx_result(t, x, axis=i)
    sizes = [(2, 3, 4)] if dim(1) == 1 else [(2, 3, 4), (5, 1, 7)]
    assert_table([x, a], table, *[(numbers(*s), numbers(s[1])) for s in sizes])


def test_softmax_of_an_empty_batch_is_empty() -> None:
    x = var("x", shape=(Any_(), 4))
    assert compiled([x], nn.softmax(x))(numbers(0, 4)).shape == (0, 4)


def test_softmax_of_large_and_of_short_numbers() -> None:
    x, y = var("x", shape=(1, 3)), var("y", shape=(1, 5000), dtype="float16")
    large, short = compiled([x, y], nn.softmax(x), nn.softmax(y))(
        np.array([[1e4, 1e4, -1e4]], "float32"), np.zeros((1, 5000), "float16")
    )
    assert_same(large, np.array([[0.5, 0.5, 0]], "float32"))
    assert_same(short, np.full((1, 5000), 1 / 5000, "float16"), rtol=1e-2)


def test_fast_erf_is_close_to_erf() -> None:
    x = var("x", shape=(9,))
    data = np.linspace(-3, 3, 9).astype("float32")
    assert_same(compiled([x], relay.fast_erf(x))(data), onnx_result("Erf", data), atol=1e-5)


def test_types_of_vectors_without_annotation_follow_from_the_data() -> None:
    x, bias, alpha = var("x", shape=(2, 3, Any_())), var("bias"), var("alpha")
    relay.transform.infer_expr(relay.Function([x, bias, alpha], nn.prelu(nn.bias_add(x, bias), alpha, axis=2)))
    assert [str(v.checked_type) for v in (bias, alpha)] == ["Tensor[(3), float32]", "Tensor[(?), float32]"]


def test_an_unknown_bias_may_be_one_element() -> None:
    x, bias = var("x", shape=(Any_(), Any_())), var("bias", shape=(Any_(),))
    run = compiled([x, bias], nn.bias_add(x, bias))
    data = numbers(2, 3)
    for vector in (numbers(3), numbers(1)):
        assert_same(run(data, vector), data + vector)
    with pytest.raises(VMError, match=r"nn.bias_add: bias has 2 elements, but axis 1 of the data 3"):
        run(data, numbers(2))


def test_type_errors_say_what_does_not_fit() -> None:
    x, b, m = var("x", shape=(2, 4)), var("b", shape=(3,)), var("m", shape=(2, 2))
    i = var("i", shape=(4,), dtype="int32")
    assert type_error([x, b], nn.bias_add(x, b)) == "bias has 3 elements, but axis 1 of the data 4"
    assert type_error([x, m], nn.prelu(x, m)) == "alpha must be a vector, not Tensor[(2, 2), float32]"
    assert type_error([x, i], nn.bias_add(x, i)) == (
        "data and bias have different data types: float32 and int32; cast one of them"
    )
    assert type_error([i], nn.softmax(i)) == "the input must be a float tensor, not Tensor[(4), int32]"
    assert type_error([x], nn.softmax(x, axis=2)) == "axis is 2, but the input has 2 dimensions; allowed are -2 to 1"


@pytest.mark.parametrize("size", [3, Any_()])
def test_an_unknown_alpha_may_be_one_element(size: Any) -> None:
    x, alpha = var("x", shape=(Any_(), size)), var("alpha", shape=(Any_(),))
    run = compiled([x, alpha], nn.prelu(x, alpha))
    data = numbers(2, 3)
    for vector in (numbers(3), numbers(1)):
        assert_same(run(data, vector), np.where(data > 0, data, data * vector))
    with pytest.raises(VMError, match=r"nn.prelu: alpha has 2 elements, but axis 1 of the data 3"):
        run(data, numbers(2))
