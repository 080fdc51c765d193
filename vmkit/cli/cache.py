"""``vmkit cache``: what compiling has kept on disk."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vmkit.cli.exit_code import ExitCode

if TYPE_CHECKING:
    from vmkit.cache import Cache

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of ``vmkit cache``."""
    parser.add_argument("action", choices=["ls", "clear"], help="list the entries, or remove all of them")
    parser.add_argument("--folder", type=Path, help="the cache's folder; by default that of this user")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    """List or clear a cache."""
    import vmkit

    cache = vmkit.cache.Cache(arguments.folder)
    if arguments.action == "clear":
        count = cache.clear()
        done = {"folder": str(cache.folder), "removed": count}
        print(json.dumps(done, indent=2) if arguments.json else f"removed {count} from {cache.folder}")
    elif arguments.json:
        found = [entry.to_json() for entry in cache.entries()]
        sizes = cache.kernel_sizes()
        kernels = {"count": len(sizes), "size": sum(sizes)}
        print(json.dumps({"folder": str(cache.folder), "entries": found, "kernels": kernels}, indent=2))
    else:
        _list(cache)
    return ExitCode.OK


def _list(cache: Cache) -> None:
    entries, kernels = cache.entries(), cache.kernel_sizes()
    print(f"{cache.folder}: {len(entries)} executables, {sum(entry.size for entry in entries)} bytes")
    if kernels:
        print(f"{len(kernels)} kernels, for models that have some of them, {sum(kernels)} bytes")
    for entry in entries:
        parts = entry.key.parts
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        print(f"{entry.path.stem[:12]}  {used}  {entry.size:>12}  model {parts.get('model', 'unknown')[:12]}")
