"""Lowered programs give Relay's values: unknown dimensions, branches, calls, recursion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay.lower import lower_module
from vmkit.relay.transform import infer_module

Any = relay.Any


def machine(functions: relay.Function | dict[object, relay.Function]) -> vmkit.VirtualMachine:
    mod = tvm.IRModule(functions if isinstance(functions, dict) else {"main": functions})
    return vmkit.VirtualMachine(vmkit.compile(mod, target="llvm"))


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.fixture(scope="module")
def sum_of_unknown() -> vmkit.VirtualMachine:
    x, y = relay.var("x", shape=(Any(), Any())), relay.var("y", shape=(Any(), Any()))
    return machine(relay.Function([x, y], relay.tanh(x + y)))


@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3), (2, 3)), ((2, 3), (1, 3)), ((2, 1), (2, 3)), ((1, 1), (4, 5)), ((0, 3), (1, 3)), ((0, 1), (1, 7))],
)
def test_unknown_dimensions_broadcast_as_numpy(sum_of_unknown: vmkit.VirtualMachine, a: tuple, b: tuple) -> None:
    x, y = numbers(*a), numbers(*b)
    np.testing.assert_allclose(sum_of_unknown.run(x, y).numpy(), np.tanh(x + y), rtol=1e-5)


@pytest.mark.parametrize(("a", "b", "position"), [((2, 3), (3, 3), 0), ((2, 3), (2, 4), 1), ((0, 3), (2, 3), 0)])
def test_unknown_dimensions_that_do_not_broadcast_are_an_error(
    sum_of_unknown: vmkit.VirtualMachine, a: tuple, b: tuple, position: int
) -> None:
    with pytest.raises(VMError, match=rf"main failed: add: dimension {position} is \d in one input and \d in another"):
        sum_of_unknown.run(numbers(*a), numbers(*b))
    np.testing.assert_allclose(sum_of_unknown.run(numbers(1, 1), numbers(1, 1)).numpy(), [[0.0]])


def test_broadcast_of_three_unknown_shapes() -> None:
    c, x, y = (
        relay.var("c", shape=(Any(),), dtype="bool"),
        relay.var("x", shape=(Any(),)),
        relay.var("y", shape=(Any(),)),
    )
    vm = machine(relay.Function([c, x, y], relay.where(c, x, y)))
    flags, values, one = np.array([True, False, True]), numbers(3), np.array([9.0], "float32")
    np.testing.assert_array_equal(vm.run(flags, values, one).numpy(), np.where(flags, values, one))
    np.testing.assert_array_equal(vm.run(np.array([True]), one, values).numpy(), [9.0, 9.0, 9.0])
    with pytest.raises(VMError, match="where: dimension 0"):
        vm.run(flags, values, numbers(2))


def test_a_fixed_dimension_beside_an_unknown_one_is_checked() -> None:
    x = relay.var("x", shape=(Any(),))
    vm = machine(relay.Function([x], x + relay.const(numbers(3))))
    np.testing.assert_array_equal(vm.run(np.array([1.0], "float32")).numpy(), [1.0, 2.0, 3.0])
    with pytest.raises(VMError, match="add: dimension 0 is 2 in one input and 3 in another"):
        vm.run(numbers(2))


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [((2, 6), [3, 4], (3, 4)), ((2, 6), [-1, 2], (6, 2)), ((2, 6), [0, -1], (2, 6)), ((0, 6), [0, 6], (0, 6))],
)
def test_reshape_to_a_shape_read_at_run_time(shape: tuple, target: list[int], expected: tuple) -> None:
    x, s = relay.var("x", shape=(Any(), 6)), relay.var("s", shape=(2,), dtype="int64")
    vm = machine(relay.Function([x, s], relay.reshape(x, s) * relay.const(2.0)))
    values = numbers(*shape)
    np.testing.assert_array_equal(vm.run(values, np.array(target)).numpy(), values.reshape(expected) * 2)
    with pytest.raises(VMError, match="the new shape holds 25 elements, the input"):
        vm.run(values, np.array([5, 5]))


def test_branches_of_different_sizes() -> None:
    c, x, y = relay.var("c", "bool"), relay.var("x", shape=(Any(),)), relay.var("y", shape=(Any(),))
    vm = machine(relay.Function([c, x, y], relay.exp(relay.If(c, x, relay.reshape(y, (-1,)))) + relay.const(1.0)))
    np.testing.assert_allclose(vm.run(True, numbers(2), numbers(3)).numpy(), np.exp(numbers(2)) + 1, rtol=1e-5)
    np.testing.assert_allclose(vm.run(False, numbers(2), numbers(3)).numpy(), np.exp(numbers(3)) + 1, rtol=1e-5)


def test_a_branch_that_is_not_taken_is_not_run() -> None:
    i, loop = relay.var("i", "int32"), relay.GlobalVar("loop")
    endless = relay.Function([i], relay.Call(loop, [i]) + relay.const(1), relay.scalar_type("int32"))
    k = relay.var("k", "int32")
    main = relay.Function([k], relay.If(relay.less(k, relay.const(5)), k, relay.Call(loop, [k])))
    assert machine({loop: endless, "main": main}).run(3).numpy() == 3


def test_tuples_nest_and_come_back_as_tuples() -> None:
    x = relay.var("x", shape=(Any(),))
    pair = relay.Tuple([x, relay.Tuple([relay.exp(x), relay.Tuple([])])])
    result = machine(relay.Function([x], pair)).run(numbers(2))
    assert isinstance(result, tuple) and isinstance(result[1], tuple) and result[1][1] == ()
    np.testing.assert_allclose(result[1][0].numpy(), np.exp(numbers(2)), rtol=1e-6)


def test_a_tuple_parameter_is_taken_apart() -> None:
    pair = relay.var("pair", relay.TupleType([relay.TensorType((Any(),)), relay.TensorType((Any(),))]))
    vm = machine(relay.Function([pair], pair[0] * pair[1]))
    np.testing.assert_array_equal(vm.run((numbers(3), numbers(3))).numpy(), numbers(3) ** 2)


def countdown(tail: bool) -> dict[object, relay.Function]:
    """A recursion that counts its levels, with the addition after the call or before it."""
    count = relay.GlobalVar("count")
    i, total = relay.var("i", "int32"), relay.var("total", "int32")
    one = relay.const(1)
    after = relay.Call(count, [i - one, total]) + one
    again = relay.Call(count, [i - one, total + one]) if tail else after
    body = relay.If(relay.equal(i, relay.const(0)), total, again)
    k = relay.var("k", "int32")
    return {
        count: relay.Function([i, total], body, relay.scalar_type("int32")),
        "main": relay.Function([k], relay.Call(count, [k, relay.const(0)])),
    }


def test_recursion_goes_100_000_levels_deep() -> None:
    assert machine(countdown(tail=False)).run(100_000).numpy() == 100_000


def test_a_tail_call_is_a_loop() -> None:
    assert machine(countdown(tail=True)).run(300_000).numpy() == 300_000


def test_endless_recursion_is_an_error() -> None:
    mod = tvm.IRModule(countdown(tail=False))
    exe = vmkit.compile(mod, target="llvm")
    exe.info = replace(exe.info, stack_bytes=32 << 20)
    with pytest.raises(VMError, match="the recursion is too deep for a stack of 32 MiB"):
        vmkit.VirtualMachine(exe).run(-1)


def test_mutual_recursion_with_growing_shapes() -> None:
    even, odd = relay.GlobalVar("even"), relay.GlobalVar("odd")
    functions = {}
    for own, other, mark in ((even, odd, 0.0), (odd, even, 1.0)):
        i, x = relay.var("i", "int32"), relay.var("x", shape=(Any(),))
        grown = relay.concatenate([x, relay.const(np.array([mark], "float32"))], axis=0)
        body = relay.If(relay.equal(i, relay.const(0)), x, relay.Call(other, [i - relay.const(1), grown]))
        functions[own] = relay.Function([i, x], body, relay.TensorType((Any(),)))
    k = relay.var("k", "int32")
    functions["main"] = relay.Function([k], relay.Call(even, [k, relay.const(np.zeros((0,), "float32"))]))
    np.testing.assert_array_equal(machine(functions).run(5).numpy(), [0, 1, 0, 1, 0])


def test_functions_of_the_same_type_stay_apart() -> None:
    x, y, z = (relay.var(name, shape=(2,)) for name in "xyz")
    f, g = relay.GlobalVar("f"), relay.GlobalVar("g")
    functions = {f: relay.Function([x], relay.exp(x)), g: relay.Function([y], relay.negative(y))}
    functions["main"] = relay.Function([z], relay.Tuple([relay.Call(f, [z]), relay.Call(g, [z])]))
    first, second = machine(functions).run(numbers(2))
    np.testing.assert_allclose(first.numpy(), np.exp(numbers(2)), rtol=1e-6)
    np.testing.assert_array_equal(second.numpy(), -numbers(2))


def test_operators_of_no_elements_compute_nothing() -> None:
    """A result of known sizes with a 0 among them is that: no operator divides by its sizes while it is lowered."""
    image, rows = relay.var("image", shape=(2, 4, 0, 3)), relay.var("rows", shape=(0, 4))
    weights = relay.const(np.ones(4, "float32"))
    kernel = relay.const(np.ones((4, 3, 3, 3), "float32"))
    results = [
        relay.nn.instance_norm(image, weights, weights),
        relay.nn.group_norm(image, weights, weights, num_groups=2),
        relay.nn.layer_norm(rows, weights, weights),
        relay.nn.softmax(rows),
        relay.nn.conv2d_transpose(relay.nn.relu(image), kernel, channels=3, kernel_size=(3, 3), padding=(1, 1)),
        relay.nn.dense(rows, relay.const(np.ones((5, 4), "float32"))),
        relay.sum(rows, axis=0),
    ]
    function = relay.Function([image, rows], relay.Tuple(results))
    found = machine(function).run(np.zeros((2, 4, 0, 3), "float32"), np.zeros((0, 4), "float32"))
    assert [r.shape for r in found] == [(2, 4, 0, 3), (2, 4, 0, 3), (0, 4), (0, 4), (2, 3, 0, 3), (0, 5), (4,)]
    assert found[-1].numpy().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("text", "shape"), [
    ('contrib_string_to_number(%0, dtype="float32")', (0,)),
    ('contrib_full_match(%0, pattern="[02]")', (0,)),
    ("contrib_string_split(%0)", (0, 0)),
    ("%0", (0,)),
])  # fmt: skip
def test_texts_of_no_elements(text: str, shape: tuple[int, ...]) -> None:
    body = f"%0 = contrib_string_from_number(%x); {text}"
    program = relay.parse(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(0), int64]) {{ {body} }}')
    found = vmkit.VirtualMachine(vmkit.compile(program, "llvm")).run(np.zeros(0, "int64"))
    assert (found[0] if isinstance(found, list | tuple) else found).shape == shape


def test_named_dimensions_are_one_symbol_in_relax() -> None:
    n = tvm.tirx.Var("n", "int64")
    x, y = relay.var("x", shape=(n, 4)), relay.var("y", shape=(n, 4))
    lowered = lower_module(infer_module(tvm.IRModule({"main": relay.Function([x, y], x * y + x)})))
    params = lowered.module["main"].params
    assert params[0].ty.shape[0].same_as(params[1].ty.shape[0])
    assert lowered.messages == {}


def test_a_deep_program_compiles_and_runs() -> None:
    x = relay.var("x", shape=(Any(),))
    expr = x
    for _ in range(1_500):
        expr = expr + relay.const(1.0)
    np.testing.assert_array_equal(machine(relay.Function([x], expr)).run(numbers(2)).numpy(), [1500, 1501])


def kernels_called(function: relay.Function) -> int:
    exe = vmkit.compile(function, target="llvm")
    return exe.bytecode.count("dense")


def test_what_both_branches_share_is_computed_once() -> None:
    x, c = relay.var("x", shape=(Any(), 4)), relay.var("c", "bool")
    weight = relay.const(np.eye(4, dtype="float32"))
    shared = relay.nn.dense(x, weight)
    function = relay.Function([x, c], relay.If(c, relay.exp(shared), relay.negative(shared)))
    assert kernels_called(function) == 1
    np.testing.assert_array_equal(machine(function).run(numbers(2, 4), False).numpy(), -numbers(2, 4))


def test_what_a_branch_shares_with_what_follows_is_computed_once() -> None:
    x, c = relay.var("x", shape=(Any(), 4)), relay.var("c", "bool")
    shared = relay.nn.dense(x, relay.const(np.eye(4, dtype="float32")))
    function = relay.Function([x, c], relay.add(relay.If(c, relay.exp(shared), x), shared))
    assert kernels_called(function) == 1
    np.testing.assert_allclose(
        machine(function).run(numbers(1, 4), True).numpy(), np.exp(numbers(1, 4)) + numbers(1, 4), rtol=1e-6
    )


def test_what_one_branch_needs_stays_in_it() -> None:
    x, c, d = relay.var("x", shape=(2,)), relay.var("c", "bool"), relay.var("d", "bool")
    i, loop = relay.var("i", "int32"), relay.GlobalVar("loop")
    endless = relay.Function([i], relay.Call(loop, [i]), relay.scalar_type("int32"))
    never = relay.cast(relay.Call(loop, [relay.const(0)]), "float32") * x
    inner = relay.If(d, never + x, never - x)
    main = relay.Function([x, c, d], relay.If(c, x, inner))
    np.testing.assert_array_equal(
        machine({loop: endless, "main": main}).run(numbers(2), True, True).numpy(), numbers(2)
    )


def test_a_chain_of_branches_grows_with_its_length() -> None:
    x, c = relay.var("x", shape=(Any(),)), relay.var("c", "bool")
    value = x
    for _ in range(40):
        value = relay.If(c, value + relay.const(1.0), value * relay.const(2.0))
    vm = machine(relay.Function([x, c], value))
    np.testing.assert_array_equal(vm.run(numbers(3), True).numpy(), numbers(3) + 40)
    np.testing.assert_allclose(vm.run(numbers(3), False).numpy(), numbers(3) * 2.0**40)


def test_a_let_between_branches_keeps_its_order() -> None:
    x, c, y = relay.var("x", shape=(Any(),)), relay.var("c", "bool"), relay.var("y", shape=(Any(),))
    double = y + y
    body = relay.Let(y, relay.exp(x), relay.If(c, double, relay.Tuple([double])[0] * y))
    np.testing.assert_allclose(
        machine(relay.Function([x, c], body)).run(numbers(2), False).numpy(), 2 * np.exp(numbers(2)) ** 2, rtol=1e-5
    )


def test_a_constant_without_elements_is_a_value_like_others() -> None:
    x, empty = relay.var("x", shape=(2, Any())), relay.const(np.zeros((2, 0), "float32"))
    results = machine(relay.Function([x], relay.Tuple([empty, relay.concatenate([empty, x], 1)]))).run(numbers(2, 3))
    assert results[0].numpy().shape == (2, 0)
    np.testing.assert_array_equal(results[1].numpy(), numbers(2, 3))
