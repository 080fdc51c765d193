"""What the exit codes of ``vmkit`` mean."""

from __future__ import annotations

import enum

__all__ = ["ExitCode"]


class ExitCode(enum.IntEnum):
    """The exit codes of every sub-command; :attr:`meaning` says what each stands for."""

    OK = 0, "done"
    INTERNAL = 1, "an error inside vmkit"
    USAGE = 2, "wrong arguments"
    MODEL = 3, "a model, target or file that cannot be used"
    MISMATCH = 4, "a run whose results are not as they should be"
    INTERRUPTED = 130, "interrupted"

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        """Attach `meaning` to the number."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code
