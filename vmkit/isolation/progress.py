"""How far work is, told to a logger: so it comes back from another process, too.

Whoever shows progress listens to :data:`LOGGER` at level ``INFO``.
"""

from __future__ import annotations

import logging

__all__ = ["LOGGER", "read", "tell"]

LOGGER = __name__

_logger = logging.getLogger(LOGGER)


def tell(done: int, total: int, what: str) -> None:
    """Tell that so many parts of the work are done, and what is done next."""
    _logger.info("%s of %s: %s", done, total, what)


def read(message: str) -> tuple[int, int, str]:
    """Return what :func:`tell` was given, out of the message of a record.

    >>> read("1 of 4: building kernels")
    (1, 4, 'building kernels')
    """
    counts, _, what = message.partition(": ")
    done, _, total = counts.partition(" of ")
    return int(done), int(total), what
