"""What the functions are called by which libraries of kernels tell of the pool of threads in them."""

from __future__ import annotations

__all__ = ["SLOT", "TABLE"]

TABLE = "vmkit_pool"
"""Returns the address of a table of the pool's functions; one of a library, or of what it imports, has it.

Files keep it, and a process uses that of the first: a table of another form needs another name.
"""

SLOT = "vmkit_pool_slot"
"""With a number after it: returns the address of the pointer by which kernels of a library share their work."""
