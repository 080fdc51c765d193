"""Networks and helpers for tests, examples and benchmarks, under the names that Relay gave them.

``relay.testing.resnet.get_workload(num_layers=18)`` gives a typed module and values for its parameters.
"""

from typing import TYPE_CHECKING

from ..._later import named_later
from . import (
    byoc,
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    nat,
    resnet,
    resnet_3d,
    squeezenet,
    synthetic,
    vgg,
)
from .init import create_workload
from .nat import add_nat_definitions, count, make_nat_expr, make_nat_value
from .passes import run_infer_type, run_opt_pass

__all__ = [
    "add_nat_definitions",
    "byoc",
    "count",
    "create_workload",
    "dcgan",
    "densenet",
    "dqn",
    "inception_v3",
    "init",
    "layers",
    "lstm",
    "make_nat_expr",
    "make_nat_value",
    "mlp",
    "mobilenet",
    "nat",
    "resnet",
    "resnet_3d",
    "run_as_python",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "to_python",
    "vgg",
]

if TYPE_CHECKING:
    from ...as_python import run_as_python, to_python

__getattr__, __dir__ = named_later(__name__)
