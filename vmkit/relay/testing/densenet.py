"""DenseNet 121, 161, 169 and 201, as Relay built them.

G. Huang et al.: Densely connected convolutional networks, 2017. Relay's builder differs from the paper, and programs
and saved parameters of this name are Relay's: within a block a layer sees the layer before it only, and what all layers
gave is joined at the block's end. There are fewer weights than in the paper.
"""

from __future__ import annotations

from typing import Any

import tvm

from .. import nn
from ..ir import Dim, Expr, Function, free_vars, var
from ..op import build
from . import layers
from .init import create_workload

__all__ = ["get_net", "get_workload"]

_BOTTLENECK = 4
# Size -> channels at the start (69 is Relay's number, the paper's is 64), channels that a layer adds, layers of blocks.
_SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (69, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def _normalised(data: Expr, name: str) -> Expr:
    return nn.relu(layers.batch_norm_infer(data, name=name))


def _dense_layer(data: Expr, growth: int, index: str) -> Expr:
    body = layers.conv2d(
        _normalised(data, f"batch_1_{index}"),
        channels=_BOTTLENECK * growth,
        kernel_size=(1, 1),
        name=f"conv2d_1_{index}",
    )
    return layers.conv2d(
        _normalised(body, f"batch_2_{index}"),
        channels=growth,
        kernel_size=(3, 3),
        padding=(1, 1),
        name=f"conv2d_2_{index}",
    )


def _dense_block(data: Expr, count: int, growth: int, index: int) -> Expr:
    outputs = []
    for layer in range(count):
        data = _dense_layer(data, growth, f"{index}_{layer}")
        outputs.append(data)
    return build("concatenate", outputs, axis=1)


def _transition(data: Expr, channels: int, index: int) -> Expr:
    body = layers.conv2d(
        _normalised(data, f"batch_t_{index}"), channels=channels, kernel_size=(1, 1), name=f"conv_t_{index}"
    )
    return nn.avg_pool2d(body, pool_size=(2, 2), strides=(2, 2))


def get_net(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: Dim = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> Function:
    """Return the network: class scores of images.

    Parameters
    ----------
    densenet_size : int
        121, 161, 169 or 201.
    classes : int
        The number of classes.
    batch_size : int or dimension
        The number of images; ``relay.Any()`` leaves it to the run.
    image_shape : tuple of int
        Channels, height and width of an image; the last two are 224 or more.
    dtype : str
        The element type.
    """
    if densenet_size not in _SIZES:
        raise ValueError(f"densenet_size is one of {list(_SIZES)}, not {densenet_size}")
    channels, growth, blocks = _SIZES[densenet_size]
    body = layers.conv2d(
        var("data", shape=(batch_size, *image_shape), dtype=dtype),
        channels=channels,
        kernel_size=(7, 7),
        strides=(2, 2),
        padding=(3, 3),
        name="conv1",
    )
    body = nn.max_pool2d(_normalised(body, "batch1"), pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for index, count in enumerate(blocks):
        body = _dense_block(body, count, growth, index)
        channels += count * growth
        if index < len(blocks) - 1:
            channels //= 2
            body = _transition(body, channels, index)
    body = nn.batch_flatten(nn.avg_pool2d(_normalised(body, "batch2"), pool_size=(7, 7)))
    body = layers.dense_add_bias(body, units=classes, name="dense")
    return Function(free_vars(body), body)


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: Dim = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype))
