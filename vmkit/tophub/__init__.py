"""TopHub: the tuning records that compilation uses, and the tuner that makes them.

As in Relay, the compiler enters :func:`context` around its work, so that the records that came with vmkit are used for
the targets at hand. What the user has entered, records by :func:`load` or a MetaSchedule database, is asked first.
Nothing is ever downloaded.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tvm.target import Target

from vmkit._deferred import deferred
from vmkit._later import named_later
from vmkit._tvm import database_in_force
from vmkit.errors import OptionError

from .choosing import entered, in_force
from .classes import target_class
from .records import Record, Records
from .workload import Workload

if TYPE_CHECKING:
    from tvm.s_tir.meta_schedule import database

    from ..tuning import tune
else:
    database = deferred("tvm.s_tir.meta_schedule.database")

__all__ = ["RECORDS", "Record", "Records", "Workload", "context", "load", "target_class", "tune"]

RECORDS = Path(__file__).parent / "records"

logger = logging.getLogger(__name__)

__getattr__, __dir__ = named_later(__name__)


@contextlib.contextmanager
def context(targets: Target | Iterable[Target], records: Path = RECORDS) -> Iterator[Records]:
    """Make the bundled records available to the compilation inside, below those that the user has entered.

    Parameters
    ----------
    targets : Target or iterable of Target
        What is compiled for.
    records : Path
        The directory of bundled records, ``<class>.json`` for each class of targets that has some.

    Yields
    ------
    Records
        The records in force.

    Raises
    ------
    OptionError
        If a bundled file cannot be read.
    """
    targets = [targets] if isinstance(targets, Target) else list(targets)
    classes = list(dict.fromkeys(target_class(target) for target in targets))
    files = [file for name in classes if (file := records / f"{name}.json").is_file()]
    bundled = _read_once(tuple((file, (stat := file.stat()).st_mtime_ns, stat.st_size) for file in files))
    logger.debug("tuning records: %d of the caller, %d for %s", len(in_force()), len(bundled), ", ".join(classes))
    with entered(bundled, below=True) as all_of_them:
        yield all_of_them


@functools.lru_cache(maxsize=16)
def _read_once(files: tuple[tuple[Path, int, int], ...]) -> Records:
    """Return the records of files as they are since a time, of a size: each stage of each compilation enters them."""
    return sum((Records.read(file) for file, *_ in files), Records())


@contextlib.contextmanager
def load(*paths: str | Path) -> Iterator[Records]:
    """Put tuning records into force inside, before those that already are.

    Parameters
    ----------
    *paths : path
        Files that :func:`tune` wrote, and folders of MetaSchedule databases (``database_workload.json`` and
        ``database_tuning_record.json``). What comes first is asked first; MetaSchedule's before vmkit's own.

    Yields
    ------
    Records
        The records in force, without those of MetaSchedule.

    Raises
    ------
    OptionError
        If a file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Records().write(f"{folder}/mine.json")
    ...     with load(f"{folder}/mine.json") as records:
    ...         print(len(records))
    0
    """
    folders = [Path(path) for path in paths if Path(path).is_dir()]
    own = sum((Records.read(path) for path in paths if not Path(path).is_dir()), Records())
    databases = [_meta_schedule(folder) for folder in folders]
    outer = database_in_force()
    with contextlib.ExitStack() as stack:
        if databases:
            stack.enter_context(database.OrderedUnionDatabase(*databases, *([outer] if outer is not None else [])))
        yield stack.enter_context(entered(own))


def _meta_schedule(folder: Path) -> database.Database:
    files = folder / "database_workload.json", folder / "database_tuning_record.json"
    try:
        return database.JSONDatabase(*map(str, files), allow_missing=False)
    except (RuntimeError, ValueError, TypeError) as error:
        raise OptionError(f"tuning records {folder} cannot be read: {error}") from error
