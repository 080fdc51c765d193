"""Work in another process: what ends it, fills its memory or never returns is an error here.

:func:`run_isolated` calls a function by its name in a fresh interpreter, which is kept for the next call.
"""

from __future__ import annotations

from .limits import Limits
from .pool import run_isolated

__all__ = ["Limits", "run_isolated"]
