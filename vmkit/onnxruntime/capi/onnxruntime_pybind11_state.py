"""What scripts import of onnxruntime's module in C++: its errors, and what the package has of it as it is.

:mod:`vmkit.onnxruntime.errors` has the errors. Sessions, values and bindings of the package wrap those in C++, which
have other arguments and are not here.
"""

from ..described import ModelMetadata, NodeArg
from ..enumerations import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtMemType,
)
from ..errors import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from ..options import RunOptions, SessionOptions, set_default_logger_severity, set_global_thread_pool_sizes
from ..providers import get_all_providers, get_available_providers, get_device

__all__ = [
    "DeviceReset",
    "EPFail",
    "EngineError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelMetadata",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotFound",
    "NotImplemented",
    "OrtAllocatorType",
    "OrtMemType",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "set_default_logger_severity",
    "set_global_thread_pool_sizes",
]
