"""Times single operators beside onnxruntime and prints a table, the slowest beside it first.

``python -m benchmarks.operators [words]``: with words, the cases whose names have one of them. It exits with 1 where a
result is wrong.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from functools import partial

os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np

import vmkit

from ..interleave import ratio_of
from ..peers import onnxruntime_session, threads
from . import axes, contributed, elementwise, further, layouts, learned, movement, products, reductions, types
from .case import CASES, Case

RTOL = 1e-3
LEAST = 20e-6
"""Seconds from which on an operator that is slower than onnxruntime's is counted."""

_MODULES = (axes, contributed, elementwise, further, layouts, learned, movement, products, reductions, types)
assert all(_MODULES), "they enter their cases"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of names of cases; by default all are timed")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each is timed; by default %(default)s")
    parser.add_argument("--cpu", action="store_true", help="count the thread's processor time, on a busy machine")
    given = parser.parse_args(arguments)
    if given.cpu and threads() > 1:
        parser.error("--cpu counts the calling thread alone; run with TVM_NUM_THREADS=1")
    clock = time.thread_time if given.cpu else time.perf_counter
    timed = partial(ratio_of, threads=threads(), seconds=given.seconds, clock=clock)
    chosen = [c for name, c in CASES.items() if not given.words or any(w.lower() in name.lower() for w in given.words)]
    rows, wrong = [], []
    for each in chosen:
        try:
            rows.append((each.name, *measured(each, timed)))
        except Exception as error:
            wrong.append(f"{each.name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    print("| operator | us | of onnxruntime's | of any size |", "|---|---|---|---|", sep="\n")
    for name, seconds, static, dynamic in sorted(rows, key=lambda row: -max(row[2], row[3] or 0)):
        print(f"| {name} | {seconds * 1e6:.1f} | {static:.2f} | {'' if dynamic is None else f'{dynamic:.2f}'} |")
    slower = [row for row in rows if row[1] > LEAST and max(row[2], row[3] or 0) > 1]
    if rows:
        mean = math.exp(sum(math.log(row[2]) for row in rows) / len(rows))
        print(f"\n{len(rows)} cases, geometric mean {mean:.2f}; slower and over {LEAST * 1e6:.0f} us: {len(slower)}")
    print(*wrong, sep="\n", file=sys.stderr)
    return int(bool(wrong))


def measured(case: Case, timed: partial[tuple[float, float]]) -> tuple[float, float, float | None]:
    """Return the seconds of a run at known sizes, its ratio, and that of the program for any size, if there is one."""
    arrays = case.arrays()
    seconds, static = _measured(case, False, arrays, timed)
    return seconds, static, _measured(case, True, arrays, timed)[1] if case.free else None


def _measured(
    case: Case, is_dynamic: bool, arrays: dict[str, np.ndarray], timed: partial[tuple[float, float]]
) -> tuple[float, float]:
    model = case.model(is_dynamic)
    session = onnxruntime_session(model)
    machine = vmkit.VirtualMachine(vmkit.compile(model, "native"), "cpu", num_threads=threads())
    result = machine.run(**arrays)
    results = result if isinstance(result, (list, tuple, vmkit.ADT)) else [result]
    for actual, expected in zip(results, session.run(None, arrays), strict=True):
        np.testing.assert_allclose(actual.numpy(), expected, rtol=RTOL, atol=case.atol)
    return timed(partial(machine.run, **arrays), partial(session.run, None, arrays))


if __name__ == "__main__":
    sys.exit(main())
