"""Normalisations, at several sizes from one compilation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.feeds import IMAGE, IMAGES, check_image
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, model, node


def test_normalisations_of_images() -> None:
    constants = {
        "s": array(4) + 3, "b": array(4, seed=1), "m": array(4, seed=2), "v": abs(array(4, seed=3)) + 0.5,
    }  # fmt: skip
    nodes = [
        node("BatchNormalization", "x s b m v", "batch", epsilon=1e-3),
        node("InstanceNormalization", "x s b", "instance"),
        node("LRN", "x", "lrn", size=3, alpha=0.01, beta=0.5, bias=2.0),
        node("LpNormalization", "x", "lp", axis=1, p=1),
        node("MeanVarianceNormalization", "x", "mvn"),
    ]
    check_image(nodes, constants, " ".join(n.output[0] for n in nodes))


def test_neighbours_among_channels_that_come_last() -> None:
    nodes = [node("Conv", "x w", "c"), node("LRN", "c", "y", size=5)]
    check(
        model(nodes, {"x": ([None] * 4, "float32")}, "y", {"w": array(96, 4, 3, 3)}),
        {"x": array(2, 4, 9, 8)},
        {"x": array(1, 4, 5, 13)},
    )


def test_layer_normalisation() -> None:
    nodes = [node("LayerNormalization", "x s b", "a"), node("LayerNormalization", "x s2", "b2 mean inverse", axis=1)]
    constants = {"s": array(4), "b": array(4, seed=1), "s2": array(3, 4)}
    proto = model(nodes, {"x": (["n", 3, 4], "float32")}, "a b2 mean inverse", constants)
    check(proto, {"x": array(1, 3, 4)}, {"x": array(5, 3, 4)})


def test_group_normalisation() -> None:
    proto = model(
        [node("GroupNormalization", "x s b", "y", num_groups=2)], IMAGE, "y", {"s": array(4), "b": array(4, seed=1)}, 21
    )
    check(proto, *IMAGES)


def test_statistics_are_moved_in_training() -> None:
    inputs = {"x": (["n", 3, "w"], "float32")} | {p: ([3], "float32") for p in ("scale", "bias", "mean", "var")}
    nodes = [node("BatchNormalization", "x scale bias mean var", "y m v", training_mode=1, momentum=0.8)]
    compiled = Compiled(model(nodes, inputs, "y m v", opset=15))
    x, scale, bias, mean = array(4, 3, 5), array(3, seed=1), array(3, seed=2), array(3, seed=3)
    var = np.abs(array(3, seed=4))
    own, spread = x.mean((0, 2)), x.var((0, 2))
    centred = (x - own[:, None]) / np.sqrt(spread + 1e-5)[:, None]
    expected = [centred * scale[:, None] + bias[:, None], mean * 0.8 + own * 0.2, var * 0.8 + spread * 0.2]
    made = compiled(x=x, scale=scale, bias=bias, mean=mean, var=var)
    assert_agrees(made, [e.astype("float32") for e in expected], ["y", "m", "v"])


@pytest.mark.sweep
@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("channels", [4, "unknown"])
def test_groups_of_sizes_that_only_the_run_knows(opset: int, channels: int | str) -> None:
    scales = 2 if opset == 18 else 4
    known = {"w": array(4, 4, 1, 1)} if channels == 4 else {}
    nodes = [node("Reshape", "all shape", "x"), *([node("Conv", "x w", "c")] if known else [])]
    nodes += [node("GroupNormalization", "c s b" if known else "x s b", "n", num_groups=2), node("Relu", "n", "y")]
    constants = known | {"s": array(scales), "b": array(scales, seed=1)}
    proto = model(nodes, {"all": (["size"], "float32"), "shape": ([4], "int64")}, "y", constants, opset)
    images = [array(2, 4, 3, 5), array(1, 4, 6, 2), array(3, 4, 1, 1)]
    check(proto, *[{"all": x.ravel(), "shape": np.array(x.shape, "int64")} for x in images])
