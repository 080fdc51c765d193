"""TopHub: the tuning records that compilation uses.

As in Relay, the compiler enters :func:`context` around its work. A tuning context that the user has entered wins;
otherwise the records that came with vmkit for the targets at hand are used. Nothing is ever downloaded.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.database import Database
from tvm.target import Target

from vmkit.errors import OptionError
from vmkit.target import llvm

__all__ = ["RECORDS", "context", "record_files", "target_class"]

RECORDS = Path(__file__).parent / "records"

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def context(targets: Target | Iterable[Target], records: Path = RECORDS) -> Iterator[Database | None]:
    """Make tuning records available to the compilation inside, and say in one log line which.

    Parameters
    ----------
    targets : Target or iterable of Target
        What is compiled for.
    records : Path
        The directory of bundled records, ``<class>.workloads.json`` and ``<class>.records.json`` for each target class.

    Yields
    ------
    Database or None
        The database in force: the user's own, else the bundled one, else None.

    Raises
    ------
    OptionError
        If a bundled file cannot be read.
    """
    current = Database.current()
    if current is not None:
        logger.info("tuning records: the caller's own, %s", type(current).__name__)
        yield current
        return
    targets = [targets] if isinstance(targets, Target) else list(targets)
    classes = list(dict.fromkeys(target_class(target) for target in targets))
    databases = [_read(*files) for name in classes if (files := record_files(name, records)) is not None]
    if not databases:
        logger.info("tuning records: none for %s", ", ".join(classes))
        yield None
        return
    logger.info("tuning records: %d for %s", sum(map(len, databases)), ", ".join(classes))
    bundled = meta_schedule.database.OrderedUnionDatabase(*databases)
    with bundled:
        yield bundled


def target_class(target: Target) -> str:
    """Return the name that records for `target` are filed under: its kind, for llvm with the architecture.

    >>> target_class(Target({"kind": "llvm", "mtriple": "arm64-apple-macos"}))
    'llvm-aarch64'
    """
    kind = str(target.kind.name)
    if kind != "llvm":
        return kind
    return f"llvm-{llvm.architecture(str(target.attrs.get('mtriple', '')) or llvm.default_triple())}"


def record_files(name: str, records: Path = RECORDS) -> tuple[Path, Path] | None:
    """Return the bundled workload and record files of a target class, or None where nothing is bundled for it."""
    files = records / f"{name}.workloads.json", records / f"{name}.records.json"
    return files if all(file.is_file() for file in files) else None


def _read(workloads: Path, records: Path) -> Database:
    try:
        return meta_schedule.database.JSONDatabase(str(workloads), str(records), allow_missing=False)
    except (RuntimeError, ValueError, TypeError) as error:
        raise OptionError(f"tuning records {records.name} or {workloads.name} cannot be read: {error}") from error
