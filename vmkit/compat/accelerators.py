"""What TVM's own tests ask of the code generators for accelerators that it had: whether they are there. None is."""

from __future__ import annotations

__all__ = ["ethosn_available", "vitis_ai_available"]


def ethosn_available() -> bool:
    """Say that there is no code generator for Arm's Ethos-N."""
    return False


def vitis_ai_available() -> bool:
    """Say that there is no code generator for Vitis AI."""
    return False
