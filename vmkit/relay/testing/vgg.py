"""VGG with 11, 13, 16 or 19 layers.

K. Simonyan, A. Zisserman: Very deep convolutional networks for large-scale image recognition, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from .. import nn
from ..ir import Dim, Expr, Function, free_vars, var
from . import layers as parametrised
from .init import create_workload

__all__ = ["get_classifier", "get_feature", "get_net", "get_workload"]

_LAYERS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_FILTERS = (64, 128, 256, 512, 512)


def get_feature(internal_layer: Expr, layers: Sequence[int], filters: Sequence[int], batch_norm: bool = False) -> Expr:
    """Return the convolutions: for each stage how many there are and their channels, with a pooling at its end."""
    body = internal_layer
    for stage, (count, channels) in enumerate(zip(layers, filters, strict=True), start=1):
        for index in range(1, count + 1):
            name = f"{stage}_{index}"
            body = parametrised.conv2d(body, kernel_size=(3, 3), padding=(1, 1), channels=channels, name=f"conv{name}")
            body = nn.bias_add(body, var(f"conv{name}_bias"))
            if batch_norm:
                body = parametrised.batch_norm_infer(body, name=f"bn{name}")
            body = nn.relu(body)
        body = nn.max_pool2d(body, pool_size=(2, 2), strides=(2, 2))
    return body


def get_classifier(input_data: Expr, num_classes: int) -> Expr:
    """Return the three dense layers."""
    body = nn.batch_flatten(input_data)
    for name in ("fc6", "fc7"):
        body = nn.dropout(nn.relu(parametrised.dense_add_bias(body, units=4096, name=name)), rate=0.5)
    return parametrised.dense_add_bias(body, units=num_classes, name="fc8")


def get_net(
    batch_size: Dim,
    image_shape: tuple[int, ...],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """Return the network: class probabilities of images.

    Parameters
    ----------
    batch_size : int or dimension
        The number of images; ``relay.Any()`` leaves it to the run.
    image_shape : tuple of int
        Channels, height and width of an image.
    num_classes : int
        The number of classes.
    dtype : str
        The element type.
    num_layers : int
        11, 13, 16 or 19.
    batch_norm : bool
        Whether each convolution is followed by batch normalisation.
    """
    if num_layers not in _LAYERS:
        raise ValueError(f"num_layers is one of {list(_LAYERS)}, not {num_layers}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body = nn.softmax(get_classifier(get_feature(data, _LAYERS[num_layers], _FILTERS, batch_norm), num_classes))
    return Function(free_vars(body), body)


def get_workload(
    batch_size: Dim,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
