"""What scripts for onnxruntime use, run by vmkit: ``import vmkit.onnxruntime as ort``.

Every public name of the onnxruntime package is here: it works, or it says why it has no counterpart
(:mod:`vmkit.onnxruntime.coverage` lists those). Errors are those of :mod:`vmkit.onnxruntime.errors`.
"""

from __future__ import annotations

from typing import Any

from .._version import __version__
from ..errors import suggest
from . import capi
from .binding import IOBinding
from .coverage import REFUSED, refused
from .described import ModelMetadata, NodeArg
from .enumerations import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtDeviceVendorId,
    OrtMemType,
)
from .options import RunOptions, SessionOptions, set_default_logger_severity, set_global_thread_pool_sizes
from .ort_value import OrtDevice, OrtValue, copy_tensors
from .providers import get_all_providers, get_available_providers, get_device
from .session import InferenceSession

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtMemType",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "capi",
    "copy_tensors",
    "disable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "has_collective_ops",
    "set_default_logger_severity",
    "set_global_thread_pool_sizes",
]


def get_version_string() -> str:
    """Return the version, of vmkit."""
    return __version__


def get_build_info() -> str:
    """Return what runs models here, in a line."""
    return f"vmkit {__version__} on TVM; providers {', '.join(get_available_providers())}"


def has_collective_ops() -> bool:
    """Say whether models may run on several machines at once: no."""
    return False


def disable_telemetry_events() -> None:
    """Do nothing: vmkit collects nothing."""


def __getattr__(name: str) -> Any:
    if name in REFUSED:
        raise refused(name, REFUSED[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{suggest(name, [*__all__, *REFUSED])}")
