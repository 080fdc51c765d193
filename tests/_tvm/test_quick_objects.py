"""What is quicker to look at looks the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import tvm
import tvm_ffi

from vmkit import relay
from vmkit._tvm.quick_objects import look_quickly


def test_arrays_read_as_sequences() -> None:
    array = tvm_ffi.Array([1, "two", 3.0])
    assert list(array) == [1, "two", 3.0] and array[0] == 1 and array[-1] == 3.0 and array[1:] == ["two", 3.0]
    assert list(reversed(array)) == [3.0, "two", 1] and "two" in array and isinstance(array, Sequence)
    assert [*tvm_ffi.Array([])] == []
    for at in (3, -4):
        with pytest.raises(IndexError):
            array[at]
    with pytest.raises(TypeError):
        array["two"]  # type: ignore[call-overload]


def test_objects_belong_to_the_classes_that_theirs_derives_from() -> None:
    x = relay.var("x", shape=(2,))
    assert isinstance(x, relay.Var) and isinstance(x, relay.Expr) and isinstance(x, tvm.ir.Expr)
    assert not isinstance(x, relay.Call) and not isinstance("x", relay.Var) and not isinstance(x, tvm.ir.Type)


def test_a_class_may_still_be_registered_as_another_one() -> None:
    class Base(tvm_ffi.Object):
        pass

    class Foreign:
        pass

    try:
        assert not isinstance(Foreign(), Base)
        Base.register(Foreign)
        assert isinstance(Foreign(), Base) and isinstance(relay.var("x"), relay.Var)
    finally:
        look_quickly()


def test_walks_visit_the_classes_that_are_asked_for_and_refuse_others() -> None:
    n = tvm.tirx.Var("n", "int64")
    found: list[object] = []
    for _ in range(2):  # the second time from what was found
        tvm_ffi.structural_walk(n + n * 2, ((tvm.tirx.Add, tvm.tirx.Mul), found.append))
        with pytest.raises(TypeError, match="structural_walk callback type"):
            tvm_ffi.structural_walk(n, (type("Unregistered", (), {}), found.append))
    assert [type(part) for part in found] == [tvm.tirx.Mul, tvm.tirx.Add] * 2


def test_walks_take_callbacks_of_every_form() -> None:
    n = tvm.tirx.Var("n", "int64")
    both, either, each = [], [], []
    total = n + n * 2
    tvm_ffi.structural_walk(total, [(tvm.tirx.Add, both.append), (tvm.tirx.Mul, both.append)])
    tvm_ffi.structural_walk(total, ((tvm.tirx.Add, both.append), (tvm.tirx.Mul, both.append)))
    tvm_ffi.structural_walk(total, ((tvm.tirx.Add, tvm.tirx.Mul), either.append))
    tvm_ffi.structural_walk(total, each.append)
    assert [type(part) for part in both] == [tvm.tirx.Mul, tvm.tirx.Add] * 2
    assert [type(part) for part in either] == [tvm.tirx.Mul, tvm.tirx.Add] and len(each) > 3
    with pytest.raises(TypeError, match="structural_walk callbacks"):
        tvm_ffi.structural_walk(total, 3)  # type: ignore[arg-type]
