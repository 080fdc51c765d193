"""What does a dynamic batch cost Relay's networks, to compile and to run?

The networks of ``relay.testing`` have no peer outside Relay, so each is compared with itself, compiled for one image.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from benchmarks.peers import assert_agree
from vmkit import relay

NETWORKS: dict[str, Callable[[Any], tuple[tvm.IRModule, dict[str, Any]]]] = {
    "mlp": relay.testing.mlp.get_workload,
    "dqn": relay.testing.dqn.get_workload,
    "dcgan": relay.testing.dcgan.get_workload,
    "lstm": lambda batch: relay.testing.lstm.get_workload(1, 128, batch),
    "mobilenet": relay.testing.mobilenet.get_workload,
    "resnet18": relay.testing.resnet.get_workload,
    "squeezenet": relay.testing.squeezenet.get_workload,
    "densenet121": lambda batch: relay.testing.densenet.get_workload(batch_size=batch),
    "inception_v3": relay.testing.inception_v3.get_workload,
    "vgg11": relay.testing.vgg.get_workload,
}


@lru_cache(maxsize=2)
def workload(name: str, batch: Any) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return a network for one image, or for any number of them."""
    return NETWORKS[name](relay.Any() if batch == "n" else batch)


def compiled(name: str, batch: Any) -> vmkit.VirtualMachine:
    """Compile a network with its weights."""
    mod, params = workload(name, batch)
    return vmkit.VirtualMachine(vmkit.compile(mod, params=params), "cpu")


def data_of(name: str) -> np.ndarray:
    """Return one random image."""
    shape = workload(name, 1)[0]["main"].params[0].checked_type.concrete_shape
    return np.random.default_rng(0).random(shape, dtype="float32")


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.benchmark(group="Relay's networks: compile")
def test_compile(ratio: Callable[..., None], name: str) -> None:
    data = data_of(name)
    assert_agree(compiled(name, "n").run(data), [compiled(name, 1).run(data).numpy()])
    ratio(lambda: compiled(name, "n"), static=lambda: compiled(name, 1))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.benchmark(group="Relay's networks: run")
def test_run(ratio: Callable[..., None], name: str) -> None:
    data = data_of(name)
    dynamic, static = compiled(name, "n"), compiled(name, 1)
    assert_agree(dynamic.run(data), [static.run(data).numpy()])
    ratio(lambda: dynamic.run(data), static=lambda: static.run(data))
