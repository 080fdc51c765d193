"""Questions about the parts of programs: who calls whom, what is between annotations, what it costs."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from tests.relay.transform.passes import module, operators
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.analysis import AnnotatedRegionSet, CallGraph, extract_intermdeiate_expr, get_total_mac_number
from vmkit.relay.op.annotation import compiler_begin, compiler_end


def v(name: str, *shape: Any) -> relay.Var:
    return relay.var(name, shape=shape)


@pytest.fixture
def calls() -> CallGraph:
    """Return the references of main, which calls f and g, and g, which calls f and itself."""
    f, g, main = map(relay.GlobalVar, ("f", "g", "main"))
    x, y, z = (v(name, 2) for name in "xyz")
    ty = x.type_annotation
    body = relay.Function([z], f(f(z)) + g(z), ty)
    return CallGraph(tvm.IRModule({f: relay.Function([x], x, ty), g: relay.Function([y], g(f(y)), ty), main: body}))


def test_references_are_counted_once_a_function(calls: CallGraph) -> None:
    assert [calls.ref_count(name) for name in ("f", "g", "main")] == [2, 2, 0]
    assert [calls.global_call_count(name) for name in ("f", "g", "main")] == [0, 2, 2]
    assert [calls.is_recursive(name) for name in ("f", "g", "main")] == [False, True, False]
    assert calls.ref_count(calls.module.get_global_var("f")) == 2


def test_references_as_text(calls: CallGraph) -> None:
    lines = ["Call graph node: g, #refs = 2", "  call site: <g> calls g", "  call site: <g> calls f", ""]
    assert sorted(calls.print_var("g").split("\n")) == sorted(lines)
    assert str(calls).count("Call graph node") == 3


def test_a_function_that_is_not_there_is_refused(calls: CallGraph) -> None:
    with pytest.raises(ModelError, match="the module has no function 'mian'; did you mean 'main'"):
        calls.ref_count("mian")
    with pytest.raises(ValueError, match="by its name or GlobalVar, not by int"):
        calls.ref_count(1)  # type: ignore[arg-type]


def test_a_program_up_to_an_expression() -> None:
    x, y = v("x", 4), v("y", 4)
    mod = module(relay.split(relay.exp(x) + y, 2)[1], x, y)
    parts = [extract_intermdeiate_expr(mod, number)["main"] for number in range(4)]
    assert [operators(part) for part in parts] == [["exp"], ["exp", "add"], *[["exp", "add", "split"]] * 2]
    assert [len(part.params) for part in parts] == [1, 2, 2, 2]
    # Types stay as they were declared: what a program leaves open is not written into its variables.
    assert parts[0].checked_type_ is None and relay.structural_equal(parts[0].body, relay.exp(x))
    with pytest.raises(ModelError, match="main has 4 calls, tuples and fields, numbered from 0; there is no 4"):
        extract_intermdeiate_expr(mod, 4)


def test_multiply_accumulates() -> None:
    x = v("x", 2, 6, 8, 8)
    table = {
        "conv": (relay.nn.conv2d(x, v("w", 4, 3, 3, 3), groups=2, strides=2), 2 * 4 * 3 * 3 * 3 * 9),
        "transposed": (
            relay.nn.conv2d_transpose(x, v("w", 6, 4, 2, 2), kernel_size=(2, 2), channels=4),
            2 * 4 * 81 * 6 * 4,
        ),
        "dense": (relay.nn.dense(v("a", 3, 5), v("b", 7, 5)), 3 * 5 * 7),
        "batches": (relay.nn.batch_matmul(v("a", 2, 3, 5), v("b", 2, 7, 5)), 2 * 3 * 5 * 7),
        "none": (relay.exp(x), 0),
    }
    for name, (expr, expected) in table.items():
        assert get_total_mac_number(module(expr)["main"]) == expected, name


def test_multiply_accumulates_of_unknown_sizes_are_refused() -> None:
    mod = module(relay.nn.dense(v("a", relay.Any(), 5), v("b", 7, 5)))
    with pytest.raises(ModelError, match="are not known before the program runs"):
        get_total_mac_number(mod["main"])


def regions(expr: relay.Expr) -> AnnotatedRegionSet:
    x = v("x", 2)
    return AnnotatedRegionSet(expr, compiler_begin(x, "").op, compiler_end(x, "").op)


def test_regions_grow_from_their_ends_and_merge() -> None:
    x = v("x", 2)
    begin = compiler_begin(x, "npu")
    value = relay.abs(begin)
    ends = [compiler_end(value, "npu"), compiler_end(relay.exp(value), "npu")]
    other = compiler_end(relay.tanh(compiler_begin(ends[0], "dsp")), "dsp")
    found = regions(other + ends[1])
    assert sorted((r.target, len(r.args), len(r.rets), len(r.nodes)) for r in found) == [
        ("dsp", 1, 1, 3),
        ("npu", 1, 2, 5),
    ]
    assert found.get_region(value) is found.get_region(begin)
    assert found.get_region(x) is None


def test_regions_without_an_end_are_refused() -> None:
    x = v("x", 2)
    with pytest.raises(ModelError, match="a value enters a region for 'npu' that nothing leaves"):
        regions(relay.abs(compiler_begin(x, "npu")))
    with pytest.raises(ModelError, match="a region for 'dsp' begins as one for 'npu'"):
        regions(compiler_end(relay.abs(compiler_begin(x, "npu")), "dsp"))
