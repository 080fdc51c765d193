"""A perceptron with two hidden layers, of 128 and 64 units."""

from __future__ import annotations

from typing import Any

import tvm

from .. import nn
from ..ir import Dim, Function, free_vars, var
from . import layers
from .init import create_workload

__all__ = ["get_net", "get_workload"]


def get_net(
    batch_size: Dim, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """Return the network: class probabilities of images.

    Parameters
    ----------
    batch_size : int or dimension
        The number of images; ``relay.Any()`` leaves it to the run.
    num_classes : int
        The number of classes.
    image_shape : tuple of int
        The shape of an image.
    dtype : str
        The element type.
    """
    body = nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for index, units in enumerate((128, 64), start=1):
        body = nn.relu(layers.dense_add_bias(body, units=units, name=f"fc{index}"))
    body = nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc3"))
    return Function(free_vars(body), body)


def get_workload(
    batch_size: Dim, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
