"""The process that builds and runs candidates: one request a line on its input, one answer a line on its output.

It is started as ``python -m vmkit.tuning.worker`` and ends with its input. A candidate that takes the process
down or does not return is the parent's to notice.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target

from ..schedule.rule import AnyDecisions
from ..schedule.scheduling import scheduling
from .places import Place, Running, Timing, place_of

__all__ = ["answer", "serve"]

_NAME = "kernel"  # of what is built

Value: TypeAlias = np.ndarray | int
Operand: TypeAlias = tvm.runtime.Tensor | int


class _Subject:
    """A kernel with the values of its operands, and what it computes under the default decisions."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.target: Target = tvm.ir.load_json(request["target"])
        self.place = _place(request)
        self.scheduling = scheduling(self.target)
        self.rule = self.scheduling.rule(request["rule"])
        function: tirx.PrimFunc = tvm.ir.load_json(request["kernel"])
        schedule = self.scheduling.prepared(function)
        if schedule is None:
            raise ValueError("the kernel has no blocks to schedule")
        self.schedule = schedule
        self.values = _values(function, request["sizes"])
        default = self.rule.decide(schedule, self.target)
        if default is None:
            raise ValueError(f"the rule {self.rule.name} is not for the kernel")
        with self.running(default) as running:
            self.expected = _results(running, _operands(self.values, running))

    def running(self, decisions: AnyDecisions) -> AbstractContextManager[Running]:
        """Return the kernel under some decisions, to be called inside."""
        made = self.scheduling.scheduled(self.schedule, self.rule, self.target, decisions)
        function = made.with_attr("global_symbol", _NAME)
        return self.place.loaded(tvm.compile(tvm.IRModule({_NAME: function}), self.target), self.target)


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
        with subject.running(decisions) as running:
            operands = _operands(subject.values, running)
            if not all(map(_agree, _results(running, operands), subject.expected)):
                return {"error": "it computes other values than the default schedule"}
            return {"seconds": running.seconds(_NAME, operands, _timing(request))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _place(request: dict[str, Any]) -> Place:
    tracker = request.get("tracker")
    return place_of(None if tracker is None else (str(tracker[0]), int(tracker[1]), str(tracker[2])))


def _timing(request: dict[str, Any]) -> Timing:
    return Timing(**request.get("timing", {}))


def _seconds_of_scheduled(request: dict[str, Any]) -> float:
    module: tvm.IRModule = tvm.ir.load_json(request["scheduled"])
    target: Target = tvm.ir.load_json(request["target"])
    with _place(request).loaded(tvm.compile(module, target), target) as running:
        return running.seconds("main", _operands(_values(module["main"], {}), running), _timing(request))


def _operands(values: list[Value], running: Running) -> list[Operand]:
    return [v if isinstance(v, int) else tvm.runtime.tensor(v, device=running.device) for v in values]


def _results(running: Running, operands: list[Operand]) -> list[np.ndarray]:
    """Return what the kernel leaves in its operands, among them what it computes; they are as before afterwards."""
    tensors = [operand for operand in operands if isinstance(operand, tvm.runtime.Tensor)]
    before = [tensor.numpy() for tensor in tensors]
    running.call(_NAME, operands)
    after = [tensor.numpy() for tensor in tensors]
    for tensor, value in zip(tensors, before, strict=True):
        tensor.copyfrom(value)
    return after


def _agree(value: np.ndarray, expected: np.ndarray) -> bool:
    if not np.issubdtype(expected.dtype, np.floating):
        return bool((value == expected).all())
    finite = np.abs(expected[np.isfinite(expected)])
    tolerance = 1e-5 * float(finite.max(initial=0.0))
    return bool(np.allclose(value, expected, rtol=1e-4, atol=tolerance, equal_nan=True))


def _values(function: tirx.PrimFunc, sizes: dict[str, int]) -> list[Value]:
    """Return values for a kernel's operands: an array for a tensor, an int for a size."""
    random = np.random.default_rng(0)

    def known(var: tvm.ir.Var) -> tirx.IntImm:
        return tirx.IntImm(str(var.ty.dtype), sizes[var.name])

    made: list[Value] = []
    for param in function.params:
        if not hasattr(param.ty, "shape"):
            made.append(sizes[param.name])
            continue
        analyzer = tvm.sym.Analyzer()
        shape = [int(analyzer.simplify(tvm_ffi.structural_map(d, (tvm.ir.Var, known)))) for d in param.ty.shape]
        # Zeros and ones of a whole number are good indices; positive fractions have roots and logarithms.
        dtype = str(param.ty.dtype)
        is_real = dtype.startswith(("float", "bfloat"))
        values = random.uniform(0.1, 1.0, shape) if is_real else random.integers(0, 2, shape)
        made.append(np.asarray(values).astype(dtype))
    return made


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
