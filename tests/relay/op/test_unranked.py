"""Tensors of a rank that is known only at run time: branches that differ in it, and what may be asked of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.ir import GlobalVar

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError, VMError
from vmkit.relay.op import build
from vmkit.relay.transform import infer_module


def module(result: Any) -> tvm.IRModule:
    """Return a program of what an unranked value, x or x under one more dimension, is made to."""
    x, c = relay.var("x", relay.TensorType((relay.Any(), 4), "float32")), relay.var("c", shape=(), dtype="bool")
    either = relay.If(c, build("unranked.of", x), build("unranked.of", relay.expand_dims(x, 0)))
    return infer_module(tvm.IRModule({GlobalVar("main"): relay.Function([x, c], result(either))}))


def machine(mod: tvm.IRModule) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(mod, "llvm"))


X = np.arange(8, dtype="float32").reshape(2, 4)


def test_a_value_and_its_rank() -> None:
    mod = module(lambda u: relay.Tuple([u, build("unranked.rank", u)]))
    assert str(mod["main"].checked_type.ret_type.fields[0]) == "Tensor[(?, 4) or (1, ?, 4), float32]"
    run = machine(mod).run
    for c, expected in ((True, X), (False, X[None])):
        value, rank = run(X, np.array(c))
        np.testing.assert_array_equal(value.numpy(), expected)
        assert rank.numpy() == expected.ndim


def test_a_value_taken_as_of_one_rank() -> None:
    mod = module(lambda u: relay.sum(build("unranked.as", u, shape=[1, relay.Any(), 4]), axis=[1]))
    run = machine(mod).run
    np.testing.assert_array_equal(run(X, np.array(False)).numpy(), X[None].sum(1))
    with pytest.raises(VMError):
        run(X, np.array(True))


def test_the_most_dimensions() -> None:
    mod = module(lambda u: build("unranked.of", u, most=2, message="too many"))
    assert str(mod["main"].checked_type.ret_type) == "Tensor[or (?, 4), float32]"
    run = machine(mod).run
    np.testing.assert_array_equal(run(X, np.array(True)).numpy(), X)
    with pytest.raises(VMError, match="too many"):
        run(X, np.array(False))


def test_what_is_no_such_tensor_is_refused() -> None:
    x = relay.var("x", relay.TensorType((2,), "float32"))
    for call, message in (
        (build("unranked.rank", x), "the input must be a tensor whose rank is not known"),
        (build("unranked.of", x, most=0, message="too many"), "too many"),
        (build("unranked.of", relay.Tuple([x])), "data must be a tensor"),
    ):
        with pytest.raises(TypeCheckError, match=message):
            infer_module(tvm.IRModule({GlobalVar("main"): relay.Function([x], call)}))
