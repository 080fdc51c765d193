"""Gradients agree with finite differences, for every operator that has one, and through control flow and calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.ir import Op

import vmkit
from tests.relay.transform.gradient_cases import CASES, Case, V
from vmkit import relay
from vmkit.compat.check_grad import check_grad
from vmkit.errors import ModelError, OptionError, TypeCheckError
from vmkit.relay.ir import post_order
from vmkit.relay.op import REGISTRY
from vmkit.relay.op.attached import PRIMAL_GRADIENT, attached
from vmkit.relay.transform import gradient

FAST = {f"fast_{name}": getattr(np, name, None) for name in ("exp", "tanh", "erf")} | {"nn.fast_softmax": None}


def differentiable() -> list[str]:
    return sorted(name for name in REGISTRY if attached(Op.get(name), PRIMAL_GRADIENT))


def test_every_operator_with_a_gradient_has_a_case() -> None:
    assert sorted({*CASES, *FAST}) == differentiable()


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_that_of_finite_differences(name: str) -> None:
    check(CASES[name][0])


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "number"), [(name, i) for name, cases in CASES.items() for i in range(1, len(cases))])
def test_gradients_by_other_attributes_are_those_of_finite_differences(name: str, number: int) -> None:
    check(CASES[name][number])


def check(case: Case) -> None:
    check_grad(case.function(), case.inputs(), eps=1e-5, atol=1e-6, rtol=1e-5)


def computed(function: relay.Function, *inputs: Any, module: tvm.IRModule | None = None) -> list[Any]:
    """Return the gradients of a function."""
    made = gradient(function, module)
    return list(vmkit.VirtualMachine(vmkit.compile(made), "cpu").run(*inputs)[1])


@pytest.mark.parametrize("name", FAST)
def test_fast_functions_have_the_gradients_of_exact_ones(name: str) -> None:
    x = relay.var("x", shape=V)
    value = np.random.default_rng(1).uniform(-1, 1, V).astype("float32")
    plain = REGISTRY[name.replace("fast_", "")].builder
    builders = (REGISTRY[name].builder, plain)
    fast, exact = (computed(relay.Function([x], f(x) * f(x)), value)[0].numpy() for f in builders)
    np.testing.assert_allclose(fast, exact, atol=2e-5)


def test_a_network_of_two_layers_trains() -> None:
    generator = np.random.default_rng(0)
    x, y = relay.var("x", shape=(8, 4)), relay.var("y", shape=(8, 3))
    first, second = relay.var("first", shape=(6, 4)), relay.var("second", shape=(3, 6))
    scores = relay.nn.dense(relay.nn.relu(relay.nn.dense(x, first)), second)
    loss = relay.nn.cross_entropy_with_logits(relay.nn.log_softmax(scores), y)
    machine = vmkit.VirtualMachine(vmkit.compile(gradient(relay.Function([x, y, first, second], loss))), "cpu")
    data = generator.normal(size=(8, 4)).astype("float32")
    labels = np.eye(3, dtype="float32")[np.arange(8) % 3]
    weights = [generator.normal(size=s).astype("float32") for s in ((6, 4), (3, 6))]
    losses = []
    for _ in range(600):
        value, grads = machine.run(data, labels, *weights)
        losses.append(float(value.numpy()))
        weights = [w - np.float32(0.5) * g.numpy() for w, g in zip(weights, list(grads)[2:], strict=True)]
    assert losses[0] > 1 and losses[-1] < 0.2 * losses[0]


def test_branches_are_differentiated_where_they_are_taken() -> None:
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(3,), dtype="float64")
    shared = relay.exp(x)
    # The logarithm of what is negative stands in one branch alone.
    branches = relay.If(
        c, relay.log(x) * shared, relay.If(relay.less(relay.sum(x), relay.const(0.0, "float64")), shared, x)
    )
    function = relay.Function([c, x], branches * branches)
    value = np.array([0.5, 1.5, 2.0])
    v = np.log(value) * np.exp(value)
    of_c, of_x = computed(function, True, value)
    assert of_c.numpy() == np.False_
    np.testing.assert_allclose(of_x.numpy(), 2 * v * (np.exp(value) / value + v), rtol=1e-12)
    np.testing.assert_allclose(computed(function, False, value)[1].numpy(), 2 * value, rtol=1e-12)
    np.testing.assert_allclose(computed(function, False, -value)[1].numpy(), 2 * np.exp(-2 * value), rtol=1e-12)


def test_a_chain_of_branches_is_as_long_as_the_program() -> None:
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(3,), dtype="float64")
    value: relay.Expr = x
    for _ in range(40):
        value = relay.If(c, value * value, value + relay.sin(value))
    made = gradient(relay.Function([c, x], value))
    assert sum(1 for _ in post_order(made)) < 2000


def test_lets_functions_and_global_functions_are_taken_in() -> None:
    x, y, v = (relay.var(name, shape=(3,), dtype="float64") for name in "xyv")
    k = relay.var("k", shape=(), dtype="float64")
    module = tvm.IRModule()
    cube = relay.GlobalVar("cube")
    module[cube] = relay.Function([y], y * y * y)
    scaled = relay.Var("scaled")
    inner = relay.Function([v], v * k)  # a closure over k
    body = relay.Let(scaled, inner, relay.Call(scaled, [relay.Call(cube, [x])]) + relay.Call(scaled, [x]))
    module["main"] = relay.Function([x, k], body)
    value = np.array([0.5, -1.0, 2.0])
    of_x, of_k = computed(module["main"], value, np.float64(3.0), module=module)
    np.testing.assert_allclose(of_x.numpy(), 3 * (3 * value**2 + 1), rtol=1e-12)
    np.testing.assert_allclose(of_k.numpy(), np.sum(value**3 + value), rtol=1e-12)
    by_name = gradient(module.get_global_var("main"), module)
    assert tvm_ffi.structural_equal(by_name, gradient(module["main"], module))


def test_tuples_of_tensors_and_unused_and_integer_parameters() -> None:
    pair = relay.Var("pair", relay.TupleType([relay.TensorType((2,)), relay.TensorType((2,))]))
    unused, places = relay.var("unused", shape=(2, 2)), relay.var("places", shape=(2,), dtype="int32")
    first = relay.TupleGetItem(pair, 0)
    function = relay.Function([pair, unused, places], relay.Tuple([first * first, relay.take(first, places)]))
    a = np.array([1.0, 2.0], "float32")
    of_pair, of_unused, of_places = computed(function, (a, a), np.ones((2, 2), "float32"), np.array([1, 1], "int32"))
    assert [part.numpy().tolist() for part in of_pair] == [[2, 6], [0, 0]]
    assert of_unused.numpy().tolist() == [[0, 0], [0, 0]]
    assert of_places.numpy().tolist() == [0, 0] and of_places.dtype == "int32"


def test_the_gradient_of_a_gradient() -> None:
    x = relay.var("x", shape=(3,), dtype="float64")
    first = gradient(relay.Function([x], relay.sum(relay.sigmoid(x) * x)))
    of_x = relay.TupleGetItem(relay.TupleGetItem(first.body, 1), 0)
    value = np.array([0.5, -1.0, 2.0])
    s = 1 / (1 + np.exp(-value))
    (found,) = computed(relay.Function(first.params, of_x), value)
    np.testing.assert_allclose(found.numpy(), s * (1 - s) * (2 + value * (1 - 2 * s)), rtol=1e-12)


def test_sizes_that_only_the_run_knows() -> None:
    x, w = relay.var("x", shape=(relay.Any(), 4)), relay.var("w", shape=(3, 4))
    function = relay.Function([x, w], relay.mean(relay.tanh(relay.nn.dense(x, w)), axis=[0, 1]))
    a, b = (np.random.default_rng(i).normal(size=s).astype("float32") for i, s in enumerate([(5, 4), (3, 4)]))
    of_x, of_w = computed(function, a, b)
    slope = (1 - np.tanh(a @ b.T) ** 2) / 15
    np.testing.assert_allclose(of_x.numpy(), slope @ b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(of_w.numpy(), slope.T @ a, rtol=1e-4, atol=1e-6)


def test_a_gradient_of_a_script_is_taken() -> None:
    x = relay.var("x", shape=(3,), dtype="float64")
    function = relay.Function([x], relay.tan(x))
    with_level = relay.op.register_gradient("tan", level=11)
    with_level(lambda call, grad: [grad * call])
    try:
        (found,) = computed(function, np.array([0.1, 0.2, 0.3]))
    finally:
        Op.get("tan").reset_attr(PRIMAL_GRADIENT)
        relay.op.register_gradient("tan", lambda call, grad: [grad * (relay.const(1.0, "float64") + call * call)])
    np.testing.assert_allclose(found.numpy(), np.tan([0.1, 0.2, 0.3]), rtol=1e-12)


def test_the_function_itself_does_not_change() -> None:
    x = relay.var("x", shape=(3,))
    call = relay.exp(x)
    made = gradient(relay.Function([x], call))
    assert call.checked_type_ is None
    assert made.params[0] is not x and list(made.checked_type.arg_types) == [relay.TensorType((3,))]


def test_what_has_no_gradient_is_said() -> None:
    x = relay.var("x", shape=(3,))
    f = relay.Var("f", relay.FuncType([relay.TensorType((3,))], relay.TensorType((3,))))
    c = relay.var("c", shape=(), dtype="bool")
    loop = relay.Var("loop")
    endless = relay.Let(loop, relay.Function([x], relay.Call(loop, [x]), relay.TensorType((3,))), relay.Call(loop, [x]))
    for function, options, kind, text in (
        (relay.Function([x], relay.cumprod(x)), {}, ModelError, "operator cumprod has no gradient; attach one"),
        (relay.Function([x, f], relay.Call(f, [x])), {}, ModelError, "which function that is, is not known"),
        (relay.Function([x], endless), {}, ModelError, "loop calls itself"),
        (relay.Function([x], relay.RefRead(relay.RefCreate(x))), {}, ModelError, "of tensors alone"),
        (relay.Function([c, x], relay.If(c, x, x)), {"mode": "first_order"}, ModelError, "takes no If"),
        (relay.Function([x], x), {"mode": "second"}, OptionError, "mode must be one of 'higher_order', 'first_order'"),
        (x, {}, ModelError, "of a Function or GlobalVar, not of a Var"),
    ):
        with pytest.raises(kind, match=text):
            gradient(function, **options)
    with pytest.raises(TypeCheckError, match="no operator 'tann'"):
        relay.op.register_gradient("tann", lambda call, grad: [grad])
