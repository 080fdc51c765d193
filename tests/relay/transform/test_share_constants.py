"""Equal constants become one, and what is folded of them is computed once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm

from vmkit import relay
from vmkit.relay.ir import post_order
from vmkit.relay.transform import FoldConstant, InferType, ShareConstants
from vmkit.relay.transform.evaluation import evaluate_now

ARRAY = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")


def constants(mod: tvm.IRModule) -> list[relay.Constant]:
    return [n for f in mod.functions.values() for n in post_order(f) if isinstance(n, relay.Constant)]


def copy() -> relay.Constant:
    return relay.const(ARRAY.copy())


def test_equal_weights_of_two_functions_are_one() -> None:
    x, y = relay.var("x", shape=(4, 64)), relay.var("y", shape=(4, 64))
    inner = relay.GlobalVar("inner")
    mod = tvm.IRModule({inner: relay.Function([y], relay.nn.dense(y, copy()))})
    mod["main"] = relay.Function([x], relay.Call(inner, [relay.nn.dense(x, copy())]))
    assert len(set(constants(InferType()(mod)))) == 2
    shared = constants(ShareConstants()(InferType()(mod)))
    assert len(shared) == 2 and shared[0].same_as(shared[1])
    np.testing.assert_array_equal(shared[0].data.numpy(), ARRAY)


def test_other_and_small_constants_stay_as_they_are() -> None:
    x = relay.var("x", shape=(64, 64))
    others = relay.Tuple(
        [x + relay.const(ARRAY), x + relay.const(ARRAY + 1), x + relay.const(2.0), x + relay.const(2.0)]
    )
    mod = InferType()(tvm.IRModule({"main": relay.Function([x], others)}))
    assert ShareConstants()(mod).same_as(mod)


def test_equal_expressions_of_constants_are_computed_once_and_are_one_constant() -> None:
    computed = []

    def evaluate(mod: tvm.IRModule) -> Sequence[tvm.runtime.Tensor]:
        computed.append(len(mod["main"].body.fields))
        return evaluate_now(mod)

    moved = [relay.transpose(copy()) for _ in range(3)]
    halves = [relay.split(copy(), 2)[1] for _ in range(2)]
    body = relay.Tuple([*moved, *halves, relay.transpose(relay.const(ARRAY + 1))])
    folded = FoldConstant(evaluate=evaluate)(tvm.IRModule({"main": relay.Function([], body)}))
    assert computed == [1]  # the half; numpy transposes
    fields = folded["main"].body.fields
    assert len(set(fields[:3])) == len(set(fields[3:5])) == 1
    for field, expected in zip(fields, [ARRAY.T] * 3 + [ARRAY[32:]] * 2 + [(ARRAY + 1).T], strict=True):
        np.testing.assert_array_equal(field.data.numpy(), expected)
