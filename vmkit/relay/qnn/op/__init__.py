"""Builders of the ``qnn`` operators: ``relay.qnn.op.quantize(data, scale, zero_point)`` and so on."""

from ...op.attached import register_qnn_canonicalize, register_qnn_legalize
from ...op.qnn.config import RequantizeConfig, current_requantize_config, requantize_config
from ...op.registry import namespace
from . import canonicalizations, channel_stripping, hexagon, legalizations

__all__ = [
    "RequantizeConfig",
    "canonicalizations",
    "channel_stripping",
    "current_requantize_config",
    "hexagon",
    "legalizations",
    "register_qnn_canonicalize",
    "register_qnn_legalize",
    "requantize_config",
]

__getattr__, _operator_names = namespace("qnn.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_operator_names()])
