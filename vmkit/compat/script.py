"""``tvm.script`` for functions that were written for TVM 0.14."""

from __future__ import annotations

from vmkit._tvm import decide_dialect

__all__ = ["install_script"]

_BLOCKS = ("block", "sblock")


def install_script() -> None:
    """Take a function with ``T.block`` for one that is scheduled, as every function of tensors was in TVM 0.14.

    TVM has a dialect of its own for these now, and wants ``@T.prim_func(s_tir=True)``, which still decides where a
    script says it.
    """
    decide_dialect(_has_blocks)


def _has_blocks(node: object) -> bool:
    """Say whether a function calls ``block``, by any name of the module that it comes from."""
    waiting: list[object] = [node]
    while waiting:
        found = waiting.pop()
        if getattr(found, "attr", None) in _BLOCKS:
            return True
        if isinstance(found, list | tuple):
            waiting += found
        elif hasattr(found, "_FIELDS"):
            waiting += [getattr(found, name, None) for name in found._FIELDS]
    return False
