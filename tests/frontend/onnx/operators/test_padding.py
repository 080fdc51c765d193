"""Padding by a value, by the border, by reflection and around; widths may be read at run time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx.feeds import FEEDS, X, vector
from tests.frontend.onnx.programs import (
    Compiled,
    agrees_with_reference,
    array,
    assert_agrees,
    check,
    model,
    node,
    session,
)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pad(mode: str) -> None:
    nodes = [node("Pad", "x pads", "a", mode=mode), node("Pad", "x chosen _ axes", "b", mode=mode)]
    constants = {"pads": np.array([0, 1, 2, 0, 2, 1]), "chosen": np.array([1, 1]), "axes": np.array([-1])}
    check(model(nodes, X, "a b", constants, opset=18), *FEEDS)


def test_pad_by_a_value_and_by_less_than_nothing() -> None:
    constants = {"pads": np.array([0, -1, 2, 0, 0, -1]), "value": np.array(7, "float32")}
    check(model([node("Pad", "x pads value", "y")], X, "y", constants), *FEEDS)


def test_pad_around_by_wrapping() -> None:
    check(
        model([node("Pad", "x pads", "y", mode="wrap")], X, "y", {"pads": np.array([0, 2, 1, 0, 1, 3])}, opset=19),
        *FEEDS,
    )


def test_pad_before_opset_11() -> None:
    check(model([node("Pad", "x", "y", pads=[0, 1, 0, 0, 0, 2], value=1.5)], X, "y", opset=9), *FEEDS)


def test_centres_cut_out_and_padded() -> None:
    nodes = [node("CenterCropPad", "x shape", "a", axes=[1, -1]), node("CenterCropPad", "x fixed", "b", axes=[2])]
    inputs = {"x": (["n", 3, 4, "w"], "float32"), "shape": ([2], "int64")}
    proto = model(nodes, inputs, "a b", {"fixed": np.array([7])}, opset=18)
    agrees_with_reference(
        proto,
        {"x": array(2, 3, 4, 6), "shape": np.array([6, 3])},
        {"x": array(1, 3, 4, 2), "shape": np.array([2, 7])},
    )


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads_that_are_read(mode: str) -> None:
    inputs = X | {"pads": ([4], "int64"), "axes": ([2], "int64"), "every": ([6], "int64")}
    nodes = [
        node("Pad", "x pads _ axes", "a", mode=mode),
        node("Pad", "x every", "b", mode=mode),
        node("Pad", "x pads _ fixed", "c", mode=mode),
    ]
    proto = model(nodes, inputs, "a b c", {"fixed": vector(-1, 1)}, opset=19)
    check(
        proto,
        {"x": array(4, 3, 4), "pads": vector(1, 2, 2, 0), "axes": vector(1, -1), "every": vector(2, 0, 1, 1, 2, 3)},
        {"x": array(3, 3, 4), "pads": vector(-1, 0, 0, 2), "axes": vector(0, 1), "every": vector(0, -1, 0, 1, 0, -2)},
    )  # fmt: skip


def test_mirrored_borders_of_what_a_transposed_convolution_gives() -> None:
    """One kernel keeps what it mirrors, in a size that must not depend on where it is read."""
    nodes = [
        node("ConvTranspose", "x w b", "a", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1], group=2),
        node("Pad", "a by", "y", mode="reflect"),
    ]
    constants = {"w": array(8, 3, 3, 3), "b": array(6), "by": np.array([0, 0, 2, 2, 0, 0, 2, 2])}
    proto = model(nodes, {"x": (["n", 8, "h", "s"], "float32")}, "y", constants)
    compiled, peer = Compiled(proto, target="native"), session(proto)
    for feed in ({"x": array(1, 8, 3, 4)}, {"x": array(2, 8, 5, 3)}):
        assert_agrees(compiled(**feed), peer.run(None, feed), "y")
