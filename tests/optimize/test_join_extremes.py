"""Both extremes of a tensor found together: values beside numpy, sizes known and unknown, and what stays alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.errors import TypeCheckError
from vmkit.relay import transform
from vmkit.relay.ir import Call, Op, post_order
from vmkit.relay.op.registry import build

FOUND = "contrib_extremes"
TARGETS = ("native", "llvm -mcpu=x86-64-v3")
SIZES = ((0,), (63,), (65,), (7, 11), (3, 0, 2), (32769,), (3, 50001))


def both_of(x: Any, **options: Any) -> tvm.IRModule:
    body = relay.Tuple([relay.max(x, **options), relay.min(x, **options)])
    return transform.InferType()(tvm.IRModule({"main": relay.Function([x], body)}))


def names_in(mod: tvm.IRModule) -> list[str]:
    nodes = post_order(optimize.JoinExtremes()(mod)["main"])
    return [node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, Op)]


def hard_numbers(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Return tensors of plain numbers, of zeros, of ones that are none or infinite, and of all of these."""
    random = np.random.default_rng(0)
    plain = random.standard_normal(shape).astype("float32")
    spoiled, infinite = plain.copy(), plain * np.float32(5e37)
    spoiled[random.random(shape) < 0.5] = np.nan
    infinite.flat[infinite.size // 2 : infinite.size // 2 + 1] = -np.inf
    return [plain, -abs(plain), np.zeros_like(plain), spoiled, infinite, np.full_like(plain, np.nan)]


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_known", [True, False])
def test_both_extremes_are_those_of_the_numbers(target: str, is_known: bool) -> None:
    for shape in SIZES:
        mod = both_of(relay.var("x", shape=shape if is_known else tuple(relay.Any() for _ in shape)))
        assert names_in(mod) == [FOUND]
        machine = vmkit.VirtualMachine(vmkit.compile(mod, target), "cpu")
        for data in hard_numbers(shape):
            numbers = data[~np.isnan(data)]
            expected = (numbers.max(initial=-np.inf), numbers.min(initial=np.inf))
            found = [value.numpy() for value in machine.run(data)]
            assert [v.shape for v in found] == [(), ()]
            assert [v.item() for v in found] == [float(v) for v in expected], (shape, data)


def test_axes_that_stay_have_size_one() -> None:
    mod = both_of(relay.var("x", shape=(4, 5)), keepdims=True)
    assert names_in(mod).count(FOUND) == 1
    data = np.arange(20, dtype="float32").reshape(4, 5)
    found = [value.numpy() for value in vmkit.VirtualMachine(vmkit.compile(mod, "native"), "cpu").run(data)]
    assert [v.tolist() for v in found] == [[[19.0]], [[0.0]]]


def test_other_reductions_stay_as_they_are() -> None:
    x, y = relay.var("x", shape=(4, 5)), relay.var("y", shape=(4, 5), dtype="float64")
    alone = relay.Tuple([relay.max(x), relay.min(x, axis=1), relay.max(y), relay.min(y), relay.max(relay.exp(x))])
    mod = transform.InferType()(tvm.IRModule({"main": relay.Function([x, y], alone)}))
    assert sorted(names_in(mod)) == ["exp", "max", "max", "max", "min", "min"]


def test_the_operator_refuses_what_it_does_not_compute() -> None:
    x = relay.var("x", shape=(4,), dtype="float64")
    with pytest.raises(TypeCheckError, match="data must be float32, not float64"):
        transform.InferType()(tvm.IRModule({"main": relay.Function([x], build(FOUND, x))}))
