"""One exported model, compiled once and compared with onnxruntime at every size."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

import vmkit
from vmkit.relay.frontend import from_onnx

from ..interleave import ratio_of
from .family import Family

__all__ = ["Row", "compare"]

RTOL, ATOL = 1e-3, 1e-4


@dataclass
class Row:
    """What was measured of a family and an exporter; `problem` says what failed."""

    family: str
    exporter: str
    megabytes: float = 0.0
    import_seconds: float = 0.0
    compile_seconds: float = 0.0
    sizes: int = 0
    error: float = 0.0
    ratios: list[float] = field(default_factory=list)
    data_dependent: int = 0
    problem: str | None = None


def compare(family: Family, path: Path, row: Row, timed: bool = True) -> None:
    """Fill a row in; stop at the first thing that fails, with an exception."""
    row.megabytes = path.stat().st_size / 1e6
    start = time.perf_counter()
    module, params = from_onnx(str(path))
    row.import_seconds = time.perf_counter() - start
    row.data_dependent = len(vmkit.check(str(path)).data_dependent)
    start = time.perf_counter()
    executable = vmkit.compile(module, params=params)
    row.compile_seconds = time.perf_counter() - start
    machine, session = vmkit.VirtualMachine(executable, "cpu"), _session(path)
    names = [i.name for i in session.get_inputs()]
    for sizes in family.sizes:
        torch.manual_seed(2)
        feed = {n: t.numpy() for n, t in family.inputs(**sizes).items() if n in names}
        expected = session.run(None, feed)
        actual = machine.run(**feed)
        results = actual if executable.signature.result_is_tuple else [actual]
        row.error = max(row.error, *(_error(a.numpy(), e, sizes) for a, e in zip(results, expected, strict=True)))
        if row.error > family.tolerance:
            raise AssertionError(f"at {dict(sizes)} the largest error is {row.error:.2g} of the tolerance")
        row.sizes += 1
        if timed:
            row.ratios.append(ratio_of(partial(machine.run, **feed), partial(session.run, None, feed))[1])


def _error(actual: np.ndarray, expected: np.ndarray, sizes: Mapping[str, int]) -> float:
    """Return the largest difference as a part of the tolerance."""
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        raise AssertionError(f"at {dict(sizes)}: {actual.dtype}{actual.shape}, not {expected.dtype}{expected.shape}")
    if actual.size == 0:
        return 0.0
    a, e = actual.astype("float64"), expected.astype("float64")
    if not np.array_equal(np.isfinite(a), np.isfinite(e)):
        raise AssertionError(f"at {dict(sizes)}: not finite where onnxruntime is, or the other way round")
    difference = np.where(np.isfinite(e), np.abs(a - e), 0)
    scale = ATOL + RTOL * np.where(np.isfinite(e), np.abs(e), 0)
    return float(np.max(difference / scale))


def _session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
