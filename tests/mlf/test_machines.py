"""Archives on the processors that they are for: values under qemu are the virtual machine's."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

import vmkit
from tests.mlf.built import build
from tests.mlf.machines import CHECKED, CORTEX_M4, CORTEX_M7, RISCV64, Machine, build_for
from tests.mlf.networks import ds_cnn, lstm_cell, quantized, quantized_cnn
from tests.places import DATA, TOP
from vmkit.mlf.export import model_of


@dataclass(frozen=True)
class Network:
    """A model with inputs of it."""

    model: Callable[[Path], onnx.ModelProto]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(6)
        if self.dtype == "float32":
            return [rng.random(shape, dtype="float32") for shape in self.shapes]
        return [rng.integers(0, 256, shape).astype(self.dtype) for shape in self.shapes]


def _ultraface(_: Path) -> onnx.ModelProto:
    return onnx.load_from_string(lzma.decompress((DATA / "ultraface.onnx.xz").read_bytes()))


NETWORKS = {
    "mnist": Network(lambda _: onnx.load(TOP / "vmkit" / "data" / "mnist.onnx"), ((1, 1, 28, 28),)),
    "ultraface": Network(_ultraface, ((1, 3, 240, 320),)),
    "int8 cnn": Network(lambda _: quantized_cnn(), ((1, 2, 9, 7),), "uint8"),
    "ds-cnn": Network(lambda _: ds_cnn(), ((1, 1, 49, 10),)),
    "int8 ds-cnn": Network(lambda folder: quantized(ds_cnn(), folder), ((1, 1, 49, 10),)),
    "lstm cell": Network(lambda _: lstm_cell(), ((3, 1, 3), (1, 1, 4), (1, 1, 4))),
}
OBJECTS = {
    CORTEX_M4: "llvm -mtriple=thumbv7em-none-eabihf -mcpu=cortex-m4 -mfloat-abi=hard",
    CORTEX_M7: "llvm -mtriple=thumbv7em-none-eabihf -mcpu=cortex-m7 -mfloat-abi=hard",
    RISCV64: "llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64 -mattr=+m,+a,+f,+d,+c -mabi=lp64d",
}


def assert_same(name: str, machine: Machine, folder: Path, target: str = "c") -> None:
    network = NETWORKS[name]
    machine.require()
    model, inputs = network.model(folder), network.inputs()
    vmkit.mlf.export(model, folder / "model.tar", model_name="net", target=target)
    got = build_for(machine, folder / "model.tar", "net").run(*inputs)
    expected = vmkit.VirtualMachine(vmkit.compile(model, "llvm"), "cpu", num_threads=1).run(*inputs)
    for one, value in zip(got, expected if isinstance(expected, list | tuple) else [expected], strict=True):
        array = value.numpy().ravel()
        is_exact = array.dtype.kind != "f" or name.startswith("int8")
        np.testing.assert_allclose(one, array, rtol=0 if is_exact else 1e-4, atol=0 if is_exact else 1e-6)


@pytest.mark.parametrize("machine", [CORTEX_M4, RISCV64], ids=lambda machine: machine.name)
def test_small_network_in_c(machine: Machine, tmp_path: Path) -> None:
    assert_same("int8 cnn", machine, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("machine", [CORTEX_M4, CORTEX_M7, RISCV64], ids=lambda machine: machine.name)
def test_network_in_c(name: str, machine: Machine, tmp_path: Path) -> None:
    assert_same(name, machine, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("machine", OBJECTS, ids=lambda machine: machine.name)
def test_network_as_objects(name: str, machine: Machine, tmp_path: Path) -> None:
    assert_same(name, machine, tmp_path, OBJECTS[machine])


@pytest.mark.nightly
@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_of_it_is_undefined(name: str, tmp_path: Path) -> None:
    assert_same(name, CHECKED, tmp_path)


@pytest.mark.parametrize(
    "name", [name if name != "ultraface" else pytest.param(name, marks=pytest.mark.nightly) for name in NETWORKS]
)
def test_workspace_is_at_most_a_tenth_more_than_what_is_live(name: str, tmp_path: Path) -> None:
    plan = model_of(NETWORKS[name].model(tmp_path)).plan
    assert plan.live <= plan.size <= 1.1 * plan.live


@pytest.mark.nightly
@pytest.mark.parametrize("name", NETWORKS)
def test_workspace_is_what_is_used(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name]
    vmkit.mlf.export(network.model(tmp_path), tmp_path / "model.tar")
    built = build(tmp_path / "model.tar")
    assert built.used_bytes(*network.inputs()) == built.main["workspace_size_bytes"] > 0
