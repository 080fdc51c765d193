"""``tvm.relay.backend.name_transforms`` and ``tvm.runtime.name_transforms``: names as C has them, in TVM's style."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vmkit.errors import InputError

__all__ = [
    "prefix_generated_name",
    "prefix_name",
    "sanitize_name",
    "to_c_constant_style",
    "to_c_function_style",
    "to_c_variable_style",
]

_PREFIX, _GENERATED = "TVM", "TVMGen"


def to_c_function_style(original_name: str) -> str:
    """Return a prefixed name such as ``TVM_my_function`` as one of a function: ``TVMMyFunction``."""
    first, *others = _prefixed(original_name, "Function").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def to_c_variable_style(original_name: str) -> str:
    """Return a prefixed name as one of a variable: ``tvm_my_variable``."""
    return _prefixed(original_name, "Variable").lower()


def to_c_constant_style(original_name: str) -> str:
    """Return a prefixed name as one of a constant: ``TVM_MY_CONSTANT``."""
    return _prefixed(original_name, "Constant").upper()


def prefix_name(names: Sequence[str] | str) -> str:
    """Return the parts of a name joined, behind ``TVM``."""
    return _joined(_PREFIX, names)


def prefix_generated_name(names: Sequence[str] | str) -> str:
    """Return the parts of a name joined, behind ``TVMGen``, which names have that TVM makes."""
    return _joined(_GENERATED, names)


def sanitize_name(original_name: str) -> str:
    """Return a name with an underscore for each character that C does not have in names."""
    if not original_name:
        raise InputError("Name is empty")
    return re.sub(r"\W", "_", original_name, flags=re.ASCII)


def _prefixed(name: str, what: str) -> str:
    if not name:
        raise InputError(f"{what} name is empty")
    if not name.startswith(_PREFIX):
        raise InputError(f"{what} not TVM prefixed: {name}; prefix_name and prefix_generated_name do that")
    return name


def _joined(prefix: str, names: Sequence[str] | str) -> str:
    parts = [names] if isinstance(names, str) else list(names)
    if not parts:
        raise InputError("Name segments empty")
    if "" in parts:
        raise InputError("Name is empty" if isinstance(names, str) else "Name segment is empty")
    return "_".join([prefix, *parts])
