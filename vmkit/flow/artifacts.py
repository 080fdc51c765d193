"""What a step of a flow makes: files with a format, which the next step looks for."""

from __future__ import annotations

import enum
from pathlib import Path

from .._dataclasses import dataclass

__all__ = ["Artifact", "ArtifactFormat"]


class ArtifactFormat(enum.Enum):
    """What a file is."""

    ARCHIVE = "archive"
    JSON = "json"
    MLF = "mlf"
    PARAMS = "params"
    SOURCE = "source"
    TEXT = "text"


@dataclass(frozen=True)
class Artifact:
    """A file that was made.

    Parameters
    ----------
    name : str
        Its name in the folder of the step.
    data : bytes
        What is in it.
    format : ArtifactFormat
        What it is.
    """

    name: str
    data: bytes
    format: ArtifactFormat

    @property
    def text(self) -> str:
        """What is in it, as text."""
        return self.data.decode()

    def export(self, folder: str | Path) -> Path:
        """Write it to a folder, and return the file."""
        path = Path(folder) / self.name
        path.write_bytes(self.data)
        return path
