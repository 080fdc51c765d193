"""Parameters get another batch size, and everything behind them follows."""

from __future__ import annotations

import pytest
import tvm

from vmkit import relay
from vmkit.errors import OptionError
from vmkit.relay.transform import ChangeBatch, InferType


def test_types_follow_the_new_batch() -> None:
    x, w = relay.var("x", shape=(1, 8)), relay.var("w", shape=(4, 8))
    body = relay.nn.dense(x, w)
    before = InferType()(tvm.IRModule({"main": relay.Function([x, w], body, relay.TensorType((1, 4)))}))
    after = ChangeBatch({before["main"].params[0]: 0}, batch_size=123)(before)["main"]
    assert [str(p.type_annotation) for p in after.params] == ["Tensor[(123, 8), float32]", "Tensor[(4, 8), float32]"]
    assert after.checked_type.ret_type == relay.TensorType((123, 4))
    assert before["main"].checked_type.ret_type == relay.TensorType((1, 4))


def test_each_parameter_has_an_axis_of_its_own_and_the_batch_may_be_unknown() -> None:
    x, y = relay.var("x", shape=(1, 8)), relay.var("y", shape=(8, 1))
    mod = InferType()(tvm.IRModule({"main": relay.Function([x, y], relay.transpose(x) + y)}))
    params = mod["main"].params
    assert str(ChangeBatch({params[0]: 0, params[1]: -1})(mod)["main"].ret_type) == "Tensor[(8, 16), float32]"
    unknown = ChangeBatch({params[0]: 0}, relay.Any())(mod)["main"]
    assert str(unknown.params[0].type_annotation) == "Tensor[(?, 8), float32]"


def test_what_has_no_such_axis_is_refused() -> None:
    with pytest.raises(OptionError, match="%x has 2 axes; there is no axis 2 for the batch"):
        ChangeBatch({relay.var("x", shape=(1, 8)): 2})
    with pytest.raises(OptionError, match="%x must be declared as a tensor to get another batch size, not None"):
        ChangeBatch({relay.var("x"): 0})
