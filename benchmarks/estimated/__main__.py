"""Records of the kernels of the benchmarks' models, by estimate."""

from __future__ import annotations

import argparse
import datetime
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tvm.target import Target

from benchmarks.catalogue import CATALOGUE, Model
from vmkit._version import __version__
from vmkit.tophub import Record, Records, target_class
from vmkit.tuning.extract import Kernel, kernels_of, sizes_of
from vmkit.tuning.search import search

from .candidates import assembly, judged, operands, target_for
from .counts import missing_tools
from .cycles import MODEL, cycles

_WORTH = 0.91  # the part of the default's cycles that is worth other decisions: a model is no nearer than that


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.estimated", description=__doc__)
    parser.add_argument("records", type=Path, help="the file; what it holds already is not estimated again")
    parser.add_argument("models", nargs="*", default=list(CATALOGUE), help="names in benchmarks.catalogue")
    parser.add_argument("--cpu", default="neoverse-n1", help="whose model llvm-mca uses")
    parser.add_argument("--gigahertz", type=float, default=3.0, help="what cycles are turned into seconds with")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long candidates of one kernel are tried")
    parser.add_argument("--rules", nargs="*", help="only kernels of these schedule rules")
    given = parser.parse_intermixed_args()
    if missing := missing_tools():
        parser.error(f"these programs are needed: {', '.join(missing)}")
    target = target_for(given.cpu)
    records = Records.read(given.records) if given.records.exists() else Records()
    for name in given.models:
        kernels = _kernels(CATALOGUE[name], target)
        sizes = sizes_of(kernels, {})
        for kernel in kernels:
            if records.exact(kernel.workload, target_class(target)) is not None:
                continue
            if given.rules is not None and kernel.rule.name not in given.rules:
                continue
            found = _estimated(kernel, target, given.cpu, sizes, given.seconds)
            if found is not None:
                records += Records([_record(kernel, target, given.cpu, given.gigahertz, *found)])
                records.write(given.records)
            said = "the default" if found is None else f"{found[1]:.0f} -> {found[2]:.0f} cycles {found[0]}"
            print(f"{name}: {kernel.rule.name}: {kernel.name}: {said}", flush=True)


def _kernels(model: Model, target: Target) -> list[Kernel]:
    loaded = model.load()
    if loaded is None:
        return []
    if model.family == "convolutional":
        return kernels_of(model.at(loaded, model.sizes[0])[0], target)
    return kernels_of(model.dynamic(loaded)[0], target)


def _estimated(
    kernel: Kernel, target: Target, cpu: str, sizes: dict[str, int], seconds: float
) -> tuple[Any, float, float] | None:
    """Return the best decisions, and the cycles of the default and of these; None where nothing is known."""
    default, candidates = judged(kernel, target)
    if len(candidates) < 2:
        return None
    given, known = operands(kernel.function, sizes), dict[Any, float | None]()

    def of(decisions: Any) -> float | None:
        if decisions not in known:
            try:
                known[decisions] = cycles(assembly(kernel, target, decisions), cpu, given)
            except (ValueError, KeyError, subprocess.SubprocessError) as error:
                print(f"  {decisions}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                known[decisions] = None
        return known[decisions]

    start = time.monotonic()
    found = search(default, candidates, of, seconds)
    # That nothing is better is known when all of it was tried.
    is_cut = time.monotonic() - start >= seconds
    if found is not None and found[2] > found[1] * _WORTH:
        found = default, found[1], found[1]
    return None if found is None or (is_cut and found[0] == default) else found


def _record(
    kernel: Kernel, target: Target, cpu: str, gigahertz: float, decisions: Any, before: float, after: float
) -> Record:
    return Record(
        kernel.workload,
        kernel.rule.to_json(decisions),
        target_class(target),
        cpu,
        float(f"{before / gigahertz / 1e9:.4g}"),
        float(f"{after / gigahertz / 1e9:.4g}"),
        __version__,
        version("apache-tvm"),
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        f"{MODEL.replace('mca-', 'mca ')}, {cpu} at {gigahertz:g} GHz",
    )


main()
