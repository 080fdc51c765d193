"""What was built: bytecode, kernels and signatures; saved to one file and loaded from it."""

from .executable import Executable, load

__all__ = ["Executable", "load"]
