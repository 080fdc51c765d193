"""Targets for all processors of a family, and which targets are for no processor in particular."""

from __future__ import annotations

import re
from typing import Any

from tvm.target import Target

from vmkit.target import llvm

__all__ = ["PORTABLE", "is_generic", "portable_config"]

PORTABLE = "portable"

# LLVM's names for what every processor of an architecture, or every one since some year, has.
_GENERIC = re.compile(r"|generic(-\w+)?|x86-64(-v[234])?")


def portable_config(triple: str = "") -> dict[str, Any]:
    """The configuration for every processor of an architecture: by default of this machine's.

    Instructions are those of its first processors. On x86-64 kernels are laid out in vectors of 256 bits all the same:
    the first processors compute each in two parts, and a file of LLVM IR is compiled for what is there.
    """
    triple = triple or llvm.default_triple()
    width = {"vector-width": 256} if llvm.architecture(triple) == "x86_64" else {}
    return {"kind": "llvm", "mtriple": triple, **width}


def is_generic(target: Target) -> bool:
    """Whether an ``llvm`` target names no processor but a family of them, as far as its cpu says."""
    return _GENERIC.fullmatch(llvm.description_of(target)[1]) is not None
