"""The deep Q network: three convolutions and two dense layers that rate the actions of a game.

V. Mnih et al.: Human-level control through deep reinforcement learning, Nature 518, 2015.
"""

from __future__ import annotations

from typing import Any

import tvm

from .. import nn
from ..ir import Dim, Expr, Function, free_vars, var
from . import layers
from .init import create_workload

__all__ = ["get_net", "get_workload"]

_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, kernel, stride


def get_net(
    batch_size: Dim,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Return the network: values of actions for stacks of frames.

    Parameters
    ----------
    batch_size : int or dimension
        The number of stacks; ``relay.Any()`` leaves it to the run.
    num_actions : int
        The number of actions.
    image_shape : tuple of int
        The shape of a stack, in `layout`.
    dtype : str
        The element type.
    layout : str
        ``"NCHW"`` or ``"NHWC"``.
    """
    body: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for index, (channels, kernel, stride) in enumerate(_CONVOLUTIONS, start=1):
        bias: Expr = var(f"conv{index}_bias")
        body = layers.conv2d(
            body,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            padding=(0, 0),
            channels=channels,
            data_layout=layout,
            kernel_layout=layers.conv_kernel_layout(layout),
            name=f"conv{index}",
        )
        body = nn.relu(nn.bias_add(body, bias, axis=layout.index("C")))
    body = nn.relu(layers.dense_add_bias(nn.batch_flatten(body), units=512, name="dense1"))
    body = layers.dense_add_bias(body, units=num_actions, name="dense2")
    return Function(free_vars(body), body)


def get_workload(
    batch_size: Dim,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
