"""``tvm.micro``: the Model Library Format; sessions with boards, projects and their servers are gone."""

from __future__ import annotations

from . import model_library_format
from .gone import gone
from .model_library_format import (
    NonStaticShapeError,
    UnsupportedInModelLibraryFormatError,
    export_model_library_format,
)

_GONE = (
    "AutoTvmModuleLoader",
    "Session",
    "autotvm_build_func",
    "create_local_debug_runtime",
    "create_local_graph_executor",
    "generate_project",
)

__all__ = [
    *_GONE,
    "NonStaticShapeError",
    "UnsupportedInModelLibraryFormatError",
    "export_model_library_format",
    "model_library_format",
]

_INSTEAD = "vmkit.mlf.export writes C that any firmware can build, and vmkit.mlf.load builds it for this machine"
vars().update({name: gone(f"tvm.micro.{name}", _INSTEAD) for name in _GONE})
