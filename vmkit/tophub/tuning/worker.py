"""The process that builds and runs candidates: one request a line on its input, one answer a line on its output.

It is started as ``python -m vmkit.tophub.tuning.worker`` and ends with its input. A candidate that takes the process
down or does not return is the parent's to notice.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target

from vmkit.tophub.scheduling import scheduling

__all__ = ["answer", "serve"]

_BATCH = 0.002  # seconds that one timing takes at least, so that the clock and the call weigh little
_REPEATS = 5


class _Subject:
    """A kernel with operands, and what it computes under the default decisions."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.target: Target = tvm.ir.load_json(request["target"])
        self.scheduling = scheduling(self.target)
        self.rule = self.scheduling.rule(request["rule"])
        self.device = tvm.device(self.target.kind.name if "gpu" in self.target.keys else "cpu")
        function: tirx.PrimFunc = tvm.ir.load_json(request["kernel"])
        schedule = self.scheduling.prepared(function)
        if schedule is None:
            raise ValueError("the kernel has no blocks to schedule")
        self.schedule = schedule
        self.operands = _operands(function, request["sizes"], self.device)
        default = self.rule.decide(schedule, self.target)
        self.expected = self.results(self.built(default))

    def built(self, decisions: Any) -> Callable[[], None]:
        made = self.scheduling.scheduled(self.schedule, self.rule, self.target, decisions)
        function = made.with_attr("global_symbol", "kernel")
        run = tvm.compile(tvm.IRModule({"kernel": function}), self.target)["kernel"]
        return lambda: run(*self.operands)

    def results(self, run: Callable[[], None]) -> list[np.ndarray]:
        """Return what the kernel leaves in its operands, among them what it computes; they are as before afterwards."""
        tensors = [operand for operand in self.operands if isinstance(operand, tvm.runtime.Tensor)]
        before = [tensor.numpy() for tensor in tensors]
        run()
        after = [tensor.numpy() for tensor in tensors]
        for tensor, value in zip(tensors, before, strict=True):
            tensor.copyfrom(value)
        return after


def answer(request: dict[str, Any], subjects: dict[str, _Subject]) -> dict[str, Any]:
    """Return the seconds that a call of a kernel takes with the decisions of a request, or why there are none."""
    try:
        if "scheduled" in request:
            return {"seconds": _seconds_of_scheduled(request)}
        if request["kernel"] not in subjects:
            subjects.clear()
            subjects[request["kernel"]] = _Subject(request)
        subject = subjects[request["kernel"]]
        decisions = subject.rule.from_json(request["decisions"])
        if decisions is None:
            return {"error": f"these are no decisions of the rule {subject.rule.name}"}
        run = subject.built(decisions)
        if not all(map(_agree, subject.results(run), subject.expected)):
            return {"error": "it computes other values than the default schedule"}
        return {"seconds": _seconds(run, subject.device)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _seconds_of_scheduled(request: dict[str, Any]) -> float:
    module: tvm.IRModule = tvm.ir.load_json(request["scheduled"])
    run = tvm.compile(module, tvm.ir.load_json(request["target"]))["main"]
    device = tvm.cpu()
    operands = _operands(module["main"], {}, device)
    return _seconds(lambda: run(*operands), device)


def _agree(value: np.ndarray, expected: np.ndarray) -> bool:
    if not np.issubdtype(expected.dtype, np.floating):
        return bool((value == expected).all())
    finite = np.abs(expected[np.isfinite(expected)])
    tolerance = 1e-5 * float(finite.max(initial=0.0))
    return bool(np.allclose(value, expected, rtol=1e-4, atol=tolerance, equal_nan=True))


def _seconds(run: Callable[[], None], device: tvm.runtime.Device) -> float:
    """Return the least time of a call, over some batches of them that the device has done."""
    count, best = 1, float("inf")
    repeats = 0
    while repeats < _REPEATS:
        start = time.perf_counter()
        for _ in range(count):
            run()
        device.sync()
        took = time.perf_counter() - start
        if took < _BATCH and count < 1_000_000:
            count = max(count * 2, int(count * _BATCH / max(took, 1e-7)) + 1)
            continue
        best, repeats = min(best, took / count), repeats + 1
    return best


def _operands(function: tirx.PrimFunc, sizes: dict[str, int], device: tvm.runtime.Device) -> list[Any]:
    random = np.random.default_rng(0)

    def known(var: tvm.ir.Var) -> Any:
        return tirx.IntImm(str(var.ty.dtype), sizes[var.name])

    operands: list[Any] = []
    for param in function.params:
        if not hasattr(param.ty, "shape"):
            operands.append(sizes[param.name])
            continue
        analyzer = tvm.sym.Analyzer()
        shape = [int(analyzer.simplify(tvm_ffi.structural_map(d, (tvm.ir.Var, known)))) for d in param.ty.shape]
        # Zeros and ones of a whole number are good indices; positive fractions have roots and logarithms.
        dtype = str(param.ty.dtype)
        is_real = dtype.startswith(("float", "bfloat"))
        values = random.uniform(0.1, 1.0, shape) if is_real else random.integers(0, 2, shape)
        operands.append(tvm.runtime.tensor(np.asarray(values).astype(dtype), device))
    return operands


def serve() -> None:
    """Answer requests until there are no more."""
    # What TVM and LLVM print must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    subjects: dict[str, _Subject] = {}
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line), subjects)) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
