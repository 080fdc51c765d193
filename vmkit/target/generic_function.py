"""Functions that do something else for each kind of target: the one for the target in force is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm.target import Target

__all__ = ["GenericFunction", "generic_func"]


class GenericFunction:
    """A function with others for kinds of targets, by their keys.

    Parameters
    ----------
    default : callable
        What is called without a target, or for one that none is registered for.

    Examples
    --------
    >>> @generic_func
    ... def lanes():
    ...     return 1
    >>> @lanes.register("cuda")
    ... def lanes_of_cuda():
    ...     return 32
    >>> lanes()
    1
    """

    def __init__(self, default: Callable[..., Any]) -> None:
        self.default = default
        self.by_key: dict[str, Callable[..., Any]] = {}
        self.__name__, self.__doc__ = default.__name__, default.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - what the functions return
        target = Target.current(allow_none=True)
        found = (self.by_key[key] for key in (target.keys if target is not None else ()) if key in self.by_key)
        return next(found, self.default)(*args, **kwargs)

    def register(
        self, key: str | Sequence[str], func: Callable[..., Any] | None = None, override: bool = False
    ) -> Callable[..., Any]:
        """Register a function for targets that have a key, or one of several; may be used as a decorator.

        Parameters
        ----------
        key : str or sequence of str
            Keys of targets, such as ``"cpu"``, ``"arm_cpu"`` or ``"cuda"``. That of the key which a target names first
            is called.
        func : callable, optional
            The function.
        override : bool
            Whether it may take the place of another.

        Raises
        ------
        ValueError
            When there is one for the key already.
        """
        keys = [key] if isinstance(key, str) else list(key)

        def put(given: Callable[..., Any]) -> Callable[..., Any]:
            for each in keys:
                if each in self.by_key and not override:
                    raise ValueError(f"{self.__name__} has a function for {each!r} already; pass override=True")
                self.by_key[each] = given
            return given

        return put if func is None else put(func)


def generic_func(fdefault: Callable[..., Any]) -> GenericFunction:
    """Return a function that others may be registered with for kinds of targets; a decorator."""
    return GenericFunction(fdefault)
