"""Loops of very many iterations are two loops: they are compiled, none of their iterations is lost, values stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tirx

import vmkit
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relax import long_loops
from vmkit.relax.long_loops import cut_long_loops


def test_more_elements_than_there_are_is_an_error_of_the_run_and_compiling_ends() -> None:
    x = relay.var("x", shape=(2, relay.Any()))
    executable = vmkit.compile(relay.Function([x], relay.topk(x, k=2**31 - 1, ret_type="indices")), target="llvm")
    with pytest.raises(VMError, match="k is 2147483647, but axis -1 has fewer elements"):
        vmkit.VirtualMachine(executable).run(np.ones((2, 3), "float32"))


def test_values_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_loops, "_LONG", 40)
    monkeypatch.setattr(long_loops, "_CUT", 16)
    x = relay.var("x", shape=(3, 100), dtype="int32")
    body = relay.Tuple([relay.cumsum(x, axis=1), relay.topk(x, k=70, ret_type="indices"), relay.add(x, x)])
    given = np.random.default_rng(0).integers(-9, 9, (3, 100)).astype("int32")
    sums, best, twice = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], body), target="llvm")).run(given)
    np.testing.assert_array_equal(sums.numpy(), given.cumsum(1))
    np.testing.assert_array_equal(best.numpy(), np.argsort(-given, kind="stable")[:, :70])
    np.testing.assert_array_equal(twice.numpy(), given * 2)


@pytest.mark.parametrize(("extent", "loops"), [(1 << 20, [1 << 20]), (1 << 32, [1 << 16, None])])
def test_only_long_loops_are_cut(extent: int, loops: list[int | None]) -> None:
    i = tirx.Var("i", "int64")
    loop = tirx.For(i, tirx.IntImm("int64", 0), tirx.IntImm("int64", extent), tirx.ForKind.SERIAL, tirx.Evaluate(i))
    mod = cut_long_loops(tvm.IRModule({"main": tirx.PrimFunc([], loop)}))
    found, statement = [], mod["main"].body
    while isinstance(statement, tirx.For):
        found.append(int(statement.extent.value) if isinstance(statement.extent, tirx.IntImm) else None)
        statement = statement.body
    assert found == loops
