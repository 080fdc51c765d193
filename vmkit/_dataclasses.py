"""Dataclasses whose methods are made when the first of them is needed.

Python writes the methods of a dataclass as source, and compiles it, once the class is defined. A process defines
hundreds, and of most it never has an instance. What is decorated here makes them with its first instance, or with the
first question that :mod:`dataclasses` or :mod:`inspect` has; from then on it is what Python would have made.
"""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

__all__ = ["dataclass"]

C = TypeVar("C", bound=type)

# What a dataclass says of itself, and what inspect asks a class for before it looks at ``__init__``.
_FACTS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_SIGNATURE = "__signature__"


class _Incomplete(NamedTuple):
    """What the decorator was told, and what stands in the class until it is complete."""

    options: dict[str, bool]
    stand_ins: dict[str, Any]


_incomplete: WeakKeyDictionary[type, _Incomplete] = WeakKeyDictionary()
_completing = threading.RLock()


class _FactLater:
    """An attribute of a class that is there once the class is complete."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> object:
        for each in owner.__mro__:
            _complete(each)
        return getattr(owner, self._name)


_FACTS_LATER = {name: _FactLater(name) for name in (*_FACTS, _SIGNATURE)}


def _dataclass(
    cls: C | None = None, /, *, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> C | Callable[[C], C]:
    """Make a class a dataclass; see :func:`dataclasses.dataclass`, which has more options than are used here."""

    def decorate(cls: C) -> C:
        own = vars(cls)
        stand_ins: dict[str, Any] = {name: each for name, each in _FACTS_LATER.items() if name not in own}
        for name in ("__init__", "__repr__", "__eq__") if eq else ("__init__", "__repr__"):
            if name not in own:
                stand_ins[name] = _method_later(cls, name)
        # Python itself puts a None there in a class that has an ``__eq__`` of its own.
        if eq and (own.get("__hash__") is None if "__eq__" in own else "__hash__" not in own):
            stand_ins["__hash__"] = _method_later(cls, "__hash__") if frozen else None
        _incomplete[cls] = _Incomplete({"frozen": frozen, "eq": eq, "kw_only": kw_only}, stand_ins)
        for name, each in {**stand_ins, **(_refusals(cls) if frozen else {})}.items():
            setattr(cls, name, each)
        return cls

    return decorate if cls is None else decorate(cls)


if not TYPE_CHECKING:
    dataclass = _dataclass


def _method_later(cls: type, name: str) -> Callable[..., Any]:
    """Return what stands for a method until it is made."""

    def method(self: object, *args: Any, **kwargs: Any) -> object:
        _complete(cls)
        with _completing:
            if vars(cls)[name] is method:
                setattr(cls, name, _made(cls, name))
        return vars(cls)[name](self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return method


def _refusals(cls: type) -> dict[str, Callable[..., None]]:
    """Return the methods that refuse to change an instance of a frozen class, which take no source."""

    def is_fixed(self: object, name: str) -> bool:
        return type(self) is cls or name in cls.__dataclass_fields__  # type: ignore[attr-defined]

    def __setattr__(self: object, name: str, value: object) -> None:
        if is_fixed(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # type: ignore[arg-type]

    def __delattr__(self: object, name: str) -> None:
        if is_fixed(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)  # type: ignore[arg-type]

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _complete(cls: type) -> None:
    """Give a class the facts of a dataclass and what makes instances, if it was decorated and lacks them.

    Python makes them for a class beside it that has the same fields. Each takes the place of what stood for it, so that
    another thread finds the one or the other.
    """
    if cls not in _incomplete:
        return
    with _completing:
        if cls not in _incomplete:
            return  # another thread was first
        options, stand_ins = _incomplete[cls]
        # Of the methods only the first to be needed; it is half of the time.
        own, made = vars(cls), vars(dataclasses.dataclass(**{**options, "repr": False, "eq": False})(_beside(cls)))
        made["__dataclass_params__"].repr, made["__dataclass_params__"].eq = True, options["eq"]
        for name in inspect.get_annotations(cls):
            if isinstance(own.get(name), dataclasses.Field):  # its default stands there from now on, if it has one
                setattr(cls, name, made[name]) if name in made else delattr(cls, name)
        for name in (*_FACTS, "__replace__", "__init__"):
            if name in made and own.get(name) is stand_ins.get(name):
                setattr(cls, name, made[name])
        if own.get(_SIGNATURE) is stand_ins.get(_SIGNATURE, cls):
            delattr(cls, _SIGNATURE)
        del _incomplete[cls]


def _made(cls: type, name: str) -> object:
    """Return the method of a name that Python makes for the fields of a class: how it is shown, compared or hashed."""
    fields = {each.name: each for each in dataclasses.fields(cls)}
    decorate = dataclasses.dataclass(
        init=False, repr=name == "__repr__", eq=name == "__eq__", unsafe_hash=name == "__hash__"
    )
    return vars(decorate(_named(cls, fields, {each.name: each.type for each in fields.values()})))[name]


def _beside(cls: type) -> type:
    """Return a class that has the fields of another, those of its bases too, and nothing else of it."""
    inherited: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        if dataclasses.is_dataclass(base):
            inherited |= {each.name: each for each in dataclasses.fields(base)}
    annotations = inspect.get_annotations(cls)
    own = {name: vars(cls)[name] for name in annotations if name in vars(cls)}
    members = {name: each for name, each in inherited.items() if name not in annotations} | own
    types = {name: each.type for name, each in inherited.items()} | annotations
    if hasattr(cls, "__post_init__"):
        members["__post_init__"] = cls.__post_init__
    return _named(cls, members, types)


def _named(cls: type, members: Mapping[str, Any], annotations: Mapping[str, Any]) -> type:
    """Return a class that is called as another, with members and annotations of its own."""
    # Without documentation Python would write some.
    names = {"__doc__": cls.__name__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (), {**members, **names, "__annotations__": dict(annotations)})
