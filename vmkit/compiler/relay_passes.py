"""The passes that make a Relay module faster on a target: which, in what order, from which level on, on what condition.

What every program needs, types and operators that have kernels, is not here: the compiler does that first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import tvm
from tvm.target import Target

from .. import optimize  # noqa: F401 - registers its passes
from .._dataclasses import dataclass
from ..optimize.layout_choice import channels_first
from ..relay.ir import Function, RelayExpr
from ..relay.transform import registry
from ..relay.transform.evaluation import Evaluate
from ..target.integer_unit import IntegerUnit, integer_unit
from ..target.matrix_unit import has_matrix_unit
from ..target.processor import Processor, cores_of, processor_of
from ..target.vectors import vector_unit, widens_halves
from ..values.halves import HALVES
from .options import OWN_KERNELS

__all__ = ["PASSES", "PassRow", "passes_for", "passes_text"]

Kept = Callable[[Function], Collection[RelayExpr]]
Options = Mapping[
    str, bool | int | Sequence[str] | IntegerUnit | Processor | Evaluate | Kept | Mapping[str, list[str]] | None
]

_CHANNELS_LAST = {"nn.conv1d": ["NWC", "default"], "nn.conv2d": ["NHWC", "default"]}
_CHANNELS_LAST_ON_CPU = {
    **_CHANNELS_LAST,
    "nn.conv3d": ["NDHWC", "default"],
    "nn.conv1d_transpose": ["NWC", "default"],
    "nn.conv2d_transpose": ["NHWC", "default"],
    "nn.conv3d_transpose": ["NDHWC", "default"],
}


# -- conditions, of which the table shows the names


def _any_target(_: Target) -> bool:
    return True


def _cpu(target: Target) -> bool:
    return bool(target.kind.name == "llvm")  # the generators of C and its relatives do not know vectors


def _not_cpu(target: Target) -> bool:
    return not _cpu(target)


def _source_of_c(target: Target) -> bool:
    return bool(target.kind.name == "c")


def _gpu(target: Target) -> bool:
    return "gpu" in target.keys


def _cpu_or_gpu(target: Target) -> bool:
    return _cpu(target) or _gpu(target)


def _cpu_with_integer_unit(target: Target) -> bool:
    return _cpu(target) and integer_unit(target) is not None


def _cpu_with_matrix_unit(target: Target) -> bool:
    return _cpu(target) and has_matrix_unit(target)


# -- what passes are told of the target, and of the compiler


def _nothing(_target: Target, _evaluate: Evaluate) -> Options:
    return {}


def _evaluator(_target: Target, evaluate: Evaluate) -> Options:
    return {"evaluate": evaluate, "in_parts": True}


def _unpacked(target: Target, evaluate: Evaluate) -> Options:
    return {**_evaluator(target, evaluate), "halves": _weights(target, evaluate)["halves"] if _cpu(target) else ()}


def _unpacked_qnn(target: Target, evaluate: Evaluate) -> Options:
    return {**_unpacked(target, evaluate), "fold_qnn": True}


def _known_weights(_target: Target, _evaluate: Evaluate) -> Options:
    return {"run_time_weights": False}


def _layouts(target: Target, _evaluate: Evaluate) -> Options:
    if not _cpu(target):
        return {"desired_layouts": _CHANNELS_LAST}
    kept = partial(channels_first, processor=processor_of(target))
    return {"desired_layouts": _CHANNELS_LAST_ON_CPU, "kept": kept}


def _integers(target: Target, _evaluate: Evaluate) -> Options:
    return {"unit": integer_unit(target)}


def _no_integer_unit(_target: Target, _evaluate: Evaluate) -> Options:
    return {"unit": None}


def _lanes(target: Target, _evaluate: Evaluate) -> Options:
    return {"lanes": vector_unit(target).lanes}


def _recurrences(target: Target, evaluate: Evaluate) -> Options:
    return {**_lanes(target, evaluate), **_integers(target, evaluate)}


def _weights(target: Target, _evaluate: Evaluate) -> Options:
    # A matrix unit cuts weights of float32 in parts.
    are_widened = widens_halves(target) and not has_matrix_unit(target)
    return {"lanes": vector_unit(target).lanes, "halves": HALVES if are_widened else ()}


def _registers(target: Target, _evaluate: Evaluate) -> Options:
    unit = vector_unit(target)
    return {"lanes": unit.lanes, "registers": unit.registers, "passes": unit.passes}


def _processor(target: Target, _evaluate: Evaluate) -> Options:
    return {"processor": processor_of(target)}


def _machine(target: Target, evaluate: Evaluate) -> Options:
    return {**_registers(target, evaluate), "cores": cores_of(target), "has_matrix_unit": has_matrix_unit(target)}


def _lines(target: Target, evaluate: Evaluate) -> Options:
    return {**_registers(target, evaluate), "cores": cores_of(target)}


def _processor_of_tiles(target: Target, evaluate: Evaluate) -> Options:
    return {**_machine(target, evaluate), **_processor(target, evaluate)}


@dataclass(frozen=True)
class PassRow:
    """A pass in its place.

    Parameters
    ----------
    level
        The optimisation level from which the pass runs; None where only ``required_pass`` makes it run.
    name
        What the pass is registered by.
    on
        Says whether the pass is for a target.
    told
        Returns what the pass is told of the target and of what evaluates constants.
    shares_kernels
        Whether the pass is told that kernels are to be shared by what differs in sizes alone, below the level at which
        each is made for its sizes.
    """

    level: int | None
    name: str
    on: Callable[[Target], bool] = _any_target
    told: Callable[[Target, Evaluate], Options] = _nothing
    shares_kernels: bool = False

    def made(self, target: Target, evaluate: Evaluate, opt_level: int) -> tvm.transform.Pass:
        """Return the pass, for a target and a level."""
        shared = {"shares_kernels": opt_level < OWN_KERNELS} if self.shares_kernels else {}
        return registry.PASSES[self.name](**self.told(target, evaluate), **shared)


# On a CPU, channels come last in memory, so that vectors run along them whatever the sizes of images; weights are
# packed for that. On a GPU, threads that follow each other compute channels that do; weights are constants, and so
# turned round while compiling. Each step leaves constants to compute. Passes that Relay's own build had, and that gain
# nothing here, stand where they stood there.
PASSES: Sequence[PassRow] = (
    PassRow(1, "ShareConstants"),
    PassRow(1, "KeepBlockQuantized"),
    PassRow(1, "PackBlockQuantized", _cpu, _processor),
    PassRow(0, "UnpackBlockQuantized"),
    PassRow(1, "WidenFloat16", _cpu),
    PassRow(1, "FactorScales", _cpu_with_integer_unit, _integers),
    PassRow(None, "FactorScales", _source_of_c, _no_integer_unit),
    PassRow(0, "SimplifyInference"),
    PassRow(None, "EliminateCommonSubexpr"),
    PassRow(None, "CombineParallelConv2D"),
    PassRow(None, "CombineParallelDense"),
    PassRow(None, "CombineParallelBatchMatmul"),
    PassRow(1, "FoldConstant", told=_unpacked_qnn),
    PassRow(None, "SimplifyExpr"),
    PassRow(None, "CanonicalizeCast"),
    PassRow(0, "FlattenAtrousConv"),
    PassRow(None, "FastMath"),
    PassRow(1, "FloatProducts", _not_cpu),
    PassRow(1, "LookUpFirst", _cpu),
    PassRow(1, "FuseRecurrence", _cpu, _recurrences),
    PassRow(1, "FuseAttention", _cpu, _lanes),
    PassRow(1, "FoldLookups", _cpu),
    PassRow(1, "FlattenRows", _cpu_or_gpu),
    PassRow(1, "BackwardFoldScaleAxis", told=_known_weights),
    PassRow(1, "ForwardFoldScaleAxis", told=_known_weights),
    PassRow(1, "FoldConstant", told=_unpacked),
    PassRow(1, "TrimWindows", _cpu_or_gpu),
    PassRow(1, "UseDepthToSpace", _cpu),
    PassRow(1, "PadChannels", _cpu, _processor_of_tiles, shares_kernels=True),
    PassRow(1, "ConvertLayout", _cpu_or_gpu, _layouts),
    PassRow(1, "JoinMoves", _cpu_or_gpu),
    PassRow(1, "FoldConstant", _cpu_or_gpu, _unpacked),
    PassRow(1, "UseSubpixel", _cpu, _lanes),
    PassRow(1, "IntegerProducts", _cpu_with_integer_unit, _integers),
    PassRow(1, "UseIntegerMatrices", _cpu_with_integer_unit, _integers),
    PassRow(1, "FloatProducts", _cpu),
    PassRow(1, "FoldOutputScales", _cpu),
    PassRow(1, "StoreIntegers", _cpu),
    PassRow(1, "ShiftIntegers", _cpu_with_integer_unit),
    PassRow(1, "FoldTransposes", _cpu),
    PassRow(1, "JoinExtremes", _cpu, _lanes),
    PassRow(1, "SeparatePools", _cpu),
    PassRow(1, "JoinAfterPools", _cpu, _lanes),
    PassRow(1, "ExtendConcatenations", _cpu, shares_kernels=True),
    PassRow(1, "UseWinograd", _cpu, _machine, shares_kernels=True),
    PassRow(1, "PackAMXTiles", _cpu_with_matrix_unit),
    PassRow(1, "UsePackedGemm", _cpu, _registers, shares_kernels=True),
    PassRow(1, "FuseInvertedResiduals", _cpu, _lines, shares_kernels=True),
    PassRow(1, "PackWeights", _cpu, _weights),
    PassRow(1, "FoldConstant", _cpu, _evaluator),
)


def passes_for(
    target: Target, evaluate: Evaluate, opt_level: int = OWN_KERNELS
) -> list[tuple[int | None, tvm.transform.Pass]]:
    """Return the passes for a target in their order, each after the level from which it runs; see :class:`PassRow`.

    Parameters
    ----------
    evaluate
        What runs a program for passes that compute with constants.
    opt_level
        By which passes decide how much is compiled; all of them are returned.
    """
    return [(row.level, row.made(target, evaluate, opt_level)) for row in PASSES if row.on(target)]


def passes_text(rows: Iterable[PassRow] = PASSES) -> str:
    """Return a table of passes for people to read: the name, the level ("-" where it has to be required), the targets.

    >>> print(passes_text(PASSES[:3]))
    pass                level  on
    ShareConstants          1  any target
    KeepBlockQuantized      1  any target
    PackBlockQuantized      1  cpu
    """
    lines = [
        (row.name, "-" if row.level is None else str(row.level), row.on.__name__.strip("_").replace("_", " "))
        for row in rows
    ]
    lines.insert(0, ("pass", "level", "on"))
    width = max(len(name) for name, _, _ in lines)
    return "\n".join(f"{name:<{width}}  {level:>5}  {on}" for name, level, on in lines)
