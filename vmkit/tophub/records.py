"""Tuning records: which decisions were found to be the best for a kernel, where, when and how."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._dataclasses import dataclass
from ..errors import OptionError
from .workload import Workload

__all__ = ["FARTHEST", "Record", "Records"]

FARTHEST = 2.0
"""How far a kernel's sizes may be from those of a record that it takes decisions from, in powers of two in all."""

_FORMAT = 1


@dataclass(frozen=True)
class Record:
    """The decisions that were found for a kernel.

    Attributes
    ----------
    workload : Workload
        The kernel.
    decisions : dict
        The decisions of its rule by name.
    target_class : str
        Of what class of targets; see :func:`vmkit.tophub.target_class`.
    cpu : str
        What LLVM calls the target's processor, or the architecture of a GPU.
    default_seconds, seconds : float
        What a call took with the default decisions and with these ones; for unknown sizes, at those that were measured.
    vmkit, tvm : str
        Versions.
    date : str
        When it was found, ISO 8601.
    basis : str
        What the seconds rest on: ``measured``, or what they were computed with where no such machine was at hand.
    """

    workload: Workload
    decisions: dict[str, Any]
    target_class: str
    cpu: str
    default_seconds: float
    seconds: float
    vmkit: str
    tvm: str
    date: str
    basis: str = "measured"

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object."""
        return {**asdict(self), "workload": self.workload.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """Return the record of a JSON object; KeyError, TypeError or ValueError where it is none."""
        record = cls(**{**data, "workload": Workload.from_json(data["workload"])})
        if not isinstance(record.decisions, dict) or not isinstance(record.target_class, str):
            raise TypeError("decisions are an object and the class of a target is a string")
        if not isinstance(record.basis, str):
            raise TypeError("the basis of a record is a string")
        if not all(isinstance(seconds, int | float) for seconds in (record.default_seconds, record.seconds)):
            raise TypeError("the seconds of a record are numbers")
        return record


class Records:
    """Tuning records, those that come first the more important.

    Parameters
    ----------
    records : iterable of Record
        Of several of one kernel and class of targets, the first counts.

    Examples
    --------
    >>> len(Records())
    0
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._by_key: dict[tuple[str, Workload], Record] = {}
        for record in records:
            self._by_key.setdefault((record.target_class, record.workload), record)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._by_key.values())

    def __add__(self, other: Records) -> Records:
        if not (len(self) and len(other)):
            return self if len(self) else other
        return Records([*self, *other])

    def exact(self, workload: Workload, target_class: str) -> Record | None:
        """Return the record of a kernel."""
        return self._by_key.get((target_class, workload))

    def near(self, workload: Workload, target_class: str) -> list[Record]:
        """Return the records of kernels that differ in sizes by :data:`FARTHEST` at most, the nearest first."""
        found = []
        for (of_class, other), record in self._by_key.items():
            distance = workload.distance(other) if of_class == target_class else None
            if distance is not None and distance <= FARTHEST:
                found.append((distance, other.fused != workload.fused, record))
        return [record for *_, record in sorted(found, key=lambda entry: entry[:2])]

    @classmethod
    def read(cls, path: str | Path) -> Records:
        """Return the records of a file.

        Raises
        ------
        OptionError
            If there is no such file or it holds something else.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if data["format"] != _FORMAT:
                raise ValueError(f"format {data['format']}, expected {_FORMAT}")
            return cls([Record.from_json(entry) for entry in data["records"]])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise OptionError(f"tuning records {path} cannot be read: {type(error).__name__}: {error}") from error

    def write(self, path: str | Path) -> None:
        """Write the records to a file, one a line; the file is replaced as a whole."""
        path = Path(path)
        lines = ",\n".join(json.dumps(record.to_json()) for record in self)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_text(f'{{"format": {_FORMAT}, "records": [\n{lines}\n]}}\n', encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
