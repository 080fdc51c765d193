"""The Model Library Format of microTVM, version 7: models as C99 that runs without an operating system."""

from .export import VERSION, export

__all__ = ["VERSION", "export"]
