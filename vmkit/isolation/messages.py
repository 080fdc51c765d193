"""What goes through the pipes between a process and its worker: pickled objects, each after its length.

Both ends are the same program, run by the same user, and nobody else has the pipes.
"""

from __future__ import annotations

import io
import pickle
import struct
import traceback
from typing import BinaryIO

from .._dataclasses import dataclass
from ..errors import VMKitError

__all__ = ["Done", "Failed", "Job", "Logged", "RemoteTraceback", "failure_of", "receive", "send"]

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Job:
    """A call of the function ``MODULE:NAME``; the worker's logger ``vmkit`` has a level meanwhile."""

    function: str
    arguments: tuple[object, ...]
    log_level: int


@dataclass(frozen=True)
class Logged:
    """What the work said on the way to a logger."""

    logger: str
    level: int
    text: str


@dataclass(frozen=True)
class Done:
    """What the function returned."""

    result: object


@dataclass(frozen=True)
class Failed:
    """What the function raised, and where."""

    error: Exception
    trace: str


class RemoteTraceback(Exception):
    """The traceback of an error in another process, which is the cause of the same error here."""

    def __str__(self) -> str:
        return f"in the worker:\n{self.args[0]}"


def send(pipe: BinaryIO, message: object) -> None:
    """Write a message."""
    data = pickle.dumps(message, protocol=5)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes | None:
    """Return the bytes of the next message, to be unpickled; None at the end."""
    head = _read(pipe, _LENGTH.size)
    return None if head is None else _read(pipe, _LENGTH.unpack(head)[0])


def _read(pipe: BinaryIO, size: int) -> bytes | None:
    data = io.BytesIO()
    while data.tell() < size:
        part = pipe.read(min(size - data.tell(), 1 << 20))
        if not part:
            return None
        data.write(part)
    return data.getvalue()


def failure_of(error: Exception) -> Failed:
    """Return the message of an error, as one of the same class and text where that can be made again."""
    trace = "".join(traceback.format_exception(error))
    try:
        again = pickle.loads(pickle.dumps(error))
        if type(again) is type(error) and str(again) == str(error):
            return Failed(error, trace)
    except Exception:  # whatever its class does when it is pickled, its text is what matters
        pass
    return Failed(VMKitError(f"{type(error).__qualname__}: {error}"), trace)
