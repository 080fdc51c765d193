"""What a failure of TVM's compiler means: an error of vmkit that names what of a module is the cause."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import tvm

from ..errors import CompileError, VMKitError
from ..runtime.failures import useful_line
from .large_sizes import large_size_error
from .unsupported import unsupported_operators_error

__all__ = ["failures_named"]

P = ParamSpec("P")
T = TypeVar("T")


def failures_named(module_of: Callable[..., tvm.IRModule | None]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator for steps of the compiler: a failure whose cause is known becomes an error that names it.

    TVM's internal errors become errors of vmkit whatever their cause; what else is raised stays as it is.

    Parameters
    ----------
    module_of
        Returns the module that a step is about, from its arguments.
    """

    def decorated(step: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(step)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return step(*args, **kwargs)
            except (VMKitError, MemoryError):
                raise
            except Exception as error:
                known = _explained(error, module_of(*args, **kwargs))
                if known is None:
                    raise
                raise known from error

        return run

    return decorated


def _explained(error: Exception, mod: tvm.IRModule | None) -> VMKitError | None:
    known = large_size_error(error, mod) or unsupported_operators_error(error, mod)
    if known is None and isinstance(error, tvm.error.InternalError):
        return CompileError(f"TVM cannot compile the module: {useful_line(error)}")
    return known
