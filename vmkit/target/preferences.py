"""What LLVM is told of a processor beside its instructions: which of them are slower than what does the same."""

from __future__ import annotations

from tvm.target import Target

from . import llvm
from .plan import with_attributes

__all__ = ["with_preferences"]

_NO_GATHERS = "prefer-no-gather"
_SLOW_GATHERS = ("znver",)
"""Beginnings of the names of processors that take longer to gather a vector than to load its elements one by one."""


def with_preferences(target: Target) -> Target:
    """Return the target that code is generated for: what a CPU target says, and what is better avoided on it.

    A preference is no instruction, so code for the one runs wherever code for the other does. What the target itself
    says of it holds.
    """
    if str(target.kind.name) != "llvm":
        return target
    triple, cpu, attributes = llvm.description_of(target)
    said = {attribute[1:] for attribute in attributes}
    is_slow = cpu.startswith(_SLOW_GATHERS) and _NO_GATHERS not in said
    # LLVM is silent about a feature that it does not know.
    return with_attributes(target, f"+{_NO_GATHERS}") if is_slow and llvm.is_feature(_NO_GATHERS, triple) else target
