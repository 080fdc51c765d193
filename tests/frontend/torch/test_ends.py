"""What programs take and give beside their tensors: numbers, None, and what they write in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vmkit
from tests.frontend.torch.programs import AUTO, Of, machine_of, torch
from vmkit.errors import VMError


class Cached(torch.nn.Module):
    """A sum with all that came before, which two buffers keep, one of them in no file of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=False)
        self.register_buffer("scale", torch.full((3,), 2.0), persistent=False)
        self.register_buffer("bias", torch.full((3,), 5.0))

    def forward(self, x: torch.Tensor) -> Any:
        self.total.add_(x.sum(0))
        self.calls += 1
        return x * self.scale + self.total * self.calls + self.bias


def exported(module: Any, args: tuple[Any, ...], axes: Any, **kwargs: Any) -> Any:
    return torch.export.export(module, args, kwargs, dynamic_shapes=axes)


def values(made: Any) -> list[Any]:
    return [each.numpy() for each in made]


def test_buffers_that_are_written_are_inputs_and_results_after_the_others(tmp_path: Path) -> None:
    module = Cached()
    program = exported(module, (torch.rand(4, 3),), ({0: AUTO},))
    constants = {*program.constants}
    executable = vmkit.compile(program)
    assert [spec.name for spec in executable.inputs] == ["x", "b_total", "b_calls"]
    assert {*program.constants} == constants
    executable.export(tmp_path / "cached.vmx")
    machine = vmkit.VirtualMachine(vmkit.load(tmp_path / "cached.vmx"), "cpu")
    kept = values(machine.invoke("initial_state"))
    np.testing.assert_array_equal(kept[0], np.ones(3, "float32"))
    assert (kept[1].dtype, int(kept[1])) == (np.int64, 0)
    for size in (4, 1, 7):
        x = torch.rand(size, 3)
        result, *kept = values(machine.run(x.numpy(), *kept))
        np.testing.assert_allclose(result, module(x).numpy(), rtol=1e-5)
        np.testing.assert_allclose(kept[0], module.total.numpy(), rtol=1e-5)
        assert kept[1] == module.calls


def test_inputs_that_are_written_are_results() -> None:
    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    x, y = torch.rand(5, 3), torch.rand(5, 3)
    machine = machine_of(exported(Of(written), (x.clone(), y), (({0: AUTO}, {0: AUTO}),)))
    twice, new = values(machine.run(x.numpy(), y.numpy()))
    np.testing.assert_allclose(new, (x + y).numpy(), rtol=1e-6)
    np.testing.assert_allclose(twice, 2 * new, rtol=1e-6)


def test_what_only_writes_gives_what_it_wrote() -> None:
    def written(x: torch.Tensor) -> None:
        x.mul_(3)

    machine = machine_of(exported(Of(written), (torch.rand(5, 3),), (({0: AUTO},),)))
    np.testing.assert_array_equal(machine.run(np.ones((2, 3), "float32")).numpy(), np.full((2, 3), 3))


@pytest.mark.parametrize("shape", [(6, 3), (3, 3, 4), (2, 3, 2, 5)])
def test_running_statistics_are_moved(shape: tuple[int, ...]) -> None:
    kind = (torch.nn.BatchNorm1d, torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)[len(shape) - 2]
    module = kind(3, momentum=0.3)
    torch.nn.init.uniform_(module.weight)
    axes = {axis: AUTO for axis in range(len(shape)) if axis != 1}
    machine = machine_of(exported(module, (torch.rand(shape),), (axes,)))
    kept = [np.zeros(3, "float32"), np.ones(3, "float32"), np.array(0)]
    for size in (shape[0], 7):
        x = torch.rand(size, *shape[1:])
        result, *kept = values(machine.run(x.numpy(), *kept))
        np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(kept[0], module.running_mean.numpy(), rtol=1e-5)
        np.testing.assert_allclose(kept[1], module.running_var.numpy(), rtol=1e-5)
        assert kept[2] == module.num_batches_tracked


class Nested(torch.nn.Module):
    """Takes and gives containers, with what is always the same among it."""

    def forward(self, x: Any, flag: bool = False, scale: float = 1.0, mode: str = "", other: Any = None) -> Any:
        made = x["a"][0] * scale + (0 if other is None else other)
        return {
            "made": (made, None, [x["b"]]),
            "mode": mode,
            "count": 3,
            "size": made.shape[0],
            "sum": made.sum().item(),
        }


def test_what_is_always_the_same_is_left_out_and_numbers_are_tensors() -> None:
    given = {"a": [torch.rand(4, 2)], "b": torch.rand(2)}
    axes = {"x": {"a": [{0: AUTO}], "b": {}}, "scale": None, "mode": None, "other": None}
    program = torch.export.export(Nested(), (given,), {"scale": 2.5, "mode": "any", "other": None}, dynamic_shapes=axes)
    machine = machine_of(program)
    a = np.arange(14, dtype="float32").reshape(7, 2)
    made, b, size, total = values(machine.run(a, np.ones(2, "float32")))
    np.testing.assert_array_equal(made, a * 2.5)
    np.testing.assert_array_equal(b, np.ones(2))
    assert (size.dtype, int(size)) == (np.int64, 7)
    assert (total.dtype, float(total)) == (np.float64, (a * 2.5).sum())


def test_an_integer_may_be_an_input() -> None:
    program = exported(Of(lambda x, n: (x[:n] * n, n)), (torch.rand(6, 3), 3), (({0: AUTO}, AUTO),))
    machine = machine_of(program)
    x = np.arange(15, dtype="float32").reshape(5, 3)
    for count in (2, 4, 5):
        part, given = values(machine.run(x, count))
        np.testing.assert_array_equal(part, x[:count] * count)
        assert given == count
    for count in (-1, 6, -(1 << 62)):
        with pytest.raises(VMError, match=r"the sizes are not those that the program was exported for"):
            machine.run(x, count)


def test_an_integer_that_sizes_tell_must_be_that() -> None:
    program = exported(Of(lambda n, x: x.reshape(n) * n), (4, torch.rand(4)), ((AUTO, {0: AUTO}),))
    machine = machine_of(program)
    np.testing.assert_array_equal(machine.run(3, np.ones(3, "float32")).numpy(), [3, 3, 3])
    with pytest.raises(
        VMError, match=r"the sizes are not|args_0: the number must be \w+, as sizes of other inputs say"
    ):
        machine.run(4, np.ones(3, "float32"))


class Store:
    """A container that makes a tensor where it is made, as caches do."""

    def __init__(self, held: torch.Tensor) -> None:
        self.held = torch.cat([torch.tensor([]), held], -2)


torch.utils._pytree.register_pytree_node(
    Store,
    lambda store: ([store.held], None),
    lambda values, _: Store(*values),
    serialized_type_name="tests.Store",
    flatten_with_keys_fn=lambda store: ([(torch.utils._pytree.SequenceKey(0), store.held)], None),
)


def test_results_may_be_in_containers_that_make_tensors() -> None:
    machine = machine_of(
        exported(Of(lambda x: {"kept": Store(x + 1), "x": x * 2}), (torch.rand(4, 3),), (({0: AUTO},),))
    )
    kept, twice = values(machine.run(np.ones((2, 3), "float32")))
    np.testing.assert_array_equal(kept, np.full((2, 3), 2))
    np.testing.assert_array_equal(twice, np.full((2, 3), 2))


class Step(torch.nn.Module):
    """One step of a decoder of one head, which looks at what it kept of the steps before."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(11, 8)
        self.query, self.both = torch.nn.Linear(8, 8), torch.nn.Linear(8, 16)

    def forward(self, ids: torch.Tensor, kept: Store) -> tuple[torch.Tensor, Store]:
        x = self.rows(ids)
        kept = Store(torch.cat([kept.held, self.both(x)], 1))
        keys, elements = kept.held.chunk(2, -1)
        weights = (self.query(x) @ keys.transpose(1, 2)).softmax(-1)
        return (weights @ elements) @ self.rows.weight.T, kept


def test_inputs_may_be_in_containers_that_make_tensors() -> None:
    torch.manual_seed(3)
    module = Step().eval()
    example = (torch.randint(11, (2, 3)), Store(torch.rand(2, 5, 16)))
    axes = ({0: AUTO, 1: AUTO}, [{0: AUTO, 1: AUTO}])
    executable = vmkit.compile(torch.export.export(module, example, dynamic_shapes=axes))
    assert [spec.name for spec in executable.inputs] == ["ids", "kept_0"]
    machine = vmkit.VirtualMachine(executable, "cpu")
    ids, past = torch.tensor([[4], [7], [1]]), torch.rand(3, 1, 16)
    own, kept = ids.numpy(), past.numpy()
    for _ in range(5):
        with torch.no_grad():
            expected, store = module(ids, Store(past))
        found, kept = values(machine.run(own, kept))
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(kept, store.held.numpy(), rtol=1e-4, atol=1e-5)
        ids, past, own = expected[:, -1:].argmax(-1), store.held, found[:, -1:].argmax(-1)
        np.testing.assert_array_equal(own, ids.numpy())
    assert kept.shape == (3, 6, 16)
