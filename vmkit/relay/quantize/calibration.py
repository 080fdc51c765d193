"""Scales of simulated quantisations, found from weights and from what a data set gives."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from ..._later import named_later
from ...errors import QuantizationError
from ..analysis.infer_type import infer_module, typed
from ..bind import bind
from ..ir import (
    Call,
    Constant,
    Function,
    RelayExpr,
    Tuple,
    const,
    free_vars,
    is_call,
    post_order,
    rewrite,
    with_functions,
)
from .annotation import SIMULATED
from .config import QAnnotateKind, current_qconfig
from .kl_divergence import scale_by_kl_divergence

__all__ = ["calibrate", "collect_stats"]

logger = logging.getLogger(__name__)

__getattr__, __dir__ = named_later(__name__)

Dataset = Iterable[Mapping[str, Any]]

# The share of what a data set gives that is in range.
_PERCENTILE = 0.99999


def calibrate(dataset: Dataset | None = None) -> Callable[[tvm.IRModule, Any], tvm.IRModule]:
    """Return a function of a module and a pass context that gives simulated quantisations their scales.

    Parameters
    ----------
    dataset : iterable of mapping, optional
        Inputs of ``main`` by name, one mapping a run. What finds scales from data needs it.

    Raises
    ------
    QuantizationError
        When it is called with a configuration that needs data, and there are none.
    """

    def calibrated(mod: tvm.IRModule, context: tvm.transform.PassContext | None = None) -> tvm.IRModule:
        mod = typed(mod)
        scales = _scales_of_values(mod, dataset)
        known: dict[Any, Constant] = {}
        for call in _simulated(mod):
            scale = _scale_of_weight(call) if call.attrs.kind == QAnnotateKind.WEIGHT else scales[call]
            bits = current_qconfig().get_nbit_by_kind(call.attrs.kind) - int(call.attrs.sign)
            most = 2**bits
            for parameter, value in zip(call.args[1:], (scale / most, 1 - most, most - 1), strict=True):
                known[parameter] = const(np.float32(value))
        result = with_functions(mod)
        result["main"] = bind(mod["main"], known)
        return infer_module(result)

    return calibrated


def _simulated(mod: tvm.IRModule) -> list[Call]:
    return [node for node in post_order(mod["main"]) if is_call(node, SIMULATED)]


def _values(mod: tvm.IRModule) -> list[Call]:
    return [call for call in _simulated(mod) if call.attrs.kind != QAnnotateKind.WEIGHT]


def _scale_of_weight(call: Call) -> float:
    if not isinstance(call.args[0], Constant):
        raise QuantizationError("the scale of a weight needs a constant; give quantize its params")
    largest = float(np.max(np.abs(call.args[0].data.numpy()), initial=0.0))
    if largest == 0:
        return 1.0
    return largest if current_qconfig().weight_scale == "max" else 2.0 ** math.ceil(math.log2(largest))


def _scales_of_values(mod: tvm.IRModule, dataset: Dataset | None) -> dict[Call, float]:
    config, values = current_qconfig(), _values(mod)
    if config.calibrate_mode == "global_scale":
        return dict.fromkeys(values, config.global_scale)
    if dataset is None:
        raise QuantizationError(f"calibrate_mode {config.calibrate_mode!r} finds scales from data; pass a dataset")
    find = scale_by_kl_divergence if config.calibrate_mode == "kl_divergence" else _scale_by_percentile
    scales: list[float] = []
    for samples in collect_stats(mod, dataset, config.calibrate_chunk_by):
        logger.info("scales of values %d to %d of %d", len(scales), len(scales) + len(samples) - 1, len(values))
        scales += [find(each) for each in samples]
    return dict(zip(values, scales, strict=True))


def _scale_by_percentile(samples: np.ndarray) -> float:
    magnitudes = np.abs(samples)
    at = min(int(magnitudes.size * _PERCENTILE), magnitudes.size - 1)
    return float(np.partition(magnitudes, at)[at]) or 1.0


def collect_stats(mod: tvm.IRModule, dataset: Dataset, chunk_by: int = -1) -> Iterator[list[np.ndarray]]:
    """Yield what is quantised, in reals, for all of a data set.

    Parameters
    ----------
    mod : tvm.IRModule
        The module, with simulated quantisations in ``main``.
    dataset : iterable of mapping
        Inputs of ``main`` by name, one mapping a run.
    chunk_by : int
        How many of the values are held at once; the data set is run anew for each chunk. -1 for all.

    Yields
    ------
    list of numpy.ndarray
        For each value, in the order of evaluation, a vector of its elements over all runs. Weights are none of them.
    """
    profiled = _profile(typed(mod))
    count = len(profiled.body.fields)
    batches = [_inputs(profiled, batch) for batch in dataset]
    if not batches:
        raise QuantizationError("the dataset is empty: scales are found from what a program computes on it")
    if count == 0:
        return
    make = __getattr__("create_executor")
    target = Target.current(allow_none=True)
    run = make("vm", mod=tvm.IRModule({"main": profiled}), target=target or "llvm").evaluate()
    step = count if chunk_by == -1 else chunk_by
    for begin in range(0, count, step):
        end = min(begin + step, count)
        parts: list[list[np.ndarray]] = [[] for _ in range(begin, end)]
        for batch in batches:
            outputs = list(run(**batch))
            for k in range(begin, end):
                parts[k - begin].append(outputs[k].numpy().reshape(-1))
        yield [np.concatenate(part) for part in parts]


def _profile(mod: tvm.IRModule) -> Function:
    """Return a function of the inputs that gives what is quantised, nothing of which is rounded."""
    found: list[RelayExpr] = []

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not is_call(node, SIMULATED):
            return node
        if node.attrs.kind != QAnnotateKind.WEIGHT:
            found.append(node.args[0])
        return node.args[0]

    function = mod["main"]
    rewrite(function, {}, replace)
    body = Tuple(found)
    used = set(free_vars(body))
    return Function([p for p in function.params if p in used], body)


def _inputs(function: Function, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a run that a function has, in its data types."""
    wanted = {p.name_hint: p for p in function.params}
    missing = [name for name in wanted if name not in batch]
    if missing:
        raise QuantizationError(f"the dataset lacks the inputs {', '.join(missing)}")
    made = {}
    for name, parameter in wanted.items():
        value = batch[name]
        array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
        made[name] = array.astype((parameter.type_annotation or parameter.checked_type).dtype)
    return made
