"""Builders of the ``qnn`` operators: ``relay.qnn.op.quantize(data, scale, zero_point)`` and so on."""

from ..op.qnn.config import RequantizeConfig, current_requantize_config, requantize_config
from ..op.registry import namespace

__all__ = ["RequantizeConfig", "current_requantize_config", "requantize_config"]

__getattr__, _operator_names = namespace("qnn.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_operator_names()])
