"""ResNet with pre-activation, of 18 to 269 layers for ImageNet and of 6 n + 2 for CIFAR-10.

K. He et al.: Identity mappings in deep residual networks, 2016. As Relay built it: the first unit of every stage
projects its input, also where the numbers of channels agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from .. import nn
from ..ir import Dim, Function, free_vars, var
from . import layers
from .init import create_workload
from .residual import Residual, stages

__all__ = ["get_net", "get_workload", "resnet"]


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: tuple[Any, ...],
    bottle_neck: bool = True,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return a network: class probabilities of images.

    Parameters
    ----------
    units : sequence of int
        The number of units of each stage.
    num_stages : int
        The number of stages.
    filter_list : sequence of int
        The channels before the first stage, and of each stage.
    num_classes : int
        The number of classes.
    data_shape : tuple of int or dimensions
        The shape of the images, in `layout`; the first may be ``relay.Any()``.
    bottle_neck : bool
        Whether units are bottlenecks.
    layout : str
        ``"NCHW"`` or ``"NHWC"``.
    dtype : str
        The element type.
    """
    if not len(units) == num_stages == len(filter_list) - 1:
        raise ValueError(
            f"{num_stages} stages need as many units and one more number of channels, "
            f"not {len(units)} and {len(filter_list)}"
        )
    net = Residual(layers.conv2d, layout)
    body = net.normalised(var("data", shape=data_shape, dtype=dtype), "bn_data", scale=False)
    if data_shape[layout.index("H")] <= 32:
        body = net.convolved(body, filter_list[0], (3, 3), (1, 1), "conv0")
    else:
        body = net.activated(net.convolved(body, filter_list[0], (7, 7), (2, 2), "conv0"), "bn0")
        body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    body = net.trunk(body, units, filter_list[1:], bottle_neck)
    body = net.classified(body, nn.global_avg_pool2d, num_classes)
    return Function(free_vars(body), body)


def get_net(
    batch_size: Dim,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the network of a depth.

    Parameters
    ----------
    batch_size : int or dimension
        The number of images; ``relay.Any()`` leaves it to the run.
    num_classes : int
        The number of classes.
    num_layers : int
        The depth; see :func:`vmkit.relay.testing.residual.stages`.
    image_shape : tuple of int
        The shape of an image, in `layout`.
    layout : str
        ``"NCHW"`` or ``"NHWC"``.
    dtype : str
        The element type.
    """
    units, filters, bottle_neck = stages(num_layers, image_shape[layout.index("H") - 1])
    return resnet(units, len(units), filters, num_classes, (batch_size, *image_shape), bottle_neck, layout, dtype)


def get_workload(
    batch_size: Dim = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the network of :func:`get_net` as a typed module, and values for its parameters."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype))
