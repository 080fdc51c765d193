"""What of a kernel's decisions can be judged by its machine code alone, and the machine code of a candidate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import Target

from vmkit.schedule.cpu import prepared, scheduled
from vmkit.tuning.extract import Kernel

from .counts import Operand

__all__ = ["assembly", "judged", "operands", "target_for"]

# By rule, the decisions about registers and instructions. The others are about caches and cores; they stay as they are.
_JUDGED = {
    "filled": {"blocks", "rows", "unrolled"},
    "dense": {"rows", "blocks", "unrolled"},
    "packed": {"rows", "unrolled"},
    "peeled_window": {"lanes", "rows"},
    "window": {"lanes", "rows", "unrolled"},
    "contraction": {"lanes", "rows"},
    "dot": {"lanes", "outputs"},
    "row_reduction": {"sums", "lanes"},
    "full_reduction": {"sums"},
}
# Where a tile of fewer rows loads a weight more often from where the estimate does not look.
_NOT_FEWER = {"filled": "rows", "dense": "rows", "packed": "rows", "contraction": "rows"}
# What says how many results grow at once. Fewer than by default would be for processors alone that look far ahead.
_AT_ONCE = ("rows", "blocks", "lanes", "outputs", "sums")


def target_for(cpu: str) -> Target:
    """Return the target of a 64-bit ARM processor; a register is left for counting."""
    made = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": cpu, "num-cores": 1, "mattr": ["+reserve-x18"]}
    return Target(made)


def judged(kernel: Kernel, target: Target) -> tuple[Any, list[Any]]:
    """Return the default decisions for a kernel, and the candidates that an estimate can compare with them."""
    schedule = prepared(kernel.function)
    assert schedule is not None
    default, rule = kernel.rule.decide(schedule, target), kernel.rule
    own, names = asdict(default), _JUDGED.get(rule.name, set())
    rows = _NOT_FEWER.get(rule.name)

    def may_be(decisions: Any) -> bool:
        values = asdict(decisions)
        if any(value != own[name] for name, value in values.items() if name not in names):
            return False
        return _at_once(values) >= _at_once(own) and (rows is None or values[rows] >= own[rows])

    return default, [each for each in rule.candidates(schedule, target) if may_be(each)]


def _at_once(values: Mapping[str, int]) -> int:
    return math.prod(values.get(name, 1) for name in _AT_ONCE)


def assembly(kernel: Kernel, target: Target, decisions: Any) -> str:
    """Return the machine code of a kernel under some decisions, as text."""
    schedule = prepared(kernel.function)
    assert schedule is not None
    function = scheduled(schedule, kernel.rule, target, decisions).with_attr("global_symbol", "kernel")
    built = tvm.compile(tvm.IRModule({"kernel": function}), target)
    return str(built.mod.inspect_source("asm"))


def operands(function: tirx.PrimFunc, sizes: Mapping[str, int]) -> list[Operand]:
    """Return the operands of a kernel, with unknown sizes as given."""

    def known(var: tvm.ir.Var) -> Any:
        return tirx.IntImm(str(var.ty.dtype), sizes[var.name])

    made, analyzer = list[Operand](), tvm.sym.Analyzer()
    for param in function.params:
        if not hasattr(param.ty, "shape"):
            made.append(Operand((), value=sizes[param.name]))
            continue
        shape = [int(analyzer.simplify(tvm_ffi.structural_map(d, (tvm.ir.Var, known)))) for d in param.ty.shape]
        made.append(Operand(tuple(shape), str(param.ty.dtype)))
    return made
