"""``tvm.relay.backend.utils``: the names of what a model's library holds."""

from __future__ import annotations

__all__ = ["mangle_module_name"]

_PREFIX = "tvmgen"


def mangle_module_name(mod_name: str | None) -> str:
    """Return the prefix of the functions of a module: ``tvmgen`` and the module's name.

    Raises
    ------
    ValueError
        For a name with characters that are not of ASCII's.
    """
    if not mod_name:
        return _PREFIX
    if not mod_name.isascii():
        raise ValueError(f"Mangling of a module name {mod_name!r} that is not ASCII is not supported")
    return f"{_PREFIX}_{mod_name}"
