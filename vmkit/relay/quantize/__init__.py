"""Automatic quantisation: a program of reals becomes one of integers, with scales found on data.

>>> import numpy as np
>>> import tvm
>>> from vmkit import relay
>>> x = relay.var("x", shape=(1, 4, 8, 8))
>>> y = relay.nn.conv2d(x, relay.const(np.ones((4, 4, 3, 3), "float32")))
>>> with relay.quantize.qconfig(skip_conv_layers=None):
...     quantized = relay.quantize.quantize(tvm.IRModule({"main": relay.Function([x], y)}))
>>> sorted(relay.analysis.all_dtypes(quantized["main"]))
['float32', 'int32', 'int8']

It runs in steps: `partition` marks where values become narrow, `annotate` puts simulated quantisations there,
`calibrate` finds their scales, and `realize` makes integers of them.
"""

from .annotation import QAnnotateExpr, attach_simulated_quantize, register_annotate_function
from .calibration import calibrate, collect_stats
from .config import QAnnotateKind, QConfig, current_qconfig, kind2str, qconfig
from .context import QuantizeContext, quantize_context
from .conversions import partition_conversions
from .partitioning import QPartitionExpr, register_partition_function
from .realization import QRealizeIntExpr
from .steps import annotate, partition, prerequisite_optimize, quantize, realize

__all__ = [
    "QAnnotateExpr",
    "QAnnotateKind",
    "QConfig",
    "QPartitionExpr",
    "QRealizeIntExpr",
    "QuantizeContext",
    "annotate",
    "attach_simulated_quantize",
    "calibrate",
    "collect_stats",
    "current_qconfig",
    "kind2str",
    "partition",
    "partition_conversions",
    "prerequisite_optimize",
    "qconfig",
    "quantize",
    "quantize_context",
    "realize",
    "register_annotate_function",
    "register_partition_function",
]
