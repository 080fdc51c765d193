"""Programs of ``torch.export`` of plain functions, whose every dimension is dynamic, and tensors to run them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import vmkit

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[torch]'")
AUTO = torch.export.Dim.AUTO


class Of(torch.nn.Module):
    """A module of a function of tensors, with the layers that it uses."""

    def __init__(self, function: Callable[..., Any], **layers: torch.nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, torch.nn.ModuleDict(layers)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args, **self.layers)


def exported(function: Callable[..., Any], *args: torch.Tensor) -> Any:
    """Return the program of a function, with every dimension of its tensors dynamic."""
    axes = tuple(dict.fromkeys(range(arg.ndim), AUTO) for arg in args)
    return torch.export.export(Of(function).eval(), args, dynamic_shapes=(axes,))


def tensor(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32"))


def machine_of(program: Any) -> vmkit.VirtualMachine:
    """Return what runs a program that was compiled, saved and loaded."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.vmx"
        vmkit.compile(program).export(path)
        return vmkit.VirtualMachine(vmkit.load(path, map_weights=False), "cpu")


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors of what a program gives, in order."""
    return [each for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]


def agree_at(
    function: Callable[..., Any],
    given: Sequence[tuple[torch.Tensor, ...]],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    program: Any = None,
) -> None:
    """Check that a function's program gives what PyTorch does, for the example that comes first and for others."""
    machine = machine_of(program or exported(function, *given[0]))
    for args in given:
        expected = [each.detach().numpy() for each in tensors_of(function(*(each.clone() for each in args)))]
        made = machine.run(*(each.numpy() for each in args))
        found = [each.numpy() for each in (made if isinstance(made, list | tuple | Sequence) else [made])]
        assert len(found) == len(expected)
        for at, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), f"result {at}"
            np.testing.assert_allclose(
                one, other, rtol=rtol, atol=atol, err_msg=f"result {at} of {[tuple(a.shape) for a in args]}"
            )
