"""Builders of the ``nn`` operators: ``relay.nn.dense(data, weight)`` and so on."""

from .op.nn.activation import dropout_raw
from .op.nn.global_pooling import global_avg_pool1d, global_avg_pool3d, global_max_pool1d, global_max_pool3d
from .op.nn.packed import contrib_conv2d_nchwc, contrib_depthwise_conv2d_nchwc
from .op.registry import namespace

__all__ = [
    "contrib_conv2d_nchwc",
    "contrib_depthwise_conv2d_nchwc",
    "dropout_raw",
    "global_avg_pool1d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool3d",
]

__getattr__, _operator_names = namespace("nn.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_operator_names()])
