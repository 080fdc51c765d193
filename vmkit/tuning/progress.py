"""What a tuning run says on the way."""

from __future__ import annotations

from .._dataclasses import dataclass
from ..tophub.records import Record

__all__ = ["Progress"]


@dataclass(frozen=True)
class Progress:
    """What a tuning run says after each kernel.

    Attributes
    ----------
    name : str
        The kernel.
    done, total : int
        How many kernels are done, and how many there are.
    record : Record or None
        What was found; None where the kernel cannot be measured.
    tried : int
        How many candidates were measured.
    failed : tuple of str
        Why others could not be.
    """

    name: str
    done: int
    total: int
    record: Record | None
    tried: int
    failed: tuple[str, ...]

    def __str__(self) -> str:
        said = f"kernel {self.done} of {self.total}, {self.name}: {self.tried} candidates"
        if self.failed:
            said += f", {len(self.failed)} failed (the last: {self.failed[-1]})"
        if self.record is None:
            return f"{said}; it cannot be measured"
        before, after = self.record.default_seconds, self.record.seconds
        return f"{said}, {before * 1e6:.1f} -> {after * 1e6:.1f} us"
