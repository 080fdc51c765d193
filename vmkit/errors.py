"""The errors vmkit raises.

Every error derives from :class:`VMKitError` and from the built-in exception that a caller would catch without
knowing vmkit. A message names the thing, what was expected, what came and what to do; where several things are
wrong, all of them are collected before one error is raised.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeVar

__all__ = [
    "CompileError",
    "CompileMemoryError",
    "CompileTimeoutError",
    "DeviceError",
    "DimensionError",
    "ExecutableError",
    "GivenInputsError",
    "InputError",
    "ModelError",
    "OptionError",
    "ParseError",
    "QuantizationError",
    "TargetError",
    "TypeCheckError",
    "UnavailableError",
    "UnsupportedOperatorError",
    "VMError",
    "VMKitError",
    "VersionError",
    "suggest",
]

E = TypeVar("E", bound="VMKitError")


class VMKitError(RuntimeError):
    """Base of every error that vmkit raises on purpose; as TVM's own errors are, a RuntimeError.

    Attributes
    ----------
    problems : tuple of str
        Where several things are wrong, each by itself; empty where the message is of one.
    """

    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls: type[E], problems: Iterable[str]) -> E:
        """Return the error for several problems, whose message is all of theirs.

        >>> VMKitError.of(["this", "that"]).problems
        ('this', 'that')
        """
        listed = tuple(problems)
        error = cls("\n".join(listed))
        error.problems = listed
        return error


class InputError(VMKitError, ValueError):
    """Arguments of a call do not match the signature of the function called."""


class GivenInputsError(InputError, AssertionError):
    """Names, shapes or types that are given for a model's inputs do not fit the model; Relay's importer asserted it."""


class ModelError(VMKitError, ValueError):
    """A model file or module is malformed."""


class QuantizationError(ModelError, AssertionError):
    """A program that automatic quantisation cannot take, or whose result is not as integral as was asked for."""


class UnsupportedOperatorError(ModelError, NotImplementedError):
    """A model uses operators that no converter exists for; the message lists all of them.

    Attributes
    ----------
    operators : tuple of str
        The operators, each with the nodes that are it; empty where a single use of an operator is not supported.
    """

    def __init__(self, message: str, operators: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.operators = tuple(operators)


class ParseError(VMKitError, ValueError):
    """Text that does not parse; the message shows file, line, column, the line itself and a caret."""


class TypeCheckError(VMKitError, TypeError):
    """A Relay program is ill-typed."""


class DimensionError(TypeCheckError, ValueError):
    """A shape that no tensor can have."""


class CompileError(VMKitError, RuntimeError):
    """A well-typed program that cannot be compiled."""


class CompileTimeoutError(CompileError, TimeoutError):
    """Compiling took longer than was allowed."""


class CompileMemoryError(CompileError, MemoryError):
    """Compiling took more memory than was allowed."""


class TargetError(VMKitError, ValueError):
    """A compilation target that does not exist or is malformed."""


class OptionError(VMKitError, ValueError):
    """An unknown or ill-typed compiler option: a pass name, a configuration key, an optimisation level."""


class DeviceError(VMKitError, RuntimeError):
    """A device that is unknown, absent, or not the one an executable was built for."""


class ExecutableError(VMKitError, ValueError):
    """An executable file that is truncated, altered, of a newer format, or built for another machine."""


class VMError(VMKitError, RuntimeError):
    """A program failed while it ran."""


class UnavailableError(VMKitError, NotImplementedError):
    """Something that TVM or onnxruntime has and that is not here; the message says what to use in its place."""


class VersionError(VMKitError, ImportError):
    """An installed package has a version that vmkit cannot work with."""


def suggest(name: str, known: Iterable[str], *, limit: int = 3) -> str:
    """Return ``"; did you mean 'a' or 'b'?"`` for the known names close to `name`, or an empty string.

    >>> suggest("conv2", ["conv2d", "dense"])
    "; did you mean 'conv2d'?"
    """
    close = difflib.get_close_matches(name, list(known), n=limit, cutoff=0.6)
    if not close:
        return ""
    return "; did you mean " + " or ".join(repr(c) for c in close) + "?"
