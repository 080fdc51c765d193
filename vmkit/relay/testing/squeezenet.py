"""SqueezeNet 1.0 and 1.1: fire modules, which squeeze the channels before they widen them.

F. N. Iandola et al.: SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and < 0.5 MB model size, 2016.
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

# The first convolution (channels, kernel, padding), then what follows: the width that a fire module squeezes to, or a
# pooling. It widens to eight times as much.
_VERSIONS: dict[str, tuple[tuple[int, int, int], tuple[int | str, ...]]] = {
    "1.0": ((96, 7, 3), ("pool", 16, 16, 32, "pool", 32, 48, 48, 64, "pool", 64)),
    "1.1": ((64, 3, 1), ("pool", 16, 16, "pool", 32, 32, "pool", 48, 48, 64, 64)),
}


def _conv(data: Expr, channels: int, kernel: int, padding: int, name: str, stride: int = 1) -> Expr:
    body = layers.conv2d(
        data,
        channels=channels,
        kernel_size=(kernel, kernel),
        strides=(stride, stride),
        padding=(padding, padding),
        name=name,
    )
    return nn.relu(nn.bias_add(body, var(f"{name}_bias")))


def _fire(data: Expr, squeezed: int, name: str) -> Expr:
    body = _conv(data, squeezed, 1, 0, f"{name}_input_conv")
    left = _conv(body, 4 * squeezed, 1, 0, f"{name}_left_conv")
    right = _conv(body, 4 * squeezed, 3, 1, f"{name}_right_conv")
    return build("concatenate", (left, right), axis=1)


def get_net(batch_size: Dim, image_shape: tuple[int, ...], num_classes: int, version: str, dtype: str) -> Function:
    """Return the network: class probabilities of images.

    Parameters
    ----------
    batch_size : int or dimension
        The number of images; ``relay.Any()`` leaves it to the run.
    image_shape : tuple of int
        Channels, height and width of an image.
    num_classes : int
        The number of classes.
    version : str
        ``"1.0"`` or ``"1.1"``.
    dtype : str
        The element type.
    """
    if version not in _VERSIONS:
        raise ValueError(f"version is one of {list(_VERSIONS)}, not {version!r}")
    (channels, kernel, padding), steps = _VERSIONS[version]
    body = _conv(var("data", shape=(batch_size, *image_shape), dtype=dtype), channels, kernel, padding, "conv1", 2)
    fires = 0
    for step in steps:
        if isinstance(step, str):
            body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2))
        else:
            fires += 1
            body = _fire(body, step, f"fire{fires}")
    body = _conv(nn.dropout(body, rate=0.5), num_classes, 1, 0, "conv_final")
    body = nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(body)))
    return Function(free_vars(body), body)


def get_workload(
    batch_size: Dim = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
