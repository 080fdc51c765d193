"""The Model Library Format of microTVM, version 7: models as C99 that runs without an operating system."""

from .export import VERSION, export
from .library import BuiltModel, ModelLibrary, load

__all__ = ["VERSION", "BuiltModel", "ModelLibrary", "export", "load"]
