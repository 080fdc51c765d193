"""Fields that a reader does not know: those that say nothing are left out, all others are refused."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from ...errors import ModelError

if TYPE_CHECKING:
    from .reader import NodeReader

__all__ = ["refuse_unknown"]

# What was derived from the rest, or said where a node came from or where it was to run.
_DERIVED = frozenset(
    {
        "_checked_type_",
        "global_infos",
        "global_type_var_map_",
        "global_var_map_",
        "source_map",
        "span",
        "struct_info_",
        "virtual_device_",
    }
)
# False, null, the index of null, and no text: the defaults of nearly every field that a release added.
_NOTHING = frozenset({"", "0"})
# Fields that 0.14 does not have, and what they held when they changed nothing.
_DEFAULTS: dict[tuple[str, str], frozenset[str]] = {
    # A string's data type.
    ("tir.StringImm", "dtype"): frozenset({"handle"}),
    # The operator contrib_reverse_reshape said the same.
    ("relay.attrs.ReshapeAttrs", "reverse"): frozenset({"0", "1"}),
}


def refuse_unknown(type_key: str, given: Mapping[str, str], known: Container[str], reader: NodeReader) -> None:
    """Raise ModelError for the fields of a node that mean something and are not known."""
    for name, text in given.items():
        if name in known or name in _DERIVED or text in _NOTHING:
            continue
        if text in _DEFAULTS.get((type_key, name), ()):
            continue
        raise ModelError(
            f"field {name!r} = {text[:40]!r}, written by TVM {reader.version}, is not known; "
            "it must have no value to be left out"
        )
