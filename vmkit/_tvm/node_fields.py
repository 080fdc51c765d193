"""Fields of nodes that Python defines, set by the functions that C++ sets its own by.

What tvm-ffi 0.1.14 makes to set such a field goes through Python for each, which takes most of the time that making a
node does, and takes one reference more to an object than it gives back, so that no node ever ended.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import tvm_ffi
from tvm_ffi import core, dataclasses
from tvm_ffi.libinfo import find_libtvm_ffi

from .node_references import give_back, references_to

__all__ = ["make_by_fields"]

Setter = Callable[[Any, Any], None]

# core (tvm_ffi.core): the tables of types; what makes an empty node, ``__ffi_new__``; ``MISSING``.
_C_INTERFACE = ctypes.CDLL(find_libtvm_ffi())
_OWN = "vmkit.Field"
_OBJECT = core._object_type_key_to_index("ffi.Object")

# Fields of C++ of the kinds that fields of Python's nodes have, by the kind.
_OF_CPP = {
    "Any": ("ffi.VisitInterrupt", "value"),
    "Array": ("ffi.Module", "imports_"),
    "str": ("ir.SourceName", "name"),
}


class _Bytes(ctypes.Structure):
    """TVMFFIByteArray."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _FieldInfo(ctypes.Structure):
    """TVMFFIFieldInfo."""

    _fields_ = (
        ("name", _Bytes),
        ("doc", _Bytes),
        ("metadata", _Bytes),
        ("flags", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("alignment", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("getter", ctypes.c_void_p),
        ("setter", ctypes.c_void_p),
        ("default", ctypes.c_int64 * 2),
        ("static_type", ctypes.c_int32),
    )


class _TypeInfo(ctypes.Structure):
    """TVMFFITypeInfo, as far as its fields."""

    _fields_ = (
        ("index", ctypes.c_int32),
        ("depth", ctypes.c_int32),
        ("key", _Bytes),
        ("ancestors", ctypes.c_void_p),
        ("key_hash", ctypes.c_uint64),
        ("fields_count", ctypes.c_int32),
        ("methods_count", ctypes.c_int32),
        ("fields", ctypes.POINTER(_FieldInfo)),
    )


_C_INTERFACE.TVMFFIGetTypeInfo.restype = ctypes.POINTER(_TypeInfo)


def make_by_fields(cls: type, note: Callable[[Any], None]) -> None:
    """Have a class of nodes that Python defines make them by setting their fields at once, and note each of them.

    Its ``__init__`` calls ``__ffi_init__`` before anything else, if it has one; it takes the fields by name, if not.
    """
    info = cls.__tvm_ffi_type_info__  # type: ignore[attr-defined]
    if info.fields is None:
        raise TypeError(f"{cls.__qualname__}: what its annotations name has to be defined before it")
    make = tvm_ffi.Object.__init_handle_by_constructor__
    empty = core._lookup_type_attr(info.type_index, "__ffi_new__")
    fields: _Fields | None = None

    def __ffi_init__(self: Any, /, *args: Any, **values: Any) -> None:
        nonlocal fields
        if fields is None:
            fields = _Fields(cls)
        if args:
            values = {**fields.by_place(args), **values}
        make(self, empty)
        fields.set(self, values)
        note(self)

    __ffi_init__.__qualname__ = f"{cls.__qualname__}.__ffi_init__"
    cls.__ffi_init__ = __ffi_init__  # type: ignore[attr-defined]
    written: Any = cls.__dict__.get("__init__")
    if written is not None:
        # tvm-ffi's own makes an empty node first, for one that sets fields by itself.
        cls.__init__ = getattr(written, "__wrapped__", __ffi_init__)  # type: ignore[misc]


class _Fields:
    """The fields of a class of nodes, and how they are set."""

    def __init__(self, cls: type) -> None:
        self._name = cls.__qualname__
        self._setters: dict[str, Setter] = {}
        self._defaults: dict[str, Callable[[], Any] | None] = {}
        self._places: list[str] = []
        kinds = []
        info = cls.__tvm_ffi_type_info__  # type: ignore[attr-defined]
        while info is not None:
            kinds.append(info)
            info = info.parent_type_info
        for kind in reversed(kinds):
            for each in kind.fields or ():
                self._add(kind.type_cls, each)
        self._required = self._setters.keys() - self._defaults.keys()

    def _add(self, owner: type, field: Any) -> None:
        self._setters[field.name] = _setter_of(owner, field)
        if field.c_init and not field.c_kw_only:
            self._places.append(field.name)
        if field.c_default_factory is not core.MISSING:
            self._defaults[field.name] = field.c_default_factory
        elif field.c_has_default:
            default = field.c_default
            self._defaults[field.name] = None if default is None else lambda: default

    def by_place(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return values by the names of fields, of which the required ones come first."""
        names = sorted(self._places, key=self._defaults.__contains__)
        if len(args) > len(names):
            raise TypeError(f"{self._name} takes at most {len(names)} values by their place, got {len(args)}")
        return dict(zip(names, args, strict=False))

    def set(self, node: Any, values: dict[str, Any]) -> None:
        """Set the fields of a new node; those that are not given have their defaults."""
        setters = self._setters
        try:
            for name, value in values.items():
                setters[name](node, value)
        except KeyError as error:
            raise TypeError(f"{self._name} has no field {error}") from None
        if len(values) < len(setters):
            self._set_others(node, values)

    def _set_others(self, node: Any, values: dict[str, Any]) -> None:
        missing = self._required - values.keys()
        if missing:
            raise TypeError(f"{self._name} needs a value for {', '.join(sorted(missing))}")
        for name, default in self._defaults.items():
            # An empty node has None everywhere.
            if name not in values and default is not None:
                self._setters[name](node, default())


def _setter_of(owner: type, field: Any) -> Setter:
    """Return what sets a field of the nodes of a class, which is set by it from now on if Python defined it."""
    if getattr(field, "dataclass_field", None) is None:
        return field.setter  # C++ defined it
    kind = field.ty.origin
    if kind in _OF_CPP:
        setter = _native_setter(kind, field.offset)
    elif field.field_static_type_index >= _OBJECT and _keep_a_reference():
        setter = _giving_back(field.setter)
    else:
        return field.setter  # a number, which nobody counts
    property_of = owner.__dict__[field.name]
    if property_of._fset is field.setter:
        made = type(property_of)(fget=property_of.fget, fset=setter, frozen=field.frozen, doc=property_of.__doc__)
        setattr(owner, field.name, made)
    else:
        return property_of._fset
    return setter


@lru_cache(None)
def _keep_a_reference() -> bool:
    """Say whether setters of this tvm-ffi take a reference too many: releases of one number may differ in it."""
    probe: Any = dataclasses.py_class("vmkit.Probe")(
        type("Probe", (tvm_ffi.Object,), {"__annotations__": {"held": tvm_ffi.Map[Any, Any]}})
    )
    held = tvm_ffi.convert({"probe": 0})
    before = references_to(held.__chandle__())
    probe(held)  # which ends here
    return references_to(held.__chandle__()) > before


def _giving_back(setter: Setter) -> Setter:
    """Return what sets a field of nodes of one class, and gives back the reference too many."""

    def set_field(node: Any, value: Any) -> None:
        setter(node, value)
        if value is not None:
            give_back(value.__chandle__())

    return set_field


@lru_cache(None)
def _native_setter(kind: str, offset: int) -> Setter:
    """Return C++'s function that sets a field of a kind, at an offset in a node: that of a type with such a field."""
    type_key, name = _OF_CPP[kind]
    info = _FieldInfo.from_buffer_copy(_cpp_field(type_key, name))
    info.offset = offset
    info.metadata = _Bytes(b"", 0)
    key = f"{_OWN}.{kind}.{offset}".encode()
    index = _C_INTERFACE.TVMFFITypeGetOrAllocIndex(ctypes.byref(_Bytes(key, len(key))), -1, 1, 0, 1, _OBJECT)
    if _C_INTERFACE.TVMFFITypeRegisterField(index, ctypes.byref(info)):
        raise ImportError(f"tvm-ffi takes no field of {kind} at {offset}")
    (field,) = core._lookup_or_register_type_info_from_type_key(key.decode()).fields
    setter: Setter = field.setter
    return setter


def _cpp_field(type_key: str, name: str) -> _FieldInfo:
    """Return what tvm-ffi knows of a field of a class of C++."""
    info = _C_INTERFACE.TVMFFIGetTypeInfo(core._object_type_key_to_index(type_key)).contents
    for at in range(info.fields_count):
        field: _FieldInfo = info.fields[at]
        if field.name.data[: field.name.size] == name.encode():
            return field
    raise ImportError(f"{type_key} has no field {name}; this release of tvm-ffi is another than the one that fits")
