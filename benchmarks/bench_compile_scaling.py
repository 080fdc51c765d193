"""Does compile time grow faster than the program? Programs of 125 to 2,000 operators are compiled.

The peer of a program is one of half its size: where the work is linear in the program the ratio is 2, where it is
quadratic it is 4. A compilation is also held to a bound of processor time, which a busy machine does not change.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.stack import on_deep_stack

SIZES = (125, 250, 500, 1000, 2000)
SECONDS = 20  # of processor time, that 2,000 operators may take

Program = Callable[[int], tuple[list[relay.Var], relay.Expr]]


def lets(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return a chain of bindings, of which no two of a kind stand beside each other."""
    x = relay.var("x", shape=(1000,))
    bound: list[tuple[relay.Var, relay.Expr]] = []
    value: relay.Expr = x
    for k in range(operators):
        made = (relay.tanh(value), relay.multiply(value, relay.const(1.01)), relay.add(value, x))[k % 3]
        bound.append((relay.Var(f"v{k}"), made))
        value = bound[-1][0]
    for variable, made in reversed(bound):
        value = relay.Let(variable, made, value)
    return [x], value


def dynamic(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return a chain over a tensor of any number of rows."""
    x = relay.var("x", shape=(relay.Any(), 10))
    value: relay.Expr = x
    for k in range(operators):
        value = (relay.tanh(value), relay.multiply(value, relay.const(1.01)), relay.add(value, x))[k % 3]
    return [x], value


def reshapes(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return a chain of changes of shape."""
    x = relay.var("x", shape=(20, 30))
    value: relay.Expr = x
    for k in range(operators):
        value = relay.reshape(value, ((600,), (30, 20), (2, 300), (20, 30))[k % 4])
    return [x], value


def reductions(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return sums and what uses them."""
    x = relay.var("x", shape=(20, 20))
    value: relay.Expr = x
    for k in range(operators):
        value = relay.add(x, value) if k % 2 else relay.mean(value, axis=1, keepdims=True)
    return [x], value


def products(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return products of matrices, with a function of elements after each."""
    x = relay.var("x", shape=(8, 8))
    value: relay.Expr = x
    for k in range(operators):
        value = relay.nn.relu(value) if k % 2 else relay.nn.dense(value, x)
    return [x], value


def sums(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return one sum of many terms, all of one tensor."""
    x = relay.var("x", shape=(100,))
    terms: list[relay.Expr] = [relay.multiply(x, relay.const(1 / (1 + k))) for k in range(operators // 2)]
    value = terms[0]
    for term in terms[1:]:
        value = relay.add(value, term)
    return [x], value


def joined(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return one concatenation of many tensors."""
    x = relay.var("x", shape=(4,))
    return [x], relay.concatenate([relay.nn.relu(relay.strided_slice(x, [k % 4], [4])) for k in range(operators)], 0)


def branches(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return a chain of conditions."""
    x, condition = relay.var("x", shape=(10,)), relay.var("condition", shape=(), dtype="bool")
    value: relay.Expr = x
    for _ in range(operators // 2):
        value = relay.If(condition, relay.tanh(value), relay.add(value, x))
    return [x, condition], value


def nested(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return conditions within each other, to choose one of many values."""
    x, total = relay.var("x", shape=(10,)), relay.var("total", shape=())
    value: relay.Expr = relay.tanh(x)
    for k in range(operators):
        value = relay.If(relay.less(total, relay.const(float(k))), relay.add(x, relay.const(float(k))), value)
    return [x, total], value


def unknown(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return a sum of many terms, each of its own unknown size."""
    terms = [relay.var(f"x{k}", shape=(relay.Any(),)) for k in range(operators)]
    value: relay.Expr = terms[0]
    for term in terms[1:]:
        value = relay.add(value, term)
    return terms, value


def regrouped(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return changes of shape between unknown sizes that data tell, with a function of elements after each."""
    x = relay.var("x", shape=[relay.Any()] * 5)
    shapes = [relay.var(name, shape=(5,), dtype="int64") for name in ("first", "second")]
    value: relay.Expr = x
    for k in range(operators):
        value = relay.tanh(value) if k % 2 else relay.reshape(value, shapes[k // 2 % 2])
    return [x, *shapes], value


def counted(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return a chain of operators whose sizes only data tells."""
    x = relay.var("x", shape=(relay.Any(),))
    value: relay.Expr = x
    for _ in range(operators // 3):
        value = relay.cast(relay.reshape(relay.argwhere(value), (-1,)), "float32")
    return [x], value


def closures(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return calls of local functions, each of its own."""
    x = relay.var("x", shape=(10,))
    value: relay.Expr = x
    for k in range(operators):
        y = relay.var(f"y{k}", shape=(10,))
        value = relay.Call(relay.Function([y], relay.add(y, x)), [value])
    return [x], value


def sizes(operators: int) -> tuple[list[relay.Var], relay.Expr]:
    """Return a change of shape to a size that a deep expression of integers computes."""
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    shape = relay.shape_of(x, "int64")
    rows, columns = (relay.take(shape, relay.const(axis)) for axis in (0, 1))
    two, value = relay.const(np.int64(2)), rows
    for k in range(operators):
        value = (
            relay.add(value, columns),
            relay.multiply(value, two),
            relay.divide(value, two),
            relay.maximum(value, columns),
        )[k % 4]
    least = relay.minimum(value, relay.const(np.int64(1)))
    return [x], relay.reshape(x, relay.stack([relay.const(np.int64(-1)), least], 0))


PROGRAMS: dict[str, Program] = {
    made.__name__: made
    for made in (
        lets,
        dynamic,
        reshapes,
        reductions,
        products,
        sums,
        joined,
        branches,
        nested,
        unknown,
        regrouped,
        counted,
        closures,
        sizes,
    )
}


def compiled(program: Program, operators: int) -> vmkit.Executable:
    """Compile a program; it is deeper than Python's stack."""

    def made() -> vmkit.Executable:
        params, body = program(operators)
        return vmkit.compile(tvm.IRModule({"main": relay.Function(params, body)}), "native")

    return on_deep_stack(made)


@pytest.mark.parametrize("operators", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.benchmark(group="compile, by the length of the program")
def test_compile(ratio: Callable[..., None], name: str, operators: int) -> None:
    program = PROGRAMS[name]
    begin = time.process_time()
    compiled(program, operators)
    assert time.process_time() - begin < SECONDS
    ratio(lambda: compiled(program, operators), half_the_size=lambda: compiled(program, operators // 2))


@pytest.mark.parametrize("operators", SIZES)
@pytest.mark.benchmark(group="run a chain, by its length")
def test_run_a_chain(ratio: Callable[..., None], operators: int) -> None:
    run, half = (vmkit.VirtualMachine(compiled(lets, n), "cpu") for n in (operators, operators // 2))
    x = np.linspace(-1, 1, 1000, dtype="float32")
    expected = x.astype("float64")
    for k in range(operators):
        expected = (np.tanh(expected), expected * 1.01, expected + x)[k % 3]
    np.testing.assert_allclose(run.run(x).numpy(), expected, rtol=1e-3, atol=1e-4)
    ratio(lambda: run.run(x), half_the_size=lambda: half.run(x))
