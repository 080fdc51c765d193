"""Concatenations of what another one has as well read its result, where kernels are shared by sizes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.relay.ir import Expr

SHAPES = ((2, 3, 5), (2, 1, 5), (2, 4, 5), (2, 2, 5))


def inputs() -> list[relay.Var]:
    return [relay.var(name, shape=shape) for name, shape in zip("abcd", SHAPES, strict=True)]


def extended(body: Expr, given: list[relay.Var], shares_kernels: bool = True) -> relay.Function:
    module = tvm.IRModule({"main": relay.Function(given, body)})
    return optimize.ExtendConcatenations(shares_kernels)(relay.transform.InferType()(module))["main"]


def counts(function: relay.Function) -> list[int]:
    """Return how many inputs each concatenation has, the smallest first."""
    found = []

    def note(node: Expr) -> None:
        if isinstance(node, relay.Call) and getattr(node.op, "name", "") == "concatenate":
            found.append(len(node.args[0].fields))

    relay.analysis.post_order_visit(function, note)
    return sorted(found)


def grown(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    """Return layers each of which reads all before it, and one that reads new ones first."""
    first = relay.concatenate([a, b], 1)
    second = relay.concatenate([a, b, relay.exp(c)], 1)
    exp = relay.exp(d)
    return relay.Tuple([relay.nn.relu(first), relay.nn.relu(second), relay.concatenate([exp, a, b], 1)])


def test_a_concatenation_goes_on_from_another_one_or_leads_up_to_it() -> None:
    given = inputs()
    c = relay.exp(given[2])
    third = relay.concatenate([*given[:2], c, given[3]], 1)
    body = relay.Tuple(
        [
            relay.concatenate(given[:2], 1),
            relay.concatenate([*given[:2], c], 1),
            third,
            relay.concatenate([c, *given[:2]], 1),
        ]
    )
    assert counts(extended(body, given)) == [2, 2, 2, 2]
    assert counts(extended(body, given, shares_kernels=False)) == [2, 3, 3, 4]


def test_others_stay_as_they_are() -> None:
    given = inputs()
    same = [relay.var(name, shape=(2, 3)) for name in "xyz"]
    condition = relay.var("condition", shape=(), dtype="bool")
    branch = relay.If(condition, relay.concatenate(given[:2], 1), given[0])
    for body in (
        relay.Tuple([relay.concatenate(given[:2], 1), relay.concatenate(given[1:], 1)]),
        relay.Tuple([relay.concatenate(same[:2], 0), relay.concatenate(same, 1)]),
        relay.Tuple([branch, relay.concatenate(given[:3], 1)]),  # the branch may not be taken
    ):
        assert counts(extended(body, [*given, *same, condition])) == [2, 3]


@pytest.mark.parametrize("opt_level", [1, 3])
def test_values_at_both_levels(opt_level: int) -> None:
    given = inputs()
    module = tvm.IRModule({"main": relay.Function(given, grown(*given))})
    with vmkit.PassContext(opt_level=opt_level):
        machine = vmkit.VirtualMachine(vmkit.compile(module), "cpu")
    a, b, c, d = (np.random.default_rng(0).uniform(-1, 1, shape).astype("float32") for shape in SHAPES)
    first, second = np.concatenate([a, b], 1), np.concatenate([a, b, np.exp(c)], 1)
    expected = (np.maximum(first, 0), np.maximum(second, 0), np.concatenate([np.exp(d), a, b], 1))
    for result, wanted in zip(machine.run(a, b, c, d), expected, strict=True):
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-6)
