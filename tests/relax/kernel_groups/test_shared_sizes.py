"""Calls of a group are given the same sizes as before, each formula of which is computed once."""

from __future__ import annotations

import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer

from vmkit._tvm.nodes import TensorLoad
from vmkit.relax.kernel_groups.shared_sizes import with_shared_sizes

N, M = (tirx.Var(name, "int64") for name in "nm")
VALUES = {N: 7, M: 13}


def call(*args: tirx.Expr) -> tirx.Stmt:
    return tirx.Evaluate(tirx.call_extern("int32", "kernel", *args))


def formulas() -> tuple[tirx.Expr, tirx.Expr]:
    """Return two sizes that have the lines of an image in common, of new nodes each time."""
    lines = tirx.floordiv(N + tirx.IntImm("int64", 3), tirx.IntImm("int64", 2))
    return lines * M * tirx.IntImm("int64", 4), tirx.floormod(lines, M) - lines


def given(statements: list[tirx.Stmt]) -> list[list[int]]:
    """Return the numbers that each call of some statements is given."""
    stored: dict[int, int] = {}

    def value(expr: tirx.Expr) -> int:
        known = tvm_ffi.structural_map(
            expr,
            [
                (ir.Var, lambda var: tirx.IntImm("int64", VALUES[var]) if var in VALUES else var),
                (TensorLoad, lambda load: tirx.IntImm("int64", stored[int(load.indices[0])])),
            ],
        )
        return int(Analyzer().simplify(known))

    calls = []
    for statement in statements:
        if isinstance(statement, tirx.BufferStore):
            stored[int(statement.indices[0])] = value(statement.value)
        elif isinstance(statement, tirx.Evaluate):
            calls.append([value(arg) for arg in list(statement.value.args)[1:]])
    return calls


def test_calls_share_what_their_sizes_consist_of() -> None:
    body = [call(*formulas(), N), call(tirx.IntImm("int64", 5), *formulas()), call(*formulas())]
    made = with_shared_sizes(body)
    assert given(made) == given(body) == [[260, 0, 7], [5, 260, 0], [260, 0]]
    divisions: list[tirx.FloorDiv] = []
    for statement in made:
        tvm_ffi.structural_walk(statement, (tirx.FloorDiv, divisions.append))
    assert len(divisions) == 1


def test_addresses_share_them_too_and_numbers_of_32_bits_do_not() -> None:
    base = tirx.Var("base", "handle")
    short = tirx.Var("short", "int32")
    body = [
        call(tirx.handle_add_byte_offset(base, formulas()[0])),
        call(tirx.handle_add_byte_offset(base, formulas()[0]), short + short),
        call(short + short),
    ]
    made = with_shared_sizes(body)
    stores = [each for each in made if isinstance(each, tirx.BufferStore)]
    (one,) = {int(store.indices[0]) for store in stores}
    assert Analyzer().can_prove_equal(stores[0].value, formulas()[0])
    assert [str(load) for load in _loads(made)] == [str(stores[0].buffer[one])] * 2
    assert "short + short" in str(made[-1])


def test_calls_that_share_nothing_stay_as_they_are() -> None:
    body = [call(N * M), call(N + M)]
    assert all(a.same_as(b) for a, b in zip(with_shared_sizes(body), body, strict=True))


def _loads(statements: list[tirx.Stmt]) -> list[tirx.Expr]:
    found: list[tirx.Expr] = []
    for statement in statements:
        tvm_ffi.structural_walk(statement, (TensorLoad, found.append))
    return found
