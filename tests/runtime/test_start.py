"""Whether an executable fits the devices and the memory that it is started with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from tests.relax import programs as vm_programs
from vmkit import relay
from vmkit.errors import DeviceError, ExecutableError, OptionError
from vmkit.executable.executable import Executable
from vmkit.executable.loading import load
from vmkit.runtime import start
from vmkit.runtime.start import started

CPU, CUDA = tvm.cpu(), tvm.cuda(0)


@pytest.fixture(scope="module")
def rows() -> Executable:
    mod, signature = vm_programs.add_rows()
    return Executable(vm_programs.compiled(mod), {"main": signature}, tvm.target.Target("llvm"))


def test_the_functions_can_be_called(rows: Executable) -> None:
    module = started(rows, [CPU], None)
    x, y = (tvm.runtime.tensor(np.ones(shape, "float32")) for shape in ((2, 3), (2,)))
    assert module["main"](x, y).numpy().tolist() == [4, 4]


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        (None, [2, 2]),
        ("pooled", [2, 2]),
        ("naive", [1, 1]),
        ({"cuda": "naive"}, [1, 2]),
        ({tvm.cpu(): "naive", "cuda:0": "pooled"}, [2, 1]),
        ({}, [2, 2]),
    ],
)
def test_allocators_by_device(config: Any, kinds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "one_device", lambda given: CUDA if str(given).startswith("cuda") else given)
    assert start._allocators([CUDA, CPU], config) == kinds


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("fast", "unknown allocator 'fast' in memory_cfg, expected 'naive' or 'pooled'"),
        ({"cpu": "fast"}, "unknown allocator 'fast' in memory_cfg"),
        (["naive"], "memory_cfg is expected be string or dictionary, but received <class 'list'>"),
        (1, "pass 'naive', 'pooled' or a dict from device to one of them"),
    ],
)
def test_memory_configurations_that_are_none(rows: Executable, config: Any, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        started(rows, [CPU], config)
    assert text in str(caught.value)


def test_a_device_that_the_machine_does_not_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "one_device", lambda _: CUDA)
    with pytest.raises(OptionError, match=r"memory_cfg names cuda:0, which the machine does not run on"):
        start._allocators([CPU], {"cuda": "naive"})


@pytest.mark.parametrize(("kind", "devices"), [(None, [CPU]), ("cpu", [CPU]), ("cuda", [CUDA, CPU]), (None, [CUDA])])
def test_devices_that_match(kind: str | None, devices: list[Any]) -> None:
    start._match_target(SimpleNamespace(device_kind=kind), devices)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "devices", "text"),
    [
        ("cuda", [CPU], "(from among the 1 given) to match the virtual device with device type cuda"),
        ("cuda", [CPU], "the devices are cpu:0; pass device='cuda', or compile for another target"),
        ("cpu", [CUDA, CPU], "the executable was built for the CPU, but device cuda:0 was asked for"),
    ],
)
def test_devices_that_do_not_match(kind: str, devices: list[Any], text: str) -> None:
    with pytest.raises(DeviceError) as caught:
        start._match_target(SimpleNamespace(device_kind=kind), devices)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_kernels_that_are_not_there(rows: Executable) -> None:
    with pytest.raises(ExecutableError, match=r"the executable cannot be linked: .*\S"):
        started(Executable.load_exec(rows.code, None), [CPU], None)


def test_weights_are_passed_from_where_they_were_read_to(tmp_path: Any) -> None:
    x = relay.var("x", shape=(256, 256))
    weights = np.arange(1 << 16, dtype="float32").reshape(256, 256)
    vmkit.compile(relay.Function([x], x + relay.const(weights)), target="llvm").export(tmp_path / "model.vmx")
    executable = load(tmp_path / "model.vmx")
    module = started(executable, [CPU], None)
    assert executable.holds_weights, "no module with a copy of the constants was made"
    np.testing.assert_array_equal(module["main"](tvm.runtime.tensor(weights)).numpy(), 2 * weights)
