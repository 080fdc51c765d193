"""Relay as a program in Python computes what Relay does, in its order."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.runtime import Tensor

import vmkit
from vmkit import relay
from vmkit.errors import InputError, TypeCheckError, VMError
from vmkit.relay.prelude import Prelude
from vmkit.relay.testing import run_as_python, to_python


def numbers(value: Any) -> Any:
    """Return a result with tensors as numbers and data values as lists after their tag."""
    if isinstance(value, Tensor):
        return value.numpy().tolist()
    if isinstance(value, vmkit.ADT):
        return [value.tag, *map(numbers, value)]
    return tuple(map(numbers, value)) if isinstance(value, tuple) else value


def let(*bound: Any) -> relay.Expr:
    """Return nested lets: variable and value in turn, and the body last."""
    *pairs, body = bound
    for variable, value in zip(pairs[-2::-2], pairs[::-2], strict=True):
        body = relay.Let(variable, value, body)
    return body


@pytest.fixture(scope="module")
def prelude() -> Prelude:
    return Prelude(tvm.IRModule())


def test_values_that_are_no_tensors() -> None:
    one, two = relay.const(1), relay.const([2.5, np.inf])
    assert numbers(run_as_python(relay.Tuple([one, relay.Tuple([two]), relay.Tuple([])]))) == (1, ([2.5, np.inf],), ())
    assert numbers(run_as_python(relay.TupleGetItem(relay.Tuple([one, two]), 0))) == 1
    reference = run_as_python(relay.RefCreate(one))
    assert isinstance(reference, vmkit.RefValue)
    assert numbers(reference.value) == 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 4), (9, 9)])
def test_constants_keep_data_type_shape_and_values(dtype: str, shape: tuple[int, ...]) -> None:
    value = relay.const(np.random.default_rng(0).integers(0, 2, shape), dtype)
    made = run_as_python(value)
    assert (str(made.dtype), tuple(made.shape)) == (dtype, shape)
    np.testing.assert_array_equal(made.numpy(), value.data.numpy())


def test_operators_take_and_give_tuples_and_have_attributes() -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    parts = run_as_python(relay.split(relay.const(x), 3, axis=1))
    np.testing.assert_array_equal(np.stack([part.numpy() for part in parts]), np.stack(np.split(x, 3, 1)))
    joined = run_as_python(relay.concatenate([relay.const(x), relay.const(x)], axis=1))
    np.testing.assert_array_equal(joined.numpy(), np.concatenate([x, x], 1))
    normal = relay.nn.batch_norm(*[relay.const(np.full(s, 2.0, "float32")) for s in [(3, 2), 2, 2, 2, 2]], epsilon=0.0)
    np.testing.assert_allclose(run_as_python(normal[0]).numpy(), np.full((3, 2), 2.0), rtol=1e-6)


def test_effects_happen_once_and_from_left_to_right() -> None:
    cell, shared = relay.Var("cell"), relay.var("shared")
    more = relay.RefWrite(cell, relay.add(relay.RefRead(cell), relay.const(1)))
    again = relay.RefWrite(cell, relay.multiply(relay.RefRead(cell), relay.const(10)))
    order = let(cell, relay.RefCreate(relay.const(1)), relay.Tuple([more, again, relay.RefRead(cell)]))
    assert numbers(run_as_python(order)) == ((), (), 20)
    once = relay.RefWrite(cell, relay.add(relay.RefRead(cell), relay.const(1)))
    twice = let(cell, relay.RefCreate(relay.const(1)), shared, relay.Tuple([once, once]), relay.RefRead(cell))
    assert numbers(run_as_python(twice)) == 2


@pytest.mark.parametrize(("choice", "expected"), [(True, 5), (False, 7)])
def test_only_the_branch_that_is_chosen_runs(choice: bool, expected: int) -> None:
    cell = relay.Var("cell")
    branches = [let(relay.var("_"), relay.RefWrite(cell, relay.const(n)), relay.RefRead(cell)) for n in (5, 7)]
    whole = let(cell, relay.RefCreate(relay.const(0)), relay.If(relay.const(choice), *branches))
    assert numbers(run_as_python(whole)) == expected


def test_functions_are_closures_that_python_calls() -> None:
    x, y, f = relay.var("x", "int32"), relay.var("y", "int32"), relay.Var("f")
    adder = run_as_python(relay.Function([x], relay.Function([y], relay.subtract(x, y))))
    ten, three = (run_as_python(relay.const(n)) for n in (10, 3))
    assert numbers(adder(ten)(three)) == 7
    countdown = relay.Function(
        [x],
        relay.If(relay.less(x, relay.const(1)), x, relay.Call(f, [relay.subtract(x, relay.const(1))])),
        relay.scalar_type("int32"),
    )
    assert numbers(run_as_python(let(f, countdown, relay.Call(f, [relay.const(1500)])))) == 0


def test_shared_subexpressions_are_computed_once() -> None:
    value = relay.const(1)
    for _ in range(60):
        value = relay.add(value, value)
    assert numbers(run_as_python(relay.cast(value, "int64"))) == 0  # 2**60 in int32
    assert ast.unparse(to_python(value)).count("add_1(") == 60


def test_data_types_and_matches(prelude: Prelude) -> None:
    mod = prelude.mod
    x = relay.var("x", "int32")
    double = relay.Function([x], relay.add(x, x))
    nil, cons = (relay.find_constructor(mod, "List", name) for name in ("Nil", "Cons"))
    values = cons(relay.const(1), cons(relay.const(2), nil()))
    doubled = run_as_python(mod.get_global_var("map")(double, values), mod)
    assert numbers(doubled) == [cons.tag, 2, [cons.tag, 4, [nil.tag]]]
    assert numbers(run_as_python(mod.get_global_var("length")(values), mod)) == 2
    a, b, rest = relay.Var("a"), relay.Var("b"), relay.Var("rest")
    two = relay.PatternConstructor(
        cons, [relay.PatternVar(a), relay.PatternConstructor(cons, [relay.PatternVar(b), relay.PatternVar(rest)])]
    )
    clauses = [relay.Clause(two, relay.subtract(a, b)), relay.Clause(relay.PatternWildcard(), relay.const(9))]
    assert numbers(run_as_python(relay.Match(values, clauses), mod)) == -1
    assert numbers(run_as_python(relay.Match(cons(relay.const(1), nil()), clauses), mod)) == 9


def test_a_tuple_is_matched_by_its_fields() -> None:
    a = relay.Var("a")
    pattern = relay.PatternTuple([relay.PatternWildcard(), relay.PatternVar(a)])
    match = relay.Match(relay.Tuple([relay.const(1), relay.const(2)]), [relay.Clause(pattern, a)])
    assert numbers(run_as_python(match)) == 2


def test_constructors_are_functions(prelude: Prelude) -> None:
    some, some_of = relay.Var("f"), relay.find_constructor(prelude.mod, "Option", "Some")
    wrapped = let(some, some_of, relay.Call(some, [relay.const(1)]))
    assert numbers(run_as_python(wrapped, prelude.mod)) == [some_of.tag, 1]


def test_a_value_that_no_clause_takes(prelude: Prelude) -> None:
    nil, cons = (relay.find_constructor(prelude.mod, "List", name) for name in ("Nil", "Cons"))
    clause = relay.Clause(relay.PatternConstructor(nil, []), relay.const(0))
    match = relay.Match(cons(relay.const(1), nil()), [clause], complete=False)
    with pytest.raises(VMError, match="no clause of the match takes ADT"):
        run_as_python(match, prelude.mod)


def test_global_functions_keep_out_of_each_others_way() -> None:
    x = relay.var("x", "int32")
    mod = tvm.IRModule({"main": relay.Function([x], relay.negative(x)), "def": relay.Function([x], relay.add(x, x))})
    first, second = mod.get_global_var("main"), mod.get_global_var("def")
    assert numbers(run_as_python(first(second(relay.const(4))), mod)) == -8
    assert numbers(run_as_python(first, mod)(run_as_python(relay.const(3)))) == -3


def test_the_program_is_text_that_runs_by_itself() -> None:
    x = relay.var("x", "float32")
    text = ast.unparse(to_python(relay.Call(relay.Function([x], relay.exp(x)), [relay.const(0.0)])))
    names: dict[str, Any] = {}
    exec(text, names)
    assert numbers(names["_py_out"]) == 1.0


def test_the_callers_expression_stays_untyped() -> None:
    v, f = relay.Var("v"), relay.Var("f")
    identity = relay.Function([v], v)
    for argument, expected in ((relay.Tuple([]), ()), (relay.const(2), 2)):
        assert numbers(run_as_python(let(f, identity, relay.Call(f, [argument])))) == expected


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(InputError, match="the expression has free variables: %x"):
        run_as_python(relay.var("x"))
    with pytest.raises(TypeCheckError):
        run_as_python(relay.add(relay.const([1, 2]), relay.const([1, 2, 3])))
