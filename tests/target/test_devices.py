"""Names of devices, and what happens without one."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from vmkit.errors import DeviceError
from vmkit.target.devices import device, devices, devices_for


@pytest.mark.parametrize("spec", ["cpu", "cpu:0", "llvm", " cpu ", tvm.cpu()])
def test_the_cpu_by_every_name(spec: Any) -> None:
    assert device(spec) == tvm.cpu()
    assert isinstance(device(spec), tvm.runtime.Device)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("cdua", "unknown device 'cdua', expected one of cpu, cuda, .*; did you mean 'cuda'"),
        ("cuda:x", "unknown device 'cuda:x'"),
        ("", "unknown device ''"),
        (3, "a device is a name such as 'cpu' or 'cuda:1', or a tvm.runtime.Device, not 3"),
        (None, "a device is a name"),
    ],
)
def test_unknown_devices(spec: Any, text: str) -> None:
    with pytest.raises(DeviceError, match=text):
        device(spec)


@pytest.mark.parametrize(
    ("spec", "name"),
    [("hexagon", "hexagon:0"), ("metal:1", "metal:1"), (tvm.runtime.device("hexagon", 2), "hexagon:2")],
)
def test_an_absent_device_is_an_error(spec: Any, name: str) -> None:
    with pytest.raises(DeviceError, match=f"device {name} is not available"):
        device(spec)


def test_gpu_is_an_alias_of_cuda() -> None:
    if tvm.cuda(99).exist:
        return
    with pytest.raises(DeviceError, match="device cuda:99 is not available"):
        device("gpu:99")


def test_an_index_may_be_given_apart() -> None:
    assert device("cpu", 0) == tvm.cpu()
    with pytest.raises(DeviceError, match="was given with another index 1"):
        device("cpu:0", 1)


def test_devices_ends_with_the_cpu() -> None:
    assert devices("cpu") == [tvm.cpu()]
    assert devices(["cpu"]) == [tvm.cpu()]


def test_one_device_of_a_kind() -> None:
    with pytest.raises(DeviceError, match="are of one kind, expected at most one device per kind"):
        devices(["cpu", "cpu:1"])
    with pytest.raises(DeviceError, match="no device was given"):
        devices([])


def test_devices_of_a_program_on_several() -> None:
    one, other = tvm.cpu(1), tvm.cpu(3)
    assert devices_for([one, "cpu"], ("cpu", "cpu:1")) == [tvm.cpu(0), one]
    assert devices_for(["cpu", other], ("cpu", "cpu:1")) == [tvm.cpu(0), other]
    with pytest.raises(DeviceError, match=r"match the virtual device cpu:1: the program was compiled for cpu, cpu:1"):
        devices_for("cpu", ("cpu", "cpu:1"))
    with pytest.raises(DeviceError, match=r"compiled for cpu, cpu:1, and does not use cpu:3"):
        devices_for([one, other], ("cpu", "cpu:1"))
