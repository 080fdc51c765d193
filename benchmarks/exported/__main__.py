"""Prints the table; exits with 1 if a family fails: ``python -m benchmarks.exported [names]``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TVM_NUM_THREADS", "1")

from .comparison import Row, compare
from .exporters import EXPORTERS, build, export
from .family import load

HEADER = (
    "family", "exporter", "MB", "import s", "compile s", "sizes", "error / tolerance", "ratio to onnxruntime",
    "data-dependent", "",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit code."""
    families = load()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exported", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"families; by default all: {', '.join(families)}")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append", help="by default both")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the exported files, use them if they are there"
    )
    parser.add_argument("--no-times", action="store_true", help="only compare")
    parser.add_argument("--traceback", action="store_true", help="show where a failure comes from")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in families]
    if unknown:
        parser.error(f"there is no family {', '.join(unknown)}; there are {', '.join(families)}")
    print(_line(HEADER), _line(["---"] * len(HEADER)), sep="\n", flush=True)
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in given.names or families:
            for exporter in given.exporter or EXPORTERS:
                row = Row(name, exporter, problem=families[name].without.get(exporter))
                if row.problem is None:
                    try:
                        path = folder / f"{name}-{exporter}.onnx"
                        if not path.exists():
                            export(families[name], build(families[name]), exporter, path)
                        compare(families[name], path, row, not given.no_times)
                    except Exception as error:
                        failed = True
                        row.problem = f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
                        if given.traceback:
                            traceback.print_exc()
                print(_line(_cells(row)), flush=True)
    return int(failed)


def _cells(row: Row) -> list[str]:
    ratios = " ".join(f"{r:.2f}" for r in row.ratios)
    return [
        row.family, row.exporter, f"{row.megabytes:.1f}", f"{row.import_seconds:.2f}", f"{row.compile_seconds:.1f}",
        str(row.sizes), f"{row.error:.2g}", ratios, str(row.data_dependent), row.problem or "",
    ]  # fmt: skip


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
