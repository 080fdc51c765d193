"""Objects of tvm-ffi made quicker to look at: what a compiler does most of all."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import tvm_ffi
from tvm_ffi import structural

from .running import array_item, array_items, array_size

__all__ = ["look_quickly"]

# The class of tvm-ffi's classes, which has no public name.
_Kind: Any = type(tvm_ffi.Object)
_item_of_any = tvm_ffi.Array.__getitem__
# What finds the number of a class that a walk or a map asks for; it computes what the class is as an annotation.
_walks: Any = structural
_number_of_class = _walks._callback_type_to_type_index
_callbacks_of_any = _walks._normalize_callbacks


def look_quickly() -> None:
    """Have the types of objects checked, and arrays read, in a third of the time or less.

    Classes of tvm-ffi are abstract ones, whose ``isinstance`` Python computes in Python. From now on objects belong to
    the classes that theirs derives from, until one is registered as another's without deriving from it. An array asks
    for its size, and checks the place, before each of its elements; it cannot change, so once is enough. Nor can the
    number of a class, which walks and maps of expressions look for each time.
    """
    _Kind.__instancecheck__ = type.__instancecheck__
    _Kind.register = _register
    tvm_ffi.Array.__iter__ = _iterate  # type: ignore[method-assign]
    tvm_ffi.Array.__getitem__ = _item  # type: ignore[method-assign]
    _walks._callback_type_to_type_index = lru_cache(1 << 10)(_number_of_class)
    _walks._normalize_callbacks = _callbacks


def _register(cls: abc.ABCMeta, subclass: type) -> type:
    if "__instancecheck__" in _Kind.__dict__:
        del _Kind.__instancecheck__
    return abc.ABCMeta.register(cls, subclass)


def _iterate(array: tvm_ffi.Array[Any]) -> Iterator[Any]:
    return iter(array_items(array))


def _item(array: tvm_ffi.Array[Any], at: Any) -> Any:
    if type(at) is int and 0 <= at < array_size(array):
        return array_item(array, at)
    return _item_of_any(array, at)


def _callbacks(callbacks: Any, *, api_name: str) -> list[tuple[Any, Any]]:
    if type(callbacks) is tuple:
        if not callbacks:
            return []
        if len(callbacks) == 2 and callable(callbacks[1]):
            kinds, callback = callbacks
            return [(kind, callback) for kind in kinds] if isinstance(kinds, tuple) else [(kinds, callback)]
    normalized: list[tuple[Any, Any]] = _callbacks_of_any(callbacks, api_name=api_name)
    return normalized
