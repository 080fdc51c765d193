"""Workloads: first values of parameters, and what small networks compute, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.relay.testing import create_workload, lstm, mlp, resnet, run_infer_type, run_opt_pass, synthetic
from vmkit.relay.testing.init import Constant, Initializer


def run(mod: tvm.IRModule, params: dict[str, Any], **inputs: np.ndarray) -> np.ndarray:
    """Compile a workload and run it."""
    machine = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm", params=params), vmkit.device("cpu"))
    return machine.run(**inputs).numpy()


def shaken(params: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return parameters of which none is trivial; variances stay positive."""
    draw = np.random.default_rng(1)
    return {
        name: (
            p.numpy() + (0.1 * draw.random(p.shape) if name.endswith("var") else 0.1 * draw.normal(size=p.shape))
        ).astype("float32")
        for name, p in params.items()
    }


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_values_are_those_of_relay_and_the_callers_generator_is_left_alone() -> None:
    np.random.seed(7)
    expected_draw = np.random.random()
    np.random.seed(7)
    _, params = mlp.get_workload(1)
    assert np.random.random() == expected_draw
    generator = np.random.RandomState(0)
    for name, shape in (("fc1", (128, 784)), ("fc2", (64, 128)), ("fc3", (10, 64))):
        scale = np.sqrt(3 / (sum(shape) / 2))
        expected = generator.uniform(-scale, scale, shape).astype("float32")
        np.testing.assert_array_equal(params[f"{name}_weight"].numpy(), expected)
        np.testing.assert_array_equal(params[f"{name}_bias"].numpy(), np.zeros(shape[0], "float32"))


def test_statistics_start_as_those_of_normalised_data() -> None:
    _, params = synthetic.get_workload()
    assert {name: set(p.numpy().flat) for name, p in params.items()} == {
        **{name: {0.0} for name in ("dense_weight", "conv_weight", "dense2_weight", "conv2_weight", "bias")},
        **{name: {0.0} for name in ("batch_norm_beta", "batch_norm_moving_mean")},
        **{name: {1.0} for name in ("batch_norm_gamma", "batch_norm_moving_var")},
    }


def test_an_initializer_of_ones_own_draws_from_the_seeded_generator() -> None:
    class Normal(Initializer):
        def _init_weight(self, name: str, arr: np.ndarray) -> None:
            arr[:] = np.random.normal(size=arr.shape)

    _, params = create_workload(mlp.get_net(1), Normal(), seed=3)
    np.testing.assert_array_equal(
        params["fc1_weight"].numpy(), np.random.RandomState(3).normal(size=(128, 784)).astype("float32")
    )


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (relay.var("w", shape=(2, 2)), "the name of the parameter 'w' does not say how to fill it"),
        (relay.var("weight", shape=(2,)), "a weight has two axes or more, but 'weight' has the shape (2,)"),
        (relay.var("weight", shape=(2, relay.Any())), "is not known at compile time"),
    ],
)
def test_parameters_that_cannot_be_filled_are_named(weight: relay.Var, message: str) -> None:
    net = relay.Function([weight], weight)
    with pytest.raises(ValueError) as caught:
        create_workload(net)
    assert message in str(caught.value)


def test_mlp_computes_what_numpy_does_for_any_batch() -> None:
    mod, params = mlp.get_workload(relay.Any(), num_classes=5, image_shape=(2, 3, 4))
    values = shaken(params)
    machine = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm", params=values), vmkit.device("cpu"))
    for batch in (1, 3):
        data = np.random.default_rng(batch).normal(size=(batch, 2, 3, 4)).astype("float32")
        x = data.reshape(batch, -1)
        for name in ("fc1", "fc2", "fc3"):
            x = x @ values[f"{name}_weight"].T + values[f"{name}_bias"]
            x = np.maximum(x, 0) if name != "fc3" else softmax(x)
        np.testing.assert_allclose(machine.run(data=data).numpy(), x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [2, relay.Any()])
def test_lstm_computes_what_numpy_does(batch: Any) -> None:
    mod, params = lstm.get_workload(2, 3, batch)
    values = shaken(params)
    draw = np.random.default_rng(0)
    steps = [draw.normal(size=(2, 3)).astype("float32") for _ in range(2)]
    h = c = np.zeros((2, 3), "float32")
    for i, x in enumerate(steps):
        gates = sum(v @ values[f"{w}_{i}_weight"].T + values[f"{w}_{i}_bias"] for v, w in ((x, "i2h"), (h, "h2h")))
        take, forget, change, give = np.split(gates, 4, axis=1)
        sigmoid = [1 / (1 + np.exp(-g)) for g in (take, forget, give)]
        c = sigmoid[1] * c + sigmoid[0] * np.tanh(change)
        h = sigmoid[2] * np.tanh(c)
    np.testing.assert_allclose(run(mod, values, data=steps[0], data1=steps[1]), h, rtol=1e-5, atol=1e-6)


def conv(x: np.ndarray, weight: np.ndarray, stride: int) -> np.ndarray:
    """Return the convolution of NCHW data, padded so that a stride of 1 keeps the size."""
    kernel, pad = weight.shape[2], (weight.shape[2] - 1) // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows[:, :, ::stride, ::stride], weight)


def resnet_8(data: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
    """Return what a residual network of three units computes."""

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        gamma = 1 if name == "bn_data" else p[f"{name}_gamma"]
        scale = gamma / np.sqrt(p[f"{name}_moving_var"] + 2e-5)
        shift = p[f"{name}_beta"] - p[f"{name}_moving_mean"] * scale
        return x * np.reshape(scale, (-1, 1, 1)) + np.reshape(shift, (-1, 1, 1))

    x = conv(norm(data, "bn_data"), p["conv0_weight"], 1)
    for stage in (1, 2, 3):
        unit, stride = f"stage{stage}_unit1", min(stage, 2)
        a = np.maximum(norm(x, f"{unit}_bn1"), 0)
        b = np.maximum(norm(conv(a, p[f"{unit}_conv1_weight"], stride), f"{unit}_bn2"), 0)
        x = conv(b, p[f"{unit}_conv2_weight"], 1) + conv(a, p[f"{unit}_sc_weight"], stride)
    x = np.maximum(norm(x, "bn1"), 0).mean((2, 3))
    return softmax(x @ p["fc1_weight"].T + p["fc1_bias"])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_resnet_computes_what_numpy_does_in_both_layouts(layout: str) -> None:
    _, params = resnet.get_workload(2, 4, 8, (3, 8, 8))
    values = shaken(params)
    data = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("float32")
    expected = resnet_8(data, values)
    if layout == "NHWC":
        data = data.transpose(0, 2, 3, 1)
        values = {name: v.transpose(2, 3, 1, 0) if v.ndim == 4 else v for name, v in values.items()}
    shape = tuple(data.shape[1:])
    mod, _ = resnet.get_workload(relay.Any(), 4, 8, shape, layout)
    np.testing.assert_allclose(run(mod, values, data=np.ascontiguousarray(data)), expected, rtol=1e-4, atol=1e-5)


def test_constant_fills_weights_alone() -> None:
    _, params = create_workload(mlp.get_net(1), Constant(2.0))
    assert set(params["fc2_weight"].numpy().flat) == {2.0}
    assert set(params["fc2_bias"].numpy().flat) == {0.0}


def test_passes_run_over_expressions_and_functions() -> None:
    x = relay.var("x", shape=(2, 3))
    assert str(run_infer_type(relay.nn.relu(x)).checked_type) == "Tensor[(2, 3), float32]"
    assert str(run_infer_type(relay.Function([x], x)).checked_type.ret_type) == "Tensor[(2, 3), float32]"
    kept = run_opt_pass(relay.nn.dropout(x), relay.transform.SimplifyInference())
    assert isinstance(kept, relay.Var)
    with pytest.raises(TypeError, match="opt_pass is a pass such as"):
        run_opt_pass(x, lambda mod: mod)
