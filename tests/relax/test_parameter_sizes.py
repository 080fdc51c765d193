"""Parameters of very many sizes lose them while passes run, and have them again in the program."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import vmkit
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relax.parameter_sizes import MOST_SYMBOLS, sizes_from_casts, sizes_of_parameters
from vmkit.relay.lower import lower_module
from vmkit.relay.transform import infer_module

COUNT = MOST_SYMBOLS + 2


def summed(count: int) -> tvm.IRModule:
    terms = [relay.var(f"x{k}", shape=(relay.Any(),)) for k in range(count)]
    value = terms[0]
    for term in terms[1:]:
        value = relay.add(value, term)
    return tvm.IRModule({"main": relay.Function([*terms], value)})


def known(function: relax.Function) -> list[bool]:
    return [param.ty.shape is not None for param in function.params]


def test_sizes_come_from_casts_and_go_back() -> None:
    few, many = (lower_module(infer_module(summed(n)), tvm.target.Target("llvm")).module for n in (MOST_SYMBOLS, COUNT))
    assert sizes_from_casts()(few).same_as(few)
    taken = sizes_from_casts()(many)
    assert known(taken["main"]) == [False] * COUNT
    casts = [binding for binding in taken["main"].body.blocks[0].bindings if isinstance(binding, relax.MatchCast)]
    assert [cast.var.name for cast in casts] == [f"x{k}" for k in range(COUNT)]
    back = sizes_of_parameters()(taken)
    assert known(back["main"]) == [True] * COUNT
    assert "vmkit.sizes_from_casts" not in back["main"].attrs


def test_values_and_errors_are_those_of_few_sizes() -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(summed(COUNT), "llvm"), "cpu")
    values = [np.full(1 if k % 3 else 5, k, "float32") for k in range(COUNT)]
    for _ in range(2):
        np.testing.assert_array_equal(machine.run(*values).numpy(), np.full(5, sum(range(COUNT)), "float32"))
    values[-2] = np.ones(4, "float32")
    with pytest.raises(VMError, match="add: dimension 0 is 4 in one input and 5 in another"):
        machine.run(*values)
