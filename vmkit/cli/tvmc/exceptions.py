"""The errors of ``tvmc``, under their names of TVM 0.14."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from vmkit.errors import VMKitError

__all__ = ["TVMCException", "TVMCImportError", "one_line", "reported"]

_CARETS = re.compile(r"\s*\^[\s^]*")


class TVMCException(VMKitError):
    """What ``tvmc`` was asked for cannot be done; the command exits with 4."""


class TVMCImportError(TVMCException, ImportError):
    """A package that a model needs is not installed; the command exits with 5."""


@contextmanager
def reported() -> Iterator[None]:
    """Raise what is wrong with arguments, inside, as TVMCException."""
    try:
        yield
    except TVMCException:
        raise
    except VMKitError as error:
        raise TVMCException(str(error)) from error


def one_line(error: BaseException) -> str:
    """Return an error's message as one line: without quoted text that carets point into.

    >>> one_line(VMKitError("expected a size\\n  x:[1,]\\n       ^"))
    'expected a size'
    """
    kept: list[str] = []
    for line in str(error).splitlines():
        if _CARETS.fullmatch(line):
            kept[-1:] = []
        elif line.strip():
            kept.append(line.strip())
    joined = ""
    for line in kept:
        glue = "" if not joined else " " if joined.endswith((":", ",", ";")) else "; "
        joined += glue + line
    return joined or type(error).__name__
