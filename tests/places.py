"""Where the tests' data is: what the project carries, and what may lie beside a checkout."""

from pathlib import Path

__all__ = ["DATA", "SHARED", "TESTS", "TOP"]

TESTS = Path(__file__).resolve().parent
TOP = TESTS.parent
DATA = TESTS / "data"
SHARED = TOP.parent / "shared"
"""The whole collections of golden programs and models. Where this folder is not, the part in `DATA` has to do."""
