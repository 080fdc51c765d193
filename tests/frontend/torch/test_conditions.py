"""Programs that were exported as one of several ways: what led there is checked when they run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import vmkit
from tests.frontend.torch.programs import AUTO, Of, torch
from vmkit.errors import VMError
from vmkit.frontend.torch.conditions import with_conditions
from vmkit.relay.lower.checks import RuntimeChecks

F = torch.nn.functional


def multiple(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * 2 + y.sum() if x.shape[1] % 4 == 0 else F.pad(x, (0, 1))


def large(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.sum() + y if x.shape[1] * y.shape[0] > 20 and x.shape[0] != y.shape[0] else y


def rounded(x: torch.Tensor, y: torch.Tensor) -> Any:
    return F.interpolate(x[:, None], scale_factor=0.3, mode="area") + y.sum()


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [(multiple, (3, 12, 2), (3, 10, 2)), (large, (3, 7, 5), (3, 7, 2)), (rounded, (3, 9, 2), (3, 11, 2))],
)
def test_conditions_are_checked(
    function: Callable[..., Any], good: tuple[int, int, int], bad: tuple[int, int, int]
) -> None:
    example = torch.randn(2, 8), torch.randn(6)
    axes = (({0: AUTO, 1: AUTO}, {0: AUTO}),)
    program = torch.export.export(Of(function).eval(), example, dynamic_shapes=axes)
    machine = vmkit.VirtualMachine(vmkit.compile(program), "cpu")
    x, y = torch.randn(*good[:2]), torch.randn(good[2])
    np.testing.assert_allclose(machine.run(x.numpy(), y.numpy()).numpy(), function(x, y).numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(VMError, match=r"those that the program was exported for: .* does not hold"):
        machine.run(np.zeros(bad[:2], "float32"), np.zeros(bad[2], "float32"))


def test_conditions_of_a_file_are_checked(tmp_path: Path) -> None:
    program = torch.export.export(Of(multiple), (torch.randn(2, 8), torch.randn(6)), dynamic_shapes=(({1: AUTO}, {}),))
    torch.export.save(program, tmp_path / "multiple.pt2")
    machine = vmkit.VirtualMachine(vmkit.compile(tmp_path / "multiple.pt2"), "cpu")
    x, y = np.ones((2, 12), "float32"), np.ones(6, "float32")
    np.testing.assert_array_equal(machine.run(x, y).numpy(), x * 2 + 6)
    with pytest.raises(VMError, match="does not hold"):
        machine.run(x[:, :10], y)


SIZES = "L['x'].size()[0]", "L['x'].size()[1]"
CONDITIONS = {
    f"{SIZES[0]} < {SIZES[1]} <= 9": (lambda m, n: m < n <= 9),
    f"not {SIZES[0]} == 3 or {SIZES[1]} != 5": (lambda m, n: m != 3 or n != 5),
    f"({SIZES[0]} - {SIZES[1]}) // 2 >= -{SIZES[0]} + 1": (lambda m, n: (m - n) // 2 >= 1 - m),
    f"(-{SIZES[1]}) % ({SIZES[0]} - 2) == 0": (lambda m, n: (m != 2 and -n % (m - 2) == 0) or m == 2),
    f"math.trunc(0.7*torch.sym_float({SIZES[1]})) == math.ceil({SIZES[1]}/2)": (
        lambda m, n: int(0.7 * n) == -(-n // 2)
    ),
    f"max({SIZES[0]}, {SIZES[1]}, 4) - min(2, {SIZES[0]}) == 3": (lambda m, n: max(m, n, 4) - min(2, m) == 3),
    f"math.floor({SIZES[0]}*1.5) > {SIZES[1]} and {SIZES[1]} > 2": (lambda m, n: int(m * 1.5) > n > 2),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_mean_what_python_says(condition: str) -> None:
    m, n = (tvm.tirx.Var(name, "int64") for name in "mn")
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType([m, n], "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.abs(x)))
    checks = RuntimeChecks()
    machine = vmkit.VirtualMachine(
        vmkit.compile(checks.noted_in(with_conditions(builder.get(), [condition], checks))), "cpu"
    )
    for shape in ((2, 3), (3, 5), (4, 2), (6, 8), (5, 9), (9, 12), (7, 1)):
        values = np.ones(shape, "float32")
        if CONDITIONS[condition](*shape):
            np.testing.assert_array_equal(machine.run(values).numpy(), values)
        else:
            with pytest.raises(VMError, match="does not hold"):
                machine.run(values)


CONDITIONS_OF_OTHERS = {
    "a flag": "L['flag'] == 3",
    "an axis that is not there": "L['x'].size()[5] > 1",
    "another function": "f(L['x'].size()[0]) > 1",
    "no condition": "1 +",
    "another comparison": "L['x'].size()[0] in (1, 2)",
    "a large number": f"L['x'].size()[0] < {1 << 70}",
    "a division by 0": "L['x'].size()[0] // 0 == 1",
    "a nul": "L['x'].size()[0] > \0",
    "many signs": "L['x'].size()[0] > " + 1900 * "-" + "1",
    "much of it": "1 < " + 500 * "1 + " + "L['x'].size()[0]",
}


@pytest.mark.parametrize("condition", CONDITIONS_OF_OTHERS.values(), ids=CONDITIONS_OF_OTHERS)
def test_conditions_of_other_things_are_told_and_left(condition: str, caplog: pytest.LogCaptureFixture) -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType([tvm.tirx.Var("m", "int64")], "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.abs(x)))
    module = builder.get()
    with caplog.at_level(logging.WARNING, "vmkit.frontend.torch.conditions"):
        assert with_conditions(module, [condition], RuntimeChecks()).same_as(module)
        assert with_conditions(module, [condition] * 3, RuntimeChecks()).same_as(module)
    assert f"PyTorch's condition {condition[:200]} is not checked: " in caplog.text
    assert "is not checked, nor 2 more: " in caplog.text and len(caplog.records) == 2
