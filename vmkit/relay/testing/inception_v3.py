"""Inception v3, for images of 299 by 299.

C. Szegedy et al.: Rethinking the Inception architecture for computer vision, 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from ..._dataclasses import dataclass
from .. import nn
from ..ir import Dim, Expr, Function, free_vars, var
from ..op import build
from . import layers
from .init import create_workload

__all__ = ["get_net", "get_workload"]


@dataclass(frozen=True)
class _Conv:
    """A convolution of a tower: the suffix of its name, channels, kernel, and whether it halves height and width."""

    suffix: str
    channels: int
    kernel: tuple[int, int] = (1, 1)
    halves: bool = False

    def __call__(self, data: Expr, tower: str) -> Expr:
        stride, padding = ((2, 2), (0, 0)) if self.halves else ((1, 1), tuple((k - 1) // 2 for k in self.kernel))
        return _conv(data, self.channels, self.kernel, stride, padding, tower + self.suffix)


def _conv(
    data: Expr, channels: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], name: str
) -> Expr:
    body = layers.conv2d(
        data, channels=channels, kernel_size=kernel, strides=stride, padding=padding, name=f"{name}_conv1"
    )
    return nn.relu(layers.batch_norm_infer(body, epsilon=2e-5, scale=False, name=f"{name}_bn"))


def _tower(data: Expr, name: str, *convolutions: _Conv) -> Expr:
    for convolution in convolutions:
        data = convolution(data, name)
    return data


def _pooled(data: Expr, kind: str) -> Expr:
    if kind == "max":
        return nn.max_pool2d(data, pool_size=(3, 3), strides=(1, 1), padding=(1, 1))
    return nn.avg_pool2d(data, pool_size=(3, 3), strides=(1, 1), padding=(1, 1), count_include_pad=True)


def _halved(data: Expr) -> Expr:
    return nn.max_pool2d(data, pool_size=(3, 3), strides=(2, 2), padding=(0, 0))


def _joined(*towers: Expr) -> Expr:
    return build("concatenate", towers, axis=1)


def _grid_35(data: Expr, projected: int, name: str) -> Expr:
    """Towers of 1x1, of 5x5 and of two 3x3, and a pooling."""
    return _joined(
        _tower(data, f"{name}_conv", _Conv("", 64)),
        _tower(data, f"{name}_tower", _Conv("_conv", 48), _Conv("_conv_1", 64, (5, 5))),
        _tower(data, f"{name}_tower_1", _Conv("_conv", 64), _Conv("_conv_1", 96, (3, 3)), _Conv("_conv_2", 96, (3, 3))),
        _tower(_pooled(data, "avg"), f"{name}_tower_2", _Conv("_conv", projected)),
    )


def _to_grid_17(data: Expr, name: str) -> Expr:
    """Towers that halve height and width: of 3x3 and of two 3x3, and a pooling."""
    return _joined(
        _tower(data, f"{name}_conv", _Conv("", 384, (3, 3), halves=True)),
        _tower(
            data,
            f"{name}_tower",
            _Conv("_conv", 64),
            _Conv("_conv_1", 96, (3, 3)),
            _Conv("_conv_2", 96, (3, 3), halves=True),
        ),
        _halved(data),
    )


def _grid_17(data: Expr, inner: int, name: str) -> Expr:
    """Towers of 1x1, and of one and of two 7x7, each as 1x7 and 7x1, and a pooling."""
    wide, high = (1, 7), (7, 1)
    return _joined(
        _tower(data, f"{name}_conv", _Conv("", 192)),
        _tower(
            data, f"{name}_tower", _Conv("_conv", inner), _Conv("_conv_1", inner, wide), _Conv("_conv_2", 192, high)
        ),
        _tower(
            data,
            f"{name}_tower_1",
            _Conv("_conv", inner),
            _Conv("_conv_1", inner, high),
            _Conv("_conv_2", inner, wide),
            _Conv("_conv_3", inner, high),
            _Conv("_conv_4", 192, wide),
        ),
        _tower(_pooled(data, "avg"), f"{name}_tower_2", _Conv("_conv", 192)),
    )


def _to_grid_8(data: Expr, name: str) -> Expr:
    """Towers that halve height and width: of 3x3, and of 7x7 and 3x3, and a pooling."""
    return _joined(
        _tower(data, f"{name}_tower", _Conv("_conv", 192), _Conv("_conv_1", 320, (3, 3), halves=True)),
        _tower(
            data,
            f"{name}_tower_1",
            _Conv("_conv", 192),
            _Conv("_conv_1", 192, (1, 7)),
            _Conv("_conv_2", 192, (7, 1)),
            _Conv("_conv_3", 192, (3, 3), halves=True),
        ),
        _halved(data),
    )


def _grid_8(data: Expr, pool: str, name: str) -> Expr:
    """Towers of 1x1, of 3x3 and of two 3x3, the last of each as 1x3 beside 3x1, and a pooling."""
    wide, high = _Conv("_mixed_conv", 384, (1, 3)), _Conv("_mixed_conv_1", 384, (3, 1))
    left = _tower(data, f"{name}_tower", _Conv("_conv", 384))
    right = _tower(data, f"{name}_tower_1", _Conv("_conv", 448), _Conv("_conv_1", 384, (3, 3)))
    return _joined(
        _tower(data, f"{name}_conv", _Conv("", 320)),
        *(tower(left, f"{name}_tower") for tower in (wide, high)),
        *(tower(right, f"{name}_tower_1") for tower in (wide, high)),
        _tower(_pooled(data, pool), f"{name}_tower_2", _Conv("_conv", 192)),
    )


def get_net(batch_size: Dim, num_classes: int, image_shape: tuple[int, ...], dtype: str) -> Function:
    """Return the network: class probabilities of images.

    Parameters
    ----------
    batch_size : int or dimension
        The number of images; ``relay.Any()`` leaves it to the run.
    num_classes : int
        The number of classes.
    image_shape : tuple of int
        Channels, height and width of an image; the last two are 299 or near.
    dtype : str
        The element type.
    """
    body: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body = _conv(body, 32, (3, 3), (2, 2), (0, 0), "conv")
    body = _conv(body, 32, (3, 3), (1, 1), (0, 0), "conv_1")
    body = _halved(_conv(body, 64, (3, 3), (1, 1), (1, 1), "conv_2"))
    body = _conv(body, 80, (1, 1), (1, 1), (0, 0), "conv_3")
    body = _halved(_conv(body, 192, (3, 3), (1, 1), (0, 0), "conv_4"))
    for name, projected in (("mixed", 32), ("mixed_1", 64), ("mixed_2", 64)):
        body = _grid_35(body, projected, name)
    body = _to_grid_17(body, "mixed_3")
    for name, inner in (("mixed_4", 128), ("mixed_5", 160), ("mixed_6", 160), ("mixed_7", 192)):
        body = _grid_17(body, inner, name)
    body = _to_grid_8(body, "mixed_8")
    body = _grid_8(_grid_8(body, "avg", "mixed_9"), "max", "mixed_10")
    body = nn.avg_pool2d(body, pool_size=(8, 8), strides=(1, 1), padding=(0, 0), count_include_pad=True)
    body = nn.dense(nn.batch_flatten(body), var("fc1_weight"), units=num_classes)
    # The bias of fc1 has the name of another layer in Relay.
    body = nn.softmax(nn.bias_add(body, var("fc2_bias"), axis=-1))
    return Function(free_vars(body), body)


def get_workload(
    batch_size: Dim = 1, num_classes: int = 1000, image_shape: tuple[int, ...] = (3, 299, 299), dtype: str = "float32"
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
