"""Programs of ``torch.export``: every dimension that they declare dynamic is, and results are PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vmkit
from tests.frontend.torch.programs import Of, torch
from vmkit.errors import InputError, ModelError, UnsupportedOperatorError, VMError

Dim, export = torch.export.Dim, torch.export.export


def exported(module: torch.nn.Module, args: Sequence[Any], axes: Sequence[Mapping[int, Any]]) -> Any:
    return export(module.eval(), tuple(args), dynamic_shapes=(tuple(dict(a) for a in axes),))


def agree(module: torch.nn.Module, machine: vmkit.VirtualMachine, *args: torch.Tensor) -> None:
    with torch.inference_mode():
        expected = module(*args)
    made = machine.run(*[a.numpy() for a in args])
    if isinstance(expected, torch.Tensor):
        expected, made = [expected], [made]
    for one, other in zip(made, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def masked(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.transpose(1, 2)).masked_fill(x[:, :1, :1] > 0.5, -1e9).softmax(-1)


def windows(x: torch.Tensor, weights: torch.Tensor, conv: torch.nn.Module, norm: torch.nn.Module) -> torch.Tensor:
    return torch.nn.functional.max_pool2d(norm(conv(x)).relu(), 2).mean(-1) * weights


def written(x: torch.Tensor, y: torch.Tensor) -> Any:
    where, beside = torch.tensor([[2], [0], [-1]]), torch.tensor([1, 3, 1, 0])
    side_by_side, apart, added, masked = x.clone(), x.clone(), x.clone(), x.clone()
    side_by_side[:, where, beside] = y[:, :1, :1, :1]
    apart[where[:, 0], :, :, torch.tensor([0, 2, 0])] = y[0, 1, 0, 0]
    added.index_put_((where, beside), torch.ones(1), accumulate=True)
    masked[:, x[0, :, :, 0] > 0.5] = 7.0
    return side_by_side, apart, added, masked, torch.nn.functional.fold(x.flatten(2)[:, :, :6], (4, 3), (2, 2))


def read(x: torch.Tensor) -> Any:
    where, beside = torch.tensor([2, 0, -1]), torch.tensor([1, 3, 1])
    one = where[:, None]
    return (
        x[:, where, beside],
        x[where, :, beside],
        x[:, :, one, beside],
        x[:, one[:, None], beside],
        x[:, where],
        x[one],
    )


CASES = {
    "written where tensors say": (
        Of(written),
        lambda b, n: [torch.rand(n, 4, 6, 4), torch.rand(n, 2, 3, 4)],
        [{0: "n"}, {0: "n"}],
    ),
    "read where tensors say": (Of(read), lambda b, n: [torch.rand(n, 4, 4, 5)], [{0: "n"}]),
    "a part that always is there": (Of(masked), lambda b, n: [torch.rand(b, n, 8)], [{0: "b", 1: "n"}]),
    "a sum over what two inputs have in common": (
        Of(lambda x, y: (x.unsqueeze(2) + y.unsqueeze(1)).sum(-1)),
        lambda b, n: [torch.rand(b, n, 4), torch.rand(b, 3, 4)],
        [{0: "b", 1: "n"}, {0: "b"}],
    ),
    "vectors of no elements among tensors that are joined": (
        Of(
            lambda x, y: (
                torch.cat([torch.tensor([]), x], -2),
                torch.cat([x, torch.tensor([]), y], 1),
                torch.cat([torch.tensor([]), torch.tensor([])]),
                torch.cat([torch.tensor([]), (x > 0.5).int()], dim=1),
            )
        ),
        lambda b, n: [torch.rand(b, n, 4), torch.rand(b, 3, 4)],
        [{0: "b", 1: "n"}, {0: "b"}],
    ),
    "slices up to what sizes come to": (
        Of(
            lambda x, y: (
                x[:, : y.shape[1] - 1] + x[:, 2:] * y[:, : x.shape[1] - 2],
                x[:, x.shape[1] - 3 :].sum(1),
                x[:, y.shape[1] - 2 : x.shape[1] - 1].exp(),
            )
        ),
        lambda b, n: [torch.rand(b, n + 1, 4), torch.rand(b, n, 4)],
        [{0: "b", 1: "n+1"}, {0: "b", 1: "n"}],
    ),
    "as many as another input has": (
        Of(lambda x, y: (x[:, : y.shape[0]] * y).sum(0)),
        lambda b, n: [torch.rand(b, 2 * n), torch.rand(n)],
        [{0: "b", 1: "m"}, {0: "n"}],
    ),
    "joined, cut and two results": (
        Of(lambda x: (torch.cat([x, x[:, 1:] * 2], 1), x.reshape(x.shape[0], -1).amax(1))),
        lambda b, n: [torch.rand(b, n, 3)],
        [{0: "b", 1: "n"}],
    ),
    "windows along axes": (
        Of(lambda x: (x.unfold(1, 2, 1), x.unfold(-1, 2, 3) * 2, x.unfold(2, 4, 1), x.sum().unfold(0, 1, 1))),
        lambda b, n: [torch.rand(b, n, 8)],
        [{0: "b", 1: "n"}],
    ),
    "convolutions": (
        Of(windows, conv=torch.nn.Conv2d(3, 4, 3, padding=1), norm=torch.nn.BatchNorm2d(4)),
        lambda b, n: [torch.rand(b, 3, 2 * n, 7), torch.rand(n)],
        [{0: "b", 2: "2n"}, {0: "n"}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_torch_at_every_size(name: str) -> None:
    module, inputs, axes = CASES[name]
    size = Dim("n", min=3, max=512)
    dims = {"b": Dim("b", max=64), "n": size, "2n": 2 * size, "n+1": size + 1, "m": Dim("m", min=6, max=1024)}
    torch.manual_seed(0)
    program = exported(module, inputs(3, 5), [{k: dims[v] for k, v in a.items()} for a in axes])
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu")
    for batch, size in ((3, 5), (1, 3), (2, 33)):
        agree(module, machine, *inputs(batch, size))


def test_equal_dimensions_are_one_and_ranges_are_kept() -> None:
    module, batch = Of(lambda x, y: x + y), Dim("batch", min=3, max=9)
    program = exported(module, [torch.rand(3, 4), torch.rand(3, 4)], [{0: batch}, {0: batch}])
    executable = vmkit.compile(program, "llvm")
    (x, y), (out,) = executable.inputs, executable.outputs
    assert x.shape == y.shape == out.shape and isinstance(x.shape[0], str)
    machine = vmkit.VirtualMachine(executable, "cpu")
    agree(module, machine, torch.rand(9, 4), torch.rand(9, 4))
    for size in (2, 10):
        with pytest.raises(VMError, match=f"the dimension {x.shape[0]} is not in the range 3 to 9"):
            machine.run(*2 * [np.zeros((size, 4), "float32")])
    with pytest.raises(ValueError, match="already bound"):
        machine.run(np.zeros((3, 4), "float32"), np.zeros((4, 4), "float32"))


def test_a_dimension_that_was_assumed_to_be_two_or_more_may_be_fewer() -> None:
    module = Of(lambda x: x.softmax(1) @ x.mT)
    program = exported(module, [torch.rand(3, 4)], [{0: Dim.AUTO, 1: Dim.AUTO}])
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu")
    for shape in ((3, 4), (1, 5), (7, 1), (1, 1), (0, 3)):
        agree(module, machine, torch.rand(*shape))


def test_weights_and_buffers_are_in_the_executable_and_the_program_stays_as_it_is(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8)).eval()
    program = export(module, (torch.rand(3, 4),), dynamic_shapes=({0: Dim("b", max=64)},))
    before = str(program.graph)
    torch.export.save(program, tmp_path / "model.pt2")
    for model in (program, tmp_path / "model.pt2"):
        executable = vmkit.compile(model, "llvm")
        assert len(executable.inputs) == 1
        agree(module, vmkit.VirtualMachine(executable, "cpu"), torch.rand(7, 4))
    assert str(program.graph) == before


def test_operators_without_a_converter_are_listed() -> None:
    module = Of(lambda x: x.nanmedian() + torch.special.bessel_j0(x[0]))
    with pytest.raises(UnsupportedOperatorError, match=r"2 operators are not supported by TVM's importer") as caught:
        vmkit.compile(exported(module, [torch.rand(3, 3)], [{}]))
    assert [line.split(":")[0] for line in caught.value.operators] == [
        "aten.nanmedian.default", "aten.special_bessel_j0.default",
    ]  # fmt: skip


def test_windows_along_a_computed_size() -> None:
    module = Of(lambda x: x.unfold(0, 3, 2))
    program = exported(module, [torch.rand(10)], [{0: 2 * Dim("n", min=3, max=9)}])
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu")
    for size in (6, 10, 18):
        agree(module, machine, torch.rand(size))


def test_dimensions_that_pytorch_makes_numbers_are_numbers() -> None:
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    auto = torch.export.Dim.AUTO
    program = export(module.eval(), (torch.rand(2, 5, 8),), dynamic_shapes=({0: auto, 1: auto, 2: auto},))
    machine = vmkit.VirtualMachine(vmkit.compile(program), "cpu")
    for shape in ((2, 5, 8), (3, 7, 8)):
        agree(module, machine, torch.rand(*shape))
    with pytest.raises(InputError, match="dim 2 is 9, expected 8"):
        machine.run(np.zeros((2, 5, 9), "float32"))


def test_shapes_are_the_programs_own() -> None:
    with pytest.raises(ModelError, match="shapes are for ONNX and TFLite models"):
        vmkit.compile(exported(Of(torch.neg), [torch.rand(3)], [{}]), shapes={"x": [3]})


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "bad.pt2").write_bytes(b"text")
    with pytest.raises(ModelError, match=r"bad.pt2: torch.export cannot load it"):
        vmkit.compile(tmp_path / "bad.pt2")
