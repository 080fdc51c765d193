"""What rules ask about indices and conditions."""

from __future__ import annotations

import pytest
import tvm_ffi
from tvm import te, tirx

from vmkit._tvm.nodes import is_choice
from vmkit.schedule.expressions import conjuncts, is_one, known, loads_in, replaced, stride, uses

i, j, n = (tirx.Var(name, "int64") for name in "ijn")


@pytest.mark.parametrize(
    ("index", "expected"),
    [(i, 1), (i * 3 + j, 3), (j - i, -1), (j, 0), (i * n, None), (tirx.floordiv(i, 2), None)],
    ids=str,
)
def test_the_stride_of_an_index_is_by_how_much_it_grows(index: tirx.Expr, expected: int | None) -> None:
    assert stride(index, i) == expected


def test_an_index_uses_what_stands_in_it() -> None:
    assert uses(i * 3 + j, i) and not uses(i * 3 + j, n)


def test_a_size_is_known_where_it_is_constant() -> None:
    sizes = (tirx.IntImm("int64", 1), tirx.IntImm("int64", 7), n)
    assert [known(size) for size in sizes] == [1, 7, None]
    assert [is_one(size) for size in sizes] == [True, False, False]


def test_conjuncts_are_all_that_holds_together() -> None:
    tests = [i < 3, j < 4, i < j]
    assert list(map(str, conjuncts(tirx.all(*tests)))) == ["i < T.int64(3)", "j < T.int64(4)", "i < j"]
    assert len(conjuncts(tirx.Or(tests[0], tests[1]))) == 1


def test_a_choice_computes_one_value_only() -> None:
    value = tirx.FloatImm("float32", 1.0)
    assert is_choice(tirx.if_then_else(i < 3, value, value))
    assert not is_choice(tirx.Select(i < 3, value, value)) and not is_choice(tirx.exp(value))


def test_variables_are_replaced_all_at_once() -> None:
    assert tvm_ffi.structural_equal(replaced(i * 3 + j, {i: j, j: i}), j * 3 + i)
    swapped = replaced([i + n, j], {i: j, j: i})
    assert [str(each) for each in swapped] == ["j + n", "i"]


def test_all_reads_are_found() -> None:
    x, y = (te.placeholder((4,), name=name) for name in "xy")
    function = te.create_prim_func([x, y, te.compute((4,), lambda i: x[i] * y[i] + x[i])])
    assert [load.source.name for load in loads_in(function.body)] == ["x", "y", "x"]
