"""MobileNet: depthwise and pointwise convolutions alternate.

A. G. Howard et al.: MobileNets: efficient convolutional neural networks for mobile vision applications, 2017.
"""

from __future__ import annotations

from typing import Any

import tvm

from .. import nn
from ..ir import Dim, Expr, Function, free_vars, var
from . import layers
from .init import create_workload

__all__ = ["conv_block", "get_workload", "mobile_net", "separable_conv_block"]

# Channels out of each separable block, for a width of 1, and whether it halves height and width.
_BLOCKS = (
    (64, False),
    (128, True),
    (128, False),
    (256, True),
    (256, False),
    (512, True),
    *((512, False),) * 5,
    (1024, True),
    (1024, False),
)
_SHALLOW_BLOCKS = (*_BLOCKS[:6], (1024, True), (1024, True))


def conv_block(
    data: Expr,
    name: str,
    channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
) -> Expr:
    """Return convolution, batch normalisation and relu."""
    body = layers.conv2d(
        data,
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=f"{name}_conv",
    )
    return _normalised(body, f"{name}_bn", epsilon, layout)


def separable_conv_block(
    data: Expr,
    name: str,
    depthwise_channels: int,
    pointwise_channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    downsample: bool = False,
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Expr:
    """Return a depthwise and then a pointwise convolution, each with batch normalisation and relu."""
    # How many inputs a depthwise kernel has follows from the groups alone, so its type is declared.
    shape = (depthwise_channels, 1, *kernel_size) if layout == "NCHW" else (*kernel_size, depthwise_channels, 1)
    body = layers.conv2d(
        data,
        var(f"{name}_weight", shape=shape, dtype=dtype),
        channels=depthwise_channels,
        groups=depthwise_channels,
        kernel_size=kernel_size,
        strides=(2, 2) if downsample else (1, 1),
        padding=padding,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout, is_depthwise=True),
        name=f"{name}_depthwise_conv1",
    )
    body = layers.conv2d(
        _normalised(body, f"{name}_bn1", epsilon, layout),
        channels=pointwise_channels,
        kernel_size=(1, 1),
        strides=(1, 1),
        padding=(0, 0),
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=f"{name}_conv2",
    )
    return _normalised(body, f"{name}_bn2", epsilon, layout)


def _normalised(data: Expr, name: str, epsilon: float, layout: str) -> Expr:
    return nn.relu(layers.batch_norm_infer(data, epsilon=epsilon, axis=layout.index("C"), name=name))


def mobile_net(
    num_classes: int = 1000,
    data_shape: tuple[Any, ...] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """Return the network: class probabilities of images.

    Parameters
    ----------
    num_classes : int
        The number of classes.
    data_shape : tuple of int or dimensions
        The shape of the images, in `layout`; the first may be ``relay.Any()``.
    dtype : str
        The element type.
    alpha : float
        The width: what all numbers of channels are multiplied with.
    is_shallow : bool
        Whether to leave out the five blocks at 512 channels.
    layout : str
        ``"NCHW"`` or ``"NHWC"``.
    """
    body: Expr = var("data", shape=data_shape, dtype=dtype)
    body = conv_block(body, "conv_block_1", int(32 * alpha), strides=(2, 2), layout=layout)
    channels = 32
    for index, (out_channels, halves) in enumerate(_SHALLOW_BLOCKS if is_shallow else _BLOCKS, start=1):
        body = separable_conv_block(
            body,
            f"separable_conv_block_{index}",
            int(channels * alpha),
            int(out_channels * alpha),
            downsample=halves,
            layout=layout,
            dtype=dtype,
        )
        channels = out_channels
    body = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    body = nn.bias_add(nn.dense(body, var("fc_weight"), units=num_classes), var("fc_bias"))
    body = nn.softmax(body)
    return Function(free_vars(body), body)


def get_workload(
    batch_size: Dim = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return :func:`mobile_net` for a number of images as a typed module, and values for its parameters."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout))
