"""The steps of automatic quantisation, and all of them in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from ..analysis.infer_type import infer_module
from ..params import bind_params
from ..transform.canonicalize_ops import CanonicalizeOps
from ..transform.fold_constant import FoldConstant
from ..transform.fold_scale_axis import FoldScaleAxis
from ..transform.infer_pass import InferType
from ..transform.simplify_inference import SimplifyInference
from .annotation import QuantizeAnnotate
from .calibration import Dataset, calibrate
from .config import current_qconfig
from .context import quantize_context
from .conversions import partition_conversions
from .partitioning import QuantizePartition
from .realization import QuantizeRealize

__all__ = ["annotate", "partition", "prerequisite_optimize", "quantize", "realize"]


def partition() -> tvm.transform.Pass:
    """Return the pass that marks where values become narrow."""
    return QuantizePartition()


def annotate() -> tvm.transform.Pass:
    """Return the pass that puts simulated quantisations where values become integers."""
    return QuantizeAnnotate()


def realize() -> tvm.transform.Pass:
    """Return the pass that computes with integers what simulated quantisations round."""
    return QuantizeRealize()


def prerequisite_optimize(mod: tvm.IRModule, params: Mapping[str, Any] | None = None) -> tvm.IRModule:
    """Return a module as quantisation takes it: at inference, with what constants give folded into weights.

    Parameters
    ----------
    mod : tvm.IRModule
        The module; it is not changed.
    params : mapping, optional
        Weights by name, which become constants.
    """
    bound = bind_params(mod, params) if params else mod
    passes = [SimplifyInference(), FoldConstant(), FoldScaleAxis(), CanonicalizeOps(), FoldConstant()]
    return tvm.transform.Sequential(passes)(infer_module(bound))


def quantize(
    mod: tvm.IRModule, params: Mapping[str, Any] | None = None, dataset: Dataset | None = None
) -> tvm.IRModule:
    """Return a module whose ``main`` computes with integers.

    Convolutions, and with ``skip_dense_layer=False`` dense, are quantised, and what stands between them; see
    :class:`QConfig` for what decides, which is the configuration in force.

    Parameters
    ----------
    mod : tvm.IRModule
        The module; it is not changed.
    params : mapping, optional
        Weights by name.
    dataset : iterable of mapping, optional
        Inputs by name, one mapping a run, from which scales are found; ``calibrate_mode="global_scale"`` needs none.

    Raises
    ------
    QuantizationError
        When a weight is no constant, data are missing, or reals are left that shall be none.
    """
    config = current_qconfig()
    scales = tvm.transform.module_pass(calibrate(dataset), opt_level=1, name="QuantizeCalibrate")
    steps = [partition(), annotate(), scales, InferType()]
    if not config.do_simulation:
        steps.append(realize())
    steps.append(FoldConstant())
    mod = prerequisite_optimize(mod, params)
    with tvm.transform.PassContext(opt_level=3), quantize_context():
        mod = tvm.transform.Sequential(steps)(mod)
    if config.partition_conversions == "disabled":
        return mod
    dtypes = {config.dtype_input, config.dtype_weight, config.dtype_activation}
    return partition_conversions(mod, dtypes, config.partition_conversions == "fully_integral")
