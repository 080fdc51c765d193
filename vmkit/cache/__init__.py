"""Executables kept on disk, so that what was compiled once is not compiled again.

``vmkit.compile(model, cache=True)`` looks here first. An entry is found by its :class:`Key`, which names all that the
executable depends on; what is logged at level INFO says why an entry was found or not. What Python code registers by
itself, such as operators or passes of one's own, is not part of a key.
"""

from __future__ import annotations

from .cache import LIMIT, Cache, Entry
from .folder import default_folder
from .key import Key

__all__ = ["LIMIT", "Cache", "Entry", "Key", "default_folder"]
