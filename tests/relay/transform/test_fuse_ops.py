"""Operator fusion as a pass: which operators become one function, and that what it makes runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

import vmkit
from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import after, assert_becomes, module, operators
from vmkit import relay
from vmkit.errors import OptionError
from vmkit.relay.ir import post_order
from vmkit.relay.transform import DefuseOps, FuseOps


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def kernels(function: relay.Function) -> list[list[str]]:
    """Return the operators of each fused function, in the order of the first of them."""
    found = [n for n in post_order(function) if isinstance(n, relay.Function) and n.attrs.get("Primitive")]
    return sorted(operators(kernel.body) for kernel in found)


def conv(data: Any, name: str, size: int = 3) -> relay.Call:
    weight = v(name, 4, 4, size, size)
    return relay.nn.conv2d(data, weight, kernel_size=(size, size), padding=(size // 2, size // 2), channels=4)


def test_a_chain_of_elementwise_operators_is_one_function() -> None:
    x = v("x", 2, 3)
    p, one = v("p", 2, 3), relay.const(1.0)
    inner = relay.Function([p], relay.exp(p + one), attrs={"Primitive": tvm.tirx.IntImm("int32", 1)})
    assert_becomes(FuseOps(2), relay.exp(x + one), inner(x), x)


def test_level_0_makes_each_operator_a_function() -> None:
    x = v("x", 2, 3)
    fused = after(FuseOps(0), relay.squeeze(relay.exp(x + x)), x)
    assert kernels(fused) == [["add"], ["exp"], ["squeeze"]]
    last = fused.body.op
    assert int(last.attrs["relay.reshape_only"]) == 1


def test_the_level_of_the_context_counts_by_default() -> None:
    x = v("x", 2, 3)
    mod = module(relay.exp(relay.tanh(x)), x)
    with tvm.transform.PassContext(opt_level=0):
        assert kernels(FuseOps()(mod)["main"]) == [["exp"], ["tanh"]]
    with tvm.transform.PassContext(opt_level=3):
        assert kernels(FuseOps()(mod)["main"]) == [["tanh", "exp"]]


def test_what_dominates_a_convolution_joins_it_and_the_next_convolution_does_not() -> None:
    x = v("x", 1, 4, 8, 8)
    first = conv(x, "w0")
    both = first + relay.tanh(first)
    result = conv(both, "w1", 1) + conv(both, "w2")
    # Of two convolutions that are added, the one that comes first takes the sum.
    assert kernels(after(FuseOps(2), result)) == [["nn.conv2d"], ["nn.conv2d", "add"], ["nn.conv2d", "tanh", "add"]]


def test_a_value_that_is_a_result_too_ends_its_function() -> None:
    x = v("x", 2, 3)
    middle = relay.exp(x)
    assert kernels(after(FuseOps(2), relay.Tuple([middle, relay.tanh(middle)]), x)) == [["exp"], ["tanh"]]


def test_a_tuple_inside_a_kernel_takes_what_makes_its_fields() -> None:
    x = v("x", 1, 4)
    joined = relay.concatenate([relay.exp(x), relay.tanh(x)], axis=1)
    assert kernels(after(FuseOps(2), relay.nn.relu(joined), x)) == [["exp", "tanh", "concatenate", "nn.relu"]]


def test_fields_of_a_split_are_taken_in_the_function_that_uses_them() -> None:
    x, w = v("x", 1, 6), v("w", 6, 6)
    parts = relay.split(relay.nn.dense(x, w), 2, axis=1)
    got = kernels(after(FuseOps(2), relay.exp(parts[0]) * relay.tanh(parts[1]), x, w))
    assert got == [["nn.dense"], ["split", "exp", "tanh", "multiply"]]


def test_an_annotation_stops_fusion_and_is_gone() -> None:
    x = v("x", 2, 3)
    stopped = relay.annotation.stop_fusion(relay.exp(x))
    assert kernels(after(FuseOps(2), relay.tanh(stopped), x)) == [["exp"], ["tanh"]]


def test_nothing_is_fused_across_branches_and_references() -> None:
    c, x = v("c", dtype="bool"), v("x", 2)
    branches = relay.If(c, relay.exp(x), relay.tanh(x))
    assert kernels(after(FuseOps(2), relay.nn.relu(branches), c, x)) == [["exp"], ["nn.relu"], ["tanh"]]
    read = relay.RefRead(relay.RefCreate(relay.exp(x)))
    assert kernels(after(FuseOps(2), relay.tanh(read), x)) == [["exp"], ["tanh"]]


def test_functions_that_are_kernels_or_for_another_compiler_stay() -> None:
    x, p = v("x", 2), v("p", 2)
    fused = after(FuseOps(2), relay.exp(relay.tanh(x)), x)
    again = after(FuseOps(2), fused)
    assert kernels(again) == [["tanh", "exp"]]
    foreign = relay.Function([p], relay.exp(relay.tanh(p)), attrs={"Compiler": "npu"})
    assert kernels(after(FuseOps(2), foreign(x), x)) == []


@pytest.mark.parametrize("depth", [2, 3])
def test_an_option_bounds_the_size_of_a_function(depth: int) -> None:
    x = v("x", 2)
    result: Any = x
    for _ in range(6):
        result = relay.exp(result)
    with vmkit.PassContext(config={"relay.FuseOps.max_depth": depth}):
        assert [len(names) for names in kernels(after(FuseOps(2), result, x))] == [depth] * (6 // depth)


def test_a_target_bounds_the_number_of_arguments() -> None:
    xs = [v(f"x{i}", 2) for i in range(6)]
    total: Any = relay.exp(xs[0])
    for x in xs[1:]:
        total = total + relay.exp(x)
    assert len(kernels(after(FuseOps(2), total, *xs))) == 1
    with tvm.target.Target({"kind": "opencl", "max_function_args": 4}):
        fused = after(FuseOps(2), total, *xs)
    functions = [n for n in post_order(fused) if isinstance(n, relay.Function) and n.attrs.get("Primitive")]
    assert len(functions) > 1
    assert max(len(f.params) for f in functions) + 1 <= 4


@pytest.mark.parametrize("link", [False, True])
def test_constants_become_a_part_of_functions_where_that_is_asked_for(link: bool) -> None:
    x, values = v("x", 2), relay.const(np.array([1, 2], "float32"))
    mod = module(x + values, x)
    with vmkit.PassContext(config={"relay.FuseOps.link_params": link}):
        by_option = FuseOps(2)(mod)["main"].body
    by_argument = FuseOps(2, link_params=link)(mod)["main"].body
    for call in (by_option, by_argument):
        assert len(call.args) == len(call.op.params) == (1 if link else 2)


def test_an_option_of_another_type_is_refused() -> None:
    with pytest.raises(OptionError, match=r"'relay\.FuseOps\.link_params' cannot be 'yes': expected bool"):
        vmkit.PassContext(config={"relay.FuseOps.link_params": "yes"})


def test_a_fused_program_runs_and_comes_apart_again() -> None:
    x = v("x", 1, 4, 8, 8)
    result = relay.split(relay.nn.relu(conv(x, "w") + relay.const(1.0)), 2, axis=1)[1]
    mod = module(result)
    fused = FuseOps(2)(mod)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(tuple(p.checked_type.shape), "float32") for p in mod["main"].params]
    run, expected = (compiled(list(m["main"].params), m["main"].body) for m in (fused, mod))
    assert_same(run(*args), expected(*args))
    assert tvm_ffi.structural_equal(DefuseOps()(fused), mod)


def test_functions_without_a_mark_come_apart_unless_that_would_drop_an_effect() -> None:
    x, p, q, r = v("x", 2), v("p", 2), relay.Var("q"), relay.Var("r")
    assert_becomes(DefuseOps(), relay.Function([p], relay.exp(p))(x), relay.exp(x), x)
    write = relay.Function([q], x)(relay.RefWrite(r, x))
    kept = after(DefuseOps(), relay.Let(r, relay.RefCreate(x), write), x)
    assert any(isinstance(node, relay.RefWrite) for node in post_order(kept))


def test_the_module_that_was_given_stays() -> None:
    x = v("x", 2)
    mod = module(relay.exp(relay.tanh(x)), x)
    text = str(mod["main"])
    FuseOps(2)(mod)
    assert str(mod["main"]) == text


def test_fused_functions_of_a_program_are_found_once_each() -> None:
    x = v("x", 1, 4, 8, 8)
    result = conv(relay.nn.relu(conv(relay.nn.relu(conv(x, "w0")), "w1")), "w2")
    functions = relay.analysis.extract_fused_functions(module(result)).values()
    assert sorted(operators(f.body) for f in functions) == [["nn.conv2d"], ["nn.conv2d", "nn.relu"]]
