"""Large constants move out of an executable, and back in before it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import ExecutableError

X = np.ones((4, 8), "float32")
WEIGHT = np.arange(32, dtype="float32").reshape(4, 8)
LIMIT = WEIGHT.nbytes


@pytest.fixture
def exe() -> vmkit.Executable:
    x = relay.var("x", shape=(relay.Any(), 8))
    half = relay.const(np.linspace(0, 1, 8).astype("float16"))
    sum_ = x + relay.const(WEIGHT) * relay.exp(x)
    return vmkit.compile(relay.Function([x], relay.Tuple([sum_, half])), target="llvm")


def results(exe: vmkit.Executable) -> list[np.ndarray]:
    return [value.numpy() for value in vmkit.VirtualMachine(exe).run(X)]


def test_constants_from_the_limit_on_move_to_a_file_and_back(exe: vmkit.Executable, tmp_path: Path) -> None:
    expected = results(exe)
    exe.move_late_bound_consts(tmp_path / "consts", LIMIT)
    (name,) = exe.late_bound
    assert relay.load_param_dict((tmp_path / "consts").read_bytes())[name].numpy().tolist() == WEIGHT.tolist()
    exe.export(tmp_path / "model.vmx")
    code, lib = exe.save()
    assert WEIGHT.tobytes() not in code
    for lacking in (exe, vmkit.load(tmp_path / "model.vmx"), vmkit.Executable.load_exec(code, lib)):
        with pytest.raises(ExecutableError, match=f"Need to load late-bound-constants before creating VM: {name}"):
            vmkit.VirtualMachine(lacking)
        lacking.load_late_bound_consts(tmp_path / "consts")
        for actual, wanted in zip(results(lacking), expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_every_constant_moves_with_a_limit_of_nothing(exe: vmkit.Executable) -> None:
    expected = results(exe)
    constants = exe.get_late_bound_consts(0)
    assert sorted(str(c.dtype) for c in constants.values()) == ["float16", "float32"]
    exe.load_late_bound_consts_from_map({name: c.numpy() for name, c in constants.items()})
    np.testing.assert_array_equal(results(exe)[1], expected[1])


def test_below_the_limit_nothing_moves_and_nothing_is_needed(exe: vmkit.Executable) -> None:
    code = exe.code
    assert exe.get_late_bound_consts(LIMIT + 1) == {} and exe.code == code
    exe.load_late_bound_consts_from_map({"any": WEIGHT})
    assert exe.code == code


def test_all_that_does_not_fit_is_said_at_once(exe: vmkit.Executable) -> None:
    first, second = exe.get_late_bound_consts(0)
    with pytest.raises(ExecutableError) as caught:
        exe.load_late_bound_consts_from_map({first: tvm.runtime.tensor(np.zeros(3, "int8")), "other": WEIGHT})
    said = str(caught.value)
    assert f"{first}: int8[3], expected float" in said
    assert "No binding for late-bound constant at index" in said and f"with name '{second}'" in said
    assert "Have 1 unused late-bound constants: other" in said
    assert exe.late_bound == [first, second]
