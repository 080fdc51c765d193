"""The table of operators says what is registered, and what it says of unknown shapes is so."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import tvm
import tvm_ffi

import vmkit
import vmkit.optimize  # registers operators of its own
from tests.relay.op.samples import SAMPLES, Given
from tests.relay.programs import as_numpy, assert_same
from vmkit import relay
from vmkit.relay.op import REGISTRY
from vmkit.relay.op.table import OperatorRow, as_json, as_text, operator_row, operator_rows
from vmkit.relay.transform import infer_module

# Families whose own tests run each of their operators under unknown shapes.
TESTED_ELSEWHERE = (
    *("memory.", "qnn.", "random.", "vision.", "nn.sparse_", "nn.internal.", "nn.bit"),
    *("vm.invoke_tvm_op", "vm.shape_func", "nn.contrib_integer_matrices", "nn.contrib_quantized_lstm"),
    "contrib_extremes",
)


def test_every_operator_has_a_sample() -> None:
    assert set(SAMPLES) <= set(REGISTRY)
    missing = [name for name in REGISTRY if name not in SAMPLES and not name.startswith(TESTED_ELSEWHERE)]
    assert missing == []


def rows_of_relay() -> list[OperatorRow]:
    """Return the rows of operators that Relay itself registers."""
    return [row for row in operator_rows() if REGISTRY[row.name].home.startswith("vmkit.relay.")]


def sample(name: str, dynamic: bool) -> tuple[relay.Function, list[Any]]:
    """Return the sample of an operator as a function, and the arrays to give to it."""
    given = Given(dynamic)
    call = SAMPLES[name](given)
    body = call.astuple() if isinstance(call, relay.TupleWrapper) else call
    return relay.Function(given.params, body), given.arrays


def result(name: str, dynamic: bool) -> Any:
    """Return what the sample of an operator gives."""
    function, arrays = sample(name, dynamic)
    return as_numpy(vmkit.VirtualMachine(vmkit.compile(function, target="llvm")).run(*arrays))


@pytest.mark.parametrize("name", [name for name in SAMPLES if REGISTRY[name].is_dynamic])
def test_an_operator_gives_the_same_over_shapes_known_and_not(name: str) -> None:
    assert_same(result(name, dynamic=True), result(name, dynamic=False), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_operators_are_printed_and_read_back_equal(dynamic: bool) -> None:
    for name in SAMPLES:
        module = infer_module(tvm.IRModule({"main": sample(name, dynamic)[0]}))
        assert tvm_ffi.structural_equal(relay.parse(relay.astext(module)), module), name


def test_table_has_a_row_for_each_operator_with_what_is_registered() -> None:
    rows = {row.name: row for row in operator_rows()}
    assert set(rows) == set(REGISTRY)
    for name, made in REGISTRY.items():
        row = rows[name]
        assert (row.level, row.inputs) == (made.level, list(made.inputs))
        assert [a.name for a in row.attributes] == [f.name for f in (made.attrs.declared if made.attrs else ())]
        assert row.shapes == ("dynamic" if made.is_dynamic else "static")
        assert row.summary and "\n" not in row.summary
    assert operator_row(replace(REGISTRY["exp"], is_dynamic=False)).shapes == "static"


def test_text_has_one_line_for_each_row_in_columns() -> None:
    rows = operator_rows()
    heading, *lines = as_text(rows).splitlines()
    assert heading.split() == ["operator", "level", "shapes", "inputs", "attributes"]
    assert [line.split()[0] for line in lines] == [row.name for row in rows]
    line = next(line for line in lines if line.startswith("nn.leaky_relu "))
    assert line.split() == ["nn.leaky_relu", "3", "dynamic", "data", "alpha=0.25"]
    assert line.index("alpha") == heading.index("attributes")


def test_command_prints_the_table_for_people_and_machines() -> None:
    command = [sys.executable, "-W", "error", "-m", "vmkit.relay.op"]
    text = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (text.stdout, text.stderr) == (as_text(rows_of_relay()) + "\n", "")
    made = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(made.stdout)
    assert rows == json.loads(as_json(rows_of_relay()))
    dense = next(row for row in rows if row["name"] == "nn.dense")
    assert dense["attributes"] == [
        {"name": "units", "kind": "Dim", "required": False, "default": None},
        {"name": "out_dtype", "kind": "DType", "required": False, "default": ""},
    ]
