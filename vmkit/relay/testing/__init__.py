"""Networks and helpers for tests, examples and benchmarks, under the names that Relay gave them.

``relay.testing.resnet.get_workload(num_layers=18)`` gives a typed module and values for its parameters.
"""

from . import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    resnet,
    resnet_3d,
    squeezenet,
    synthetic,
    vgg,
)
from .init import create_workload
from .passes import run_infer_type, run_opt_pass

__all__ = [
    "create_workload",
    "dcgan",
    "densenet",
    "dqn",
    "inception_v3",
    "init",
    "layers",
    "lstm",
    "mlp",
    "mobilenet",
    "resnet",
    "resnet_3d",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "vgg",
]
