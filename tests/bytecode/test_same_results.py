"""Which parts of a result are the same in every call, and that what is read of them once stays right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.bytecode import SameParts, same_parts
from vmkit.relay.ir import Expr
from vmkit.relay.op import build


def scores_by(keys: Expr, scores: Expr) -> Expr:
    return build("map.construct", keys, relay.exp(scores))


def constant(*keys: int) -> Expr:
    return relay.const(np.array(keys, "int64"))


SCORES = relay.var("scores", shape=(relay.Any(), 2))
KEYS = relay.var("keys", shape=(2,), dtype="int64")
FLAG = relay.var("flag", shape=(), dtype="bool")
BY_FLAG = relay.If(FLAG, scores_by(constant(5, 6), SCORES), scores_by(constant(7, 8), SCORES))

PROGRAMS: dict[str, tuple[list[Expr], Expr, SameParts]] = {
    "constant keys": ([SCORES], scores_by(constant(5, 6), SCORES), (True, False)),
    "in a tuple": (
        [SCORES],
        relay.Tuple([relay.tanh(SCORES), scores_by(constant(5, 6), SCORES)]),
        (False, (True, False)),
    ),
    "given keys": ([SCORES, KEYS], scores_by(KEYS, SCORES), (False, False)),
    "computed keys": ([SCORES, KEYS], scores_by(relay.add(KEYS, constant(1, 1)), SCORES), (False, False)),
    "one of two": ([SCORES, FLAG], BY_FLAG, False),
}


def compiled(name: str) -> vmkit.Executable:
    params, body, _ = PROGRAMS[name]
    return vmkit.compile(tvm.IRModule({"main": relay.Function(params, body)}), "llvm")


@pytest.mark.parametrize("name", PROGRAMS)
def test_constants_in_a_result_are_found(name: str) -> None:
    program = compiled(name).program
    assert same_parts(program, program.function("main")) == PROGRAMS[name][2]


@pytest.mark.parametrize(
    ("name", "rest", "keys"),
    [
        ("constant keys", [[], []], [(5, 6), (5, 6)]),
        ("given keys", [[np.array([1, 2])], [np.array([3, 4])]], [(1, 2), (3, 4)]),
        ("computed keys", [[np.array([1, 2])], [np.array([3, 4])]], [(2, 3), (4, 5)]),
        ("one of two", [[np.array(True)], [np.array(False)]], [(5, 6), (7, 8)]),
    ],
)
def test_dicts_have_the_keys_of_their_own_call(name: str, rest: list[Any], keys: list[tuple[int, int]]) -> None:
    machine = vmkit.VirtualMachine(compiled(name), "cpu")
    for rows, more, (first, second) in ((2, rest[0], keys[0]), (1, rest[1], keys[1]), (3, rest[0], keys[0])):
        result = machine.run(np.zeros((rows, 2), "float32"), *more)
        assert result == [{first: 1.0, second: 1.0}] * rows


def test_dicts_in_a_tuple_are_made_by_the_same_keys_in_every_call() -> None:
    machine = vmkit.VirtualMachine(compiled("in a tuple"), "cpu")
    results = [machine.run(np.zeros((rows, 2), "float32"))[1] for rows in (1, 2)]
    assert results == [[{5: 1.0, 6: 1.0}], [{5: 1.0, 6: 1.0}] * 2]
    results[0][0].clear()  # a caller's dict is the caller's own
    assert machine.run(np.zeros((1, 2), "float32"))[1] == [{5: 1.0, 6: 1.0}]
