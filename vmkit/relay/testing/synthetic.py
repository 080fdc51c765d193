"""A small network with a bit of everything that the large ones have, for quick tests."""

from __future__ import annotations

from typing import Any

import tvm

from .. import nn
from ..ir import Expr, Function, free_vars, var
from ..op import build
from . import layers
from .init import Constant, create_workload

__all__ = ["get_net", "get_workload"]


def get_net(
    input_shape: tuple[Any, ...] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> Function:
    """Return the network: a tensor of the shape of the input.

    Parameters
    ----------
    input_shape : tuple of int or dimensions
        Batch, channels, height and width; the batch may be ``relay.Any()``.
    dtype : str
        The element type of the input.
    wtype : str, optional
        The element type of the weights; by default `dtype`.
    """
    wtype = wtype or dtype
    channels, width = input_shape[1], input_shape[3]
    data = var("data", shape=input_shape, dtype=dtype)

    def stage(source: Expr, dense_name: str, conv_name: str) -> Expr:
        dense_weight = var(f"{dense_name}_weight", shape=(width, width), dtype=wtype)
        dense = nn.relu(nn.dense(build("reshape", source, newshape=(-1, width)), dense_weight))
        conv_weight = var(f"{conv_name}_weight", shape=(channels, channels, 3, 3), dtype=wtype)
        conv = nn.softmax(nn.conv2d(source, conv_weight, padding=1, kernel_size=3))
        return build("add", build("reshape_like", dense, data), conv)

    body = nn.bias_add(stage(data, "dense", "conv"), var("bias", type_annotation=None))
    body = stage(layers.batch_norm_infer(body, name="batch_norm"), "dense2", "conv2")
    return Function(free_vars(body), body)


def get_workload(
    input_shape: tuple[Any, ...] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters: weights are 0."""
    return create_workload(get_net(input_shape, dtype, wtype), Constant())
