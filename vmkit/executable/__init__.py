"""What was built: bytecode, kernels and signatures; saved to one file and loaded from it."""

from .build_info import BuildInfo
from .executable import Executable
from .loading import load

__all__ = ["BuildInfo", "Executable", "load"]
