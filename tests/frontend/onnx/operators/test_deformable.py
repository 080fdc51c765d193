"""Deformable convolutions: against onnxruntime in the plane, and against plain convolutions of any rank."""

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, model, node, session
from vmkit.errors import ModelError, VMError


def offsets(*shape: int, seed: int = 1) -> np.ndarray:
    return array(*shape, seed=seed) * 1.7


def test_deformed_windows_agree_for_every_attribute_and_size() -> None:
    nodes = [
        node("DeformConv", "x w offset b mask", "y", group=2, offset_group=2, pads=[1, 0, 2, 1], strides=[2, 1]),
        node("DeformConv", "x w2 offset2", "z", dilations=[2, 1], kernel_shape=[3, 2]),
    ]
    inputs = {
        "x": (("n", 4, "h", "w"), "float32"),
        "offset": (("n", 24, "oh", "ow"), "float32"),
        "mask": (("n", 12, "oh", "ow"), "float32"),
        "offset2": (("n", 12, "ph", "pw"), "float32"),
    }
    constants = {"w": array(6, 2, 3, 2), "b": array(6), "w2": array(3, 4, 3, 2, seed=4)}
    feeds: list[dict[str, Any]] = []
    for n, h, w in ((1, 6, 7), (3, 9, 5)):
        feeds.append({
            "x": array(n, 4, h, w),
            "offset": offsets(n, 24, h // 2 + 1, w),
            "mask": array(n, 12, h // 2 + 1, w),
            "offset2": offsets(n, 12, h - 4, w - 1, seed=2),
        })  # fmt: skip
    check(model(nodes, inputs, "y z", constants, opset=19), *feeds)


@pytest.mark.parametrize("rank", [1, 3])
def test_windows_that_are_not_moved_convolve(rank: int) -> None:
    kernel, sizes = [3, 2, 2][:rank], [7, 6, 5][:rank]
    attributes = {"pads": [1] * (2 * rank), "strides": [2] * rank, "group": 2}
    w = array(4, 3, *kernel)
    x = array(2, 6, *sizes)
    plain = model([node("Conv", "x w", "y", **attributes)], {"x": (x.shape, "float32")}, "y", {"w": w})
    (expected,) = session(plain).run(None, {"x": x})
    points = int(np.prod(kernel))
    inputs = {
        "x": (("n", 6, *(f"s{i}" for i in range(rank))), "float32"),
        "offset": (("n", points * rank, *(f"o{i}" for i in range(rank))), "float32"),
    }
    compiled = Compiled(model([node("DeformConv", "x w offset", "y", **attributes)], inputs, "y", {"w": w}, opset=22))
    still = np.zeros((2, points * rank, *expected.shape[2:]), "float32")
    assert_agrees(compiled(x=x, offset=still), [expected], ["y"])
    # All windows moved by one element along the last dimension read the image moved the other way.
    still[:, rank - 1 :: rank] = 1
    moved = np.concatenate([x[..., 1:], np.zeros_like(x[..., :1])], -1)
    before = session(plain).run(None, {"x": moved})[0]
    inner = (..., slice(1, None))  # the border before the image is not part of what was moved
    np.testing.assert_allclose(compiled(x=x, offset=still)[0][inner], before[inner], rtol=1e-4, atol=1e-4)


def test_points_outside_are_zeros_whatever_the_image_holds() -> None:
    inputs = {"x": ((1, 2, 4, 4), "float32"), "offset": ((1, 2, 4, 4), "float32")}
    w = np.ones((1, 2, 1, 1), "float32")
    compiled = Compiled(model([node("DeformConv", "x w offset", "y")], inputs, "y", {"w": w}, opset=19))
    x = np.full((1, 2, 4, 4), np.nan, "float32")
    x[..., 1:3, 1:3] = 2.5
    offset = np.zeros((1, 2, 4, 4), "float32")
    offset[0, :, 0] = [[9, -9, 1e30, np.inf], [0, np.nan, -np.inf, -1e30]]
    offset[0, :, 1, 1] = 0
    result = compiled(x=x, offset=offset)[0][0, 0]
    np.testing.assert_array_equal(result[0], 0)
    assert result[1, 1] == 5 and np.isnan(result[3]).all()


def test_offsets_of_another_size_are_errors() -> None:
    inputs = {"x": ((1, 2, 5, 5), "float32"), "offset": ((1, 8, 3, 4), "float32")}
    deform = [node("DeformConv", "x w offset", "y")]
    with pytest.raises(ModelError, match=r"offset must be Tensor\[\(1, 8, 4, 4\), float32\]"):
        Compiled(model(deform, inputs, "y", {"w": array(2, 2, 2, 2)}, opset=19))
    compiled = Compiled(
        model(deform, inputs | {"offset": ((1, 8, "a", "b"), "float32")}, "y", {"w": array(2, 2, 2, 2)}, opset=19)
    )
    with pytest.raises(VMError, match="dimension 2 of offset is 3, expected 4"):
        compiled(x=array(1, 2, 5, 5), offset=array(1, 8, 3, 4))


def test_softplus_keeps_what_is_small() -> None:
    x = np.array([-80, -20, -12, -1, 0, 1, 15, 90], "float32")
    compiled = Compiled(model([node("Softplus", "x", "y")], {"x": ((8,), "float32")}, "y"))
    np.testing.assert_allclose(compiled(x=x)[0], np.logaddexp(0, x.astype("float64")), rtol=1e-5)
