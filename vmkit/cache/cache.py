"""The entries of a cache: found, added, and dropped where there are too many.

An entry is one file: an executable whose manifest has the key, or a kernel (:mod:`.kernels`). It is there whole or not
at all, whenever a process is killed: it is written beside and moved into place. What cannot be read is removed and is a
miss.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import stat
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._dataclasses import dataclass
from ..errors import ExecutableError, OptionError, VMKitError
from ..executable import loading
from ..executable.archive import read_archive
from ..executable.executable import Executable
from ..executable.locks import changing, is_locked_here
from ..executable.replacing import remove_abandoned
from .folder import default_folder, private_folder
from .kernels import Kernels
from .key import Key
from .ownership import is_own

__all__ = ["LIMIT", "Cache", "Entry"]

LIMIT = 4 << 30
"""The bytes that the entries of a cache may have together, if nothing else is said."""

_NAME = re.compile(r"[0-9a-f]{64}\.vmx")
_KERNEL = re.compile(r"[0-9a-f]{64}\.o")
_PART = re.compile(r"\.[0-9a-f]{64}\.(vmx|o)\.[0-9a-f]{12}\.part")
_LOCK = re.compile(r"[0-9a-f]{64}\.lock")
_KEY = "cache_key"
_PATIENCE = 600.0  # seconds for another process to compile the same

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """An entry as it lies in its folder.

    Attributes
    ----------
    path : Path
        Its file.
    key : Key
        What it was compiled from; without parts if the file cannot be read.
    size : int
        In bytes.
    used : float
        When it was added or last found, in seconds since 1970.
    """

    path: Path
    key: Key
    size: int
    used: float

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"path": str(self.path), "size": self.size, "used": self.used, "key": dict(self.key.parts)}


class Cache:
    """A folder of executables by what they were compiled from.

    Parameters
    ----------
    folder : path, optional
        By default that of :func:`default_folder`. It is made if it is not there.
    limit : int
        The bytes that the entries, executables and kernels, may have together. The ones that were not used for longest
        go first.

    Raises
    ------
    OptionError
        If the folder cannot be used, or is not this user's alone: loading an entry runs its code.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Cache(folder).entries()
    []
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, limit: int = LIMIT) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise OptionError(f"the limit of a cache is {limit!r}, expected a number of bytes")
        self.folder = private_folder(default_folder() if folder is None else Path(folder))
        self.limit = limit

    def get(self, key: Key) -> Executable | None:
        """Return the executable of a key, or None; the log says why not."""
        path = self._path(key)
        if not path.exists():
            logger.info("cache miss: %s", self._reason(key))
            return None
        try:
            if not is_own(path):
                raise ExecutableError(f"{path}: not a file of this user")
            manifest, members = read_archive(path)
            if manifest.get(_KEY) != dict(key.parts):
                raise ExecutableError(f"{path}: the entry is of another key")
            executable = loading.from_archive(path, manifest, members)
        except VMKitError as error:
            logger.warning("cache miss: an entry cannot be used and is removed: %s", error)
            _remove(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        logger.info("cache hit: %s", path)
        return executable

    def put(self, key: Key, executable: Executable) -> None:
        """Keep an executable, and drop others if there are too many.

        Raises
        ------
        ExecutableError
            If it cannot be written.
        """
        path = self._path(key)
        executable.write(path, {_KEY: dict(key.parts)})
        if os.name == "posix":  # elsewhere what is read-only cannot be removed
            with contextlib.suppress(FileNotFoundError):  # another process may have dropped it
                path.chmod(stat.S_IRUSR)  # nobody writes to it, so its weights are mapped
        logger.info("cache: kept %s", path)
        self._evict(path)

    @contextlib.contextmanager
    def alone(self, key: Key) -> Iterator[None]:
        """Have others that want the same key wait, so that they find it; not for ever, since nothing breaks if not."""
        with open(self.folder / f"{key.digest}.lock", "ab") as lock:
            end = time.monotonic() + _PATIENCE
            if not is_locked_here(lock.fileno()):
                logger.info("cache: waiting for another process that compiles the same")
                while not is_locked_here(lock.fileno()) and time.monotonic() < end:
                    time.sleep(0.05)
            yield

    @property
    def kernels(self) -> Kernels:
        """The kernels of what was compiled, each by itself, for models that have some of them."""
        return Kernels(self.folder)

    def kernel_sizes(self) -> list[int]:
        """Return the bytes of each kernel in the cache."""
        return [status.st_size for _, status in self._statuses(_KERNEL)]

    def entries(self) -> list[Entry]:
        """Return what is in the cache, the entries that were used last first."""
        found = [Entry(path, _key_in(path), each.st_size, each.st_mtime) for path, each in self._statuses(_NAME)]
        return sorted(found, key=lambda entry: entry.used, reverse=True)

    def clear(self) -> int:
        """Remove all entries, and nothing else that lies in the folder; return how many executables there were."""
        with changing(self.folder):
            for kernel in self._files(_KERNEL):
                _remove(kernel)
            paths = list(self._files(_NAME))
            for path in paths:
                _remove(path)
            self._tidy()
        return len(paths)

    def _path(self, key: Key) -> Path:
        return self.folder / f"{key.digest}.vmx"

    def _files(self, name: re.Pattern[str]) -> Iterator[Path]:
        for entry in os.scandir(self.folder):
            if name.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)

    def _statuses(self, name: re.Pattern[str]) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self._files(name):
            with contextlib.suppress(FileNotFoundError):  # another process may have dropped it
                yield path, path.lstat()

    def _reason(self, key: Key) -> str:
        """Return why there is no entry: in what the nearest one of the same model differs."""
        model = key.parts.get("model")
        others = [entry.key for entry in self.entries() if entry.key.parts.get("model") == model]
        nearest = min(map(key.differences, others), key=len, default=None)
        if nearest is None:
            return "the model was not compiled before"
        return f"the model was compiled before with another {', another '.join(nearest)}"

    def _evict(self, newest: Path) -> None:
        """Drop what was not used for longest until the rest fits; the newest entry only if it does not fit alone."""
        with changing(self.folder):
            self._tidy()
            found = [*self._statuses(_NAME), *self._statuses(_KERNEL)]
            ages = [(path == newest, each.st_mtime_ns, each.st_size, path) for path, each in found]
            total = sum(size for _, _, size, _ in ages)
            for _, _, size, path in sorted(ages):
                if total <= self.limit:
                    break
                logger.info("cache: dropped %s, which was not used for longest", path)
                _remove(path)
                total -= size

    def _tidy(self) -> None:
        """Remove what processes left that were killed, and locks that nobody holds."""
        remove_abandoned(self.folder, _PART)
        remove_abandoned(self.folder, _LOCK)


def _key_in(path: Path) -> Key:
    """Return the key that a file says it has, which is for people to read: nothing is verified."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = json.loads(archive.read("manifest.json"))[_KEY]
        return Key({str(name): str(text) for name, text in parts.items()})
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, AttributeError, TypeError):
        return Key({})


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # on Windows one that is open stays
        path.unlink()
