"""The kinds of error that scripts for onnxruntime catch, as kinds of vmkit's own.

What goes wrong in a session is told in vmkit's words, as one of these; the error that it was is its ``__cause__``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import (
    CompileError,
    DeviceError,
    ExecutableError,
    InputError,
    ModelError,
    OptionError,
    TypeCheckError,
    UnavailableError,
    UnsupportedOperatorError,
    VMError,
    VMKitError,
)

__all__ = [
    "KINDS",
    "ArgumentTypeError",
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "RuntimeException",
    "as_kind",
    "told_as_kinds",
]


class Fail(VMError, CompileError):
    """A model cannot be compiled, or a run of it failed."""


class InvalidArgument(InputError, OptionError):
    """A feed, an output's name or an option is not what the session takes."""


class ArgumentTypeError(InvalidArgument, TypeError):
    """An argument is of another type than those that there are for it."""


class NoSuchFile(ModelError, FileNotFoundError):
    """There is no file at a model's path."""


class InvalidProtobuf(ModelError):
    """A file or bytes that hold no ONNX model, or a truncated one."""


class InvalidGraph(ModelError):
    """A model whose graph is malformed."""


class NotImplemented(UnsupportedOperatorError, UnavailableError):
    """A model has operators that vmkit does not support, or a name of onnxruntime has no counterpart."""


class EPFail(Fail, DeviceError):
    """None of the providers that were asked for is here."""


class RuntimeException(Fail):
    """One of onnxruntime's own; vmkit raises :class:`Fail`."""


class NoModel(Fail):
    """One of onnxruntime's own: every session of vmkit has a model."""


class ModelLoaded(Fail):
    """One of onnxruntime's own: no session of vmkit is loaded twice."""


class EngineError(Fail):
    """One of onnxruntime's own; vmkit raises :class:`Fail`."""


class NotFound(Fail):
    """One of onnxruntime's own; vmkit raises :class:`InvalidArgument`."""


class ModelLoadCanceled(Fail):
    """One of onnxruntime's own: loading a model cannot be cancelled here."""


class ModelRequiresCompilation(Fail):
    """One of onnxruntime's own: every model is compiled here."""


class DeviceReset(Fail):
    """One of onnxruntime's own; vmkit raises :class:`Fail`."""


KINDS: tuple[type[VMKitError], ...] = (
    DeviceReset,
    EPFail,
    EngineError,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
"""All that onnxruntime has."""

# By the error of vmkit; the first that fits.
_KIND_OF: tuple[tuple[type[VMKitError], type[VMKitError]], ...] = (
    (InputError, InvalidArgument),
    (OptionError, InvalidArgument),
    (UnsupportedOperatorError, NotImplemented),
    (ModelError, InvalidGraph),
    (TypeCheckError, Fail),
    (CompileError, Fail),
    (ExecutableError, Fail),
    (DeviceError, EPFail),
    (VMError, Fail),
)


def as_kind(error: VMKitError) -> VMKitError:
    """Return an error of vmkit as the kind that onnxruntime has for it, with the same text."""
    if isinstance(error, KINDS):
        return error
    return next((kind(str(error)) for own, kind in _KIND_OF if isinstance(error, own)), error)


@contextmanager
def told_as_kinds() -> Iterator[None]:
    """Raise vmkit's errors of what is done within as the kinds that onnxruntime has for them."""
    try:
        yield
    except VMKitError as error:
        kind = as_kind(error)
        if kind is error:
            raise
        raise kind from error
