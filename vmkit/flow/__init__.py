"""Compiling as one step of a flow of tools: options by the keys of mlonmcu's TVM backends, artifacts, metrics.

The compiler runs in a process of its own, which may take a limited time and may crash without harm.
"""

from .artifacts import Artifact, ArtifactFormat
from .flow import Flow
from .options import FlowOptions

__all__ = ["Artifact", "ArtifactFormat", "Flow", "FlowOptions"]
