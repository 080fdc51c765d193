"""Blocks moved between axes, data spread apart, losses."""

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


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_space_and_depth_agree_with_onnxruntime(dim: Any) -> None:
    x, last = var("x", shape=(dim(2), dim(8), dim(4), dim(6))), var("last", shape=(dim(2), dim(4), dim(6), dim(8)))

    def turned(operator: str, x: np.ndarray, **attributes: Any) -> np.ndarray:
        return onnx_result(operator, np.ascontiguousarray(x.transpose(0, 3, 1, 2)), **attributes).transpose(0, 2, 3, 1)

    table = {
        "to depth": (nn.space_to_depth(x, 2), lambda x, y: onnx_result("SpaceToDepth", x, blocksize=2)),
        "to depth, channels last": (
            nn.space_to_depth(last, 2, "NHWC"),
            lambda x, y: turned("SpaceToDepth", y, blocksize=2),
        ),
        "to space": (nn.depth_to_space(x, 2), lambda x, y: onnx_result("DepthToSpace", x, blocksize=2)),
        "to space, channels first in depth": (
            nn.depth_to_space(x, 2, mode="CDR"),
            lambda x, y: onnx_result("DepthToSpace", x, blocksize=2, mode="CRD"),
        ),
        "to space, channels last": (
            nn.depth_to_space(last, 2, "NHWC"),
            lambda x, y: turned("DepthToSpace", y, blocksize=2),
        ),
    }
    assert_table([x, last], table, (numbers(2, 8, 4, 6), numbers(2, 4, 6, 8)))


def test_space_to_batch_and_back(dim: Any) -> None:
    x = var("x", shape=(dim(2), dim(4), dim(6), 5))
    block, padding = [2, 3], [[1, 1], [0, 3]]

    def to_batch(x: np.ndarray) -> np.ndarray:
        x = np.pad(x, [[0, 0], *padding, [0, 0]], constant_values=0.5)
        n, h, w, c = x.shape
        return x.reshape(n, h // 2, 2, w // 3, 3, c).transpose(2, 4, 0, 1, 3, 5).reshape(n * 6, h // 2, w // 3, c)

    cut = nn.space_to_batch_nd(x, block, padding, 0.5)
    table = {"to batch": (cut, to_batch), "and back": (nn.batch_to_space_nd(cut, block, padding), lambda x: x)}
    sizes = [(2, 4, 6)] if dim(1) == 1 else [(2, 4, 6), (1, 2, 3), (0, 2, 3)]
    assert_table([x], table, *[(numbers(*s, 5),) for s in sizes])


def test_dilate_puts_elements_between(dim: Any) -> None:
    x = var("x", shape=(dim(2), dim(3)))
    run = compiled([x], nn.dilate(x, [1, 3], 0.5))
    for n, m in [(2, 3)] if dim(1) == 1 else [(2, 3), (1, 1), (0, 0)]:
        expected = np.full((n, max(3 * m - 2, 0)), 0.5, "float32")
        expected[:, ::3] = numbers(n, m)
        assert_same(run(numbers(n, m)), expected)


@pytest.mark.parametrize(
    ("result", "shape", "reason"),
    [
        (lambda x: nn.space_to_depth(x, 2), (1, 3, 4, 5), "2 does not divide the width"),
        (lambda x: nn.depth_to_space(x, 2), (1, 6, 4, 4), "4 does not divide the channels"),
        (lambda x: nn.space_to_batch_nd(x, [2], [[0, 1]]), (1, 4, 2, 2), "2 does not divide the padded size"),
        (lambda x: nn.batch_to_space_nd(x, [2], [[0, 0]]), (3, 4, 2, 2), "2 does not divide the batch"),
    ],
)
def test_blocks_must_fill_what_they_divide(result: Any, shape: tuple[int, ...], reason: str) -> None:
    known, unknown = var("x", shape=shape), var("x", shape=[Any_()] * 4)
    assert type_error([known], result(known)).startswith(reason)
    with pytest.raises(VMError, match=reason):
        compiled([unknown], result(unknown))(np.zeros(shape, "float32"))


def test_fewer_channels_than_a_block_make_an_empty_image(dim: Any) -> None:
    x = var("x", shape=(1, dim(3), 2, 2))
    table = {"empty": (nn.depth_to_space(x, 2), lambda x: np.empty((1, 0, 4, 4), "float32"))}
    assert_table([x], table, (numbers(1, 3, 2, 2),))


def test_cross_entropy_agrees_with_its_definition(dim: Any) -> None:
    p, t = var("p", shape=(dim(3), dim(4))), var("t", shape=(dim(3), dim(4)))
    table = {
        "of probabilities": (nn.cross_entropy(p, t), lambda p, t: np.float32(-(t * np.log(p)).sum() / len(p))),
        "of logits": (nn.cross_entropy_with_logits(p, t), lambda p, t: np.float32(-(t * p).sum() / len(p))),
    }
    assert_table([p, t], table, (np.abs(numbers(3, 4)), numbers(3, 4)))


def test_nll_loss_agrees_with_onnxruntime(dim: Any) -> None:
    p, t, w = var("p", shape=(dim(2), 3, dim(4))), var("t", shape=(dim(2), dim(4)), dtype="int32"), var("w", shape=(3,))
    table = {
        reduction: (
            nn.nll_loss(p, t, w, reduction, 2),
            lambda p, t, w, r=reduction: onnx_result("NegativeLogLikelihoodLoss", p, t, w, reduction=r, ignore_index=2),
        )
        for reduction in ("none", "sum", "mean")
    }
    targets = np.array([[0, 1, 2, 1], [2, 0, 0, 1]], "int32")
    assert_table([p, t, w], table, (numbers(2, 3, 4), targets, np.abs(numbers(3))))


def test_nll_loss_without_a_batch() -> None:
    p, t, w = var("p", shape=(3,)), var("t", shape=(), dtype="int32"), var("w", shape=(3,))
    values = (numbers(3), np.array(2, "int32"), np.array([1, 2, 4], "float32"))
    table = {
        "none": (nn.nll_loss(p, t, w, "none"), lambda p, t, w: -p[t] * w[t]),
        "mean": (nn.nll_loss(p, t, w), lambda p, t, w: -p[t]),
    }
    assert_table([p, t, w], table, values)


def test_a_target_that_is_no_class_counts_nothing() -> None:
    p, t, w = var("p", shape=(2, 3)), var("t", shape=(2,), dtype="int64"), var("w", shape=(3,))
    run = compiled([p, t, w], nn.nll_loss(p, t, w, "none"))
    far = np.array([10**9, -(10**9)])
    assert_same(run(numbers(2, 3), far, np.ones(3, "float32")), np.zeros(2, "float32"))
