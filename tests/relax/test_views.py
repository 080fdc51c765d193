"""Reshapes copy nothing, whatever their sizes are computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, te, tirx

import vmkit
from vmkit import relay
from vmkit.relax import views

n = tirx.Var("n", "int64")


def kernels_run(machine: vmkit.VirtualMachine, *inputs: np.ndarray) -> list[str]:
    names: list[str] = []

    def note(_function: Any, name: str, is_before: bool, _result: Any, *_args: Any) -> int:
        names.extend([name] if is_before else [])
        return 0

    machine.module["set_instrument"](note)
    machine.run(*inputs)
    return names


def test_a_reshape_to_one_more_than_a_size_is_a_view() -> None:
    x, y = relay.var("x", shape=(2, n, 4)), relay.var("y", shape=(2, 1, 4))
    whole = relay.concatenate([x, y], axis=1)
    rows = relay.reshape(whole, newshape=(2 * (n + 1), 4), allowzero=True)
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, y], relay.nn.softmax(rows)), target="llvm"))
    for size in (0, 1, 5):
        a, b = np.random.default_rng(0).standard_normal((2, size, 4)).astype("float32"), np.ones((2, 1, 4), "float32")
        e = np.exp(np.concatenate([a, b], 1).reshape(2 * (size + 1), 4))
        np.testing.assert_allclose(machine.run(a, b).numpy(), e / e.sum(1, keepdims=True), rtol=1e-5)
        names = kernels_run(machine, a, b)
        assert "vm.builtin.reshape" in names
        assert not [name for name in names if name.startswith("reshape")]


def test_a_reshape_that_is_returned_is_no_view_of_an_input() -> None:
    x = relay.var("x", shape=(n, 4))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.reshape(x, newshape=(-1, 2)))))
    tensor = machine.run(np.zeros((3, 4), "float32"))
    source = np.zeros((3, 4), "float32")
    result = machine.run(source)
    source[...] = 1
    np.testing.assert_array_equal(result.numpy(), np.zeros((6, 2)))
    np.testing.assert_array_equal(tensor.numpy(), np.zeros((6, 2)))


def test_a_reshape_of_what_the_program_made_is_returned_as_a_view_and_a_second_one_as_a_copy() -> None:
    x = relay.var("x", shape=(n, 4))
    sums = relay.cumsum(x, axis=0)  # nothing fuses with it
    both = relay.Tuple([relay.reshape(sums, newshape=(-1, 2)), relay.reshape(sums, newshape=(2, -1))])
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], both)))
    ones = np.ones((3, 4), "float32")
    first, second = machine.run(ones)
    expected = np.repeat([1, 2, 3], 4)
    machine.run(2 * ones)
    np.testing.assert_array_equal(first.numpy(), expected.reshape(6, 2))
    np.testing.assert_array_equal(second.numpy(), expected.reshape(2, 6))
    assert not np.shares_memory(np.from_dlpack(first), np.from_dlpack(second))
    names = kernels_run(machine, ones)
    assert len([name for name in names if name.startswith("reshape")]) == 1
    assert machine.run(np.ones((0, 4), "float32"))[1].numpy().shape == (2, 0)


def test_a_reshape_over_unknown_sizes_is_a_view_behind_sizes_that_data_tell_and_a_copy_where_it_is_returned() -> None:
    x, shape = relay.var("x", shape=[relay.Any()] * 5), relay.var("shape", shape=(5,), dtype="int64")
    whole = relay.reshape(x, shape, allowzero=True)
    # What comes between the view and its reader divides the program into parts.
    counted = relay.reshape(relay.cast(relay.argwhere(whole), "float32"), (-1,))
    function = relay.Function([x, shape], relay.Tuple([relay.add(relay.exp(whole), relay.sum(counted)), whole]))
    with vmkit.PassContext(disabled_pass=["GroupKernels"]):
        machine = vmkit.VirtualMachine(vmkit.compile(function, target="llvm"))
    for before, after in (((2, 3, 1, 2, 2), (4, 1, 3, 2, 1)), ((1, 1, 0, 2, 3), (3, 0, 1, 1, 1))):
        a = np.random.default_rng(0).random(before, "float32")
        result, returned = machine.run(a, np.array(after))
        wanted = a.reshape(after).copy()
        np.testing.assert_allclose(result.numpy(), np.exp(wanted) + np.argwhere(wanted).sum(), rtol=1e-5)
        names = kernels_run(machine, a, np.array(after))
        assert [name for name in names if "reshape_" in name] == ["reshape_target", "dyn_reshape_tensor"]
        a[...] = 7
        np.testing.assert_array_equal(returned.numpy(), wanted)


def test_a_field_of_a_result_is_no_view_of_an_input() -> None:
    x, y = relay.var("x", shape=[relay.Any()] * 3), relay.var("y", shape=(1, 2, 3))
    shape = relay.var("shape", shape=(3,), dtype="int64")
    fields = [relay.reshape(x, shape), relay.reshape(x, (-1,)), relay.reshape(y, (6,)), relay.expand_dims(y, 0)]
    results = relay.Tuple([*fields, *map(relay.exp, fields)])
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, y, shape], results)))
    a, b = (np.arange(6, dtype="float32").reshape(1, 2, 3) for _ in "xy")
    returned = machine.run(a, b, np.array([3, 1, 2]))
    a[...] = b[...] = 7
    for field, shape_of_it in zip(returned, [(3, 1, 2), (6,), (6,), (1, 1, 2, 3)], strict=False):
        np.testing.assert_array_equal(field.numpy(), np.arange(6).reshape(shape_of_it))


def test_a_shuffle_of_channels_is_one_kernel_for_any_number_of_images() -> None:
    x = relay.var("x", shape=(n, 6, 5, 4))
    groups = relay.reshape(relay.exp(x), newshape=(-1, 2, 3, 5, 4))
    shuffled = relay.reshape(relay.transpose(groups, axes=[0, 2, 1, 3, 4]), newshape=(-1, 6, 5, 4))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.negative(shuffled)), target="llvm"))
    for size in (1, 3):
        a = np.random.default_rng(size).random((size, 6, 5, 4), "float32")
        expected = -np.exp(a).reshape(size, 2, 3, 5, 4).swapaxes(1, 2).reshape(a.shape)
        np.testing.assert_allclose(machine.run(a).numpy(), expected, rtol=1e-6)
    names = kernels_run(machine, a)
    assert len([name for name in names if name.startswith("fused_")]) == 1
    assert not [name for name in names if "reshape" in name and not name.startswith("fused_")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((6,), (3, 2)),
        ((3, 2), (6,)),
        ((), (1,)),
        ((1, 1), ()),
        ((2, 3, 4), (4, 3, 2)),
        ((5,), (5,)),
        ((2, 6), (2, 3, 2)),
        ((1, 6, 1, 4), (3, 2, 4, 1)),
        ((4, 1, 6), (2, 12)),
        ((2, 3, 5), (1, 6, 1, 5, 1)),
    ],
)
def test_reshapes_behind_a_size_known_at_run_time_keep_the_order_of_elements(before: Any, after: Any) -> None:
    x = relay.var("x", shape=(n, *before))
    # A transpose before and after makes kernels of what would be views.
    turned = relay.transpose(relay.reverse(x, axis=0))
    whole = relay.reshape(relay.transpose(turned), newshape=(n, *after), allowzero=True)
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.transpose(whole)), target="llvm"))
    for size in (1, 4):
        a = np.arange(size * int(np.prod(before)), dtype="float32").reshape(size, *before)
        np.testing.assert_array_equal(machine.run(a).numpy(), a[::-1].reshape(size, *after).T)


@pytest.mark.parametrize(("shape", "divisions"), [((4, 6, 5), 0), ((4, 3, 2, 5), 0), ((1, 24, 1, 5, 1), 1)])
def test_axes_that_stay_are_not_counted_together(shape: tuple[int, ...], divisions: int) -> None:
    x = te.placeholder((1, 4, 6, 5), "float32")
    made = views._reshape(x, [tirx.IntImm("int64", size) for size in shape], 0)
    body = str(te.create_prim_func([x, made])).split("T.writes")[0].split("T.reads")[1]
    assert body.count("//") == body.count("%") == divisions


def test_reshapes_of_what_is_empty_behind_an_unknown_size() -> None:
    n = tirx.Var("n", "int64")
    x = relay.var("x", shape=(n, 0, 4))
    y = relay.exp(relay.reshape(relay.exp(x), (n, 0, 2, 2)))
    executable = vmkit.compile(relay.Function([x], y), target="llvm")
    assert vmkit.VirtualMachine(executable).run(np.empty((3, 0, 4), "float32")).numpy().shape == (3, 0, 2, 2)


def test_a_tile_that_tvms_arithmetic_fails_for_is_no_view() -> None:
    x, w = relay.var("x", shape=(1, 4, 2, 2, relay.Any())), np.random.default_rng(0).random((4, 4, 3, 3, 3), "float32")
    given = np.random.default_rng(1).random((1, 4, 2, 2, 5), "float32")
    fixed = relay.var("x", shape=given.shape)
    found, expected = (
        vmkit.VirtualMachine(vmkit.compile(relay.Function([p, v], relay.nn.conv3d_transpose(p, v)), "llvm")).run(
            given, w
        )
        for p in (x, fixed)
        for v in [relay.var("w", shape=w.shape)]
    )
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)


def test_reshapes_of_equal_known_sizes_are_one_kernel_that_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Any] = []
    call_te = relax.BlockBuilder.call_te
    monkeypatch.setattr(
        relax.BlockBuilder, "call_te", lambda self, f, *a, **k: (noted.append(k), call_te(self, f, *a, **k))[1]
    )
    x = relay.var("x", shape=(4, 6))
    value: relay.Expr = x
    for shape in ((6, 4), (4, 6)) * 3 + ((24,),):
        value = relay.tanh(relay.reshape(value, shape))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], value), "llvm"))
    assert [k["primfunc_name_hint"] for k in noted].count("reshape_tensor") == 3
    given = np.linspace(-1, 1, 24, dtype="float32").reshape(4, 6)
    expected = given.astype("float64").reshape(-1)
    for _ in range(7):
        expected = np.tanh(expected)
    np.testing.assert_allclose(machine.run(given).numpy(), expected, rtol=1e-5)
