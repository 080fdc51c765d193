"""Programs cut into regions for code generators: annotated, merged, and made functions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.ir.op import register_op_attr

import vmkit
from tests.relay.transform.passes import module, operators
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.dataflow_pattern import is_op, is_tuple, wildcard
from vmkit.relay.op.annotation import compiler_begin, compiler_end
from vmkit.relay.op.contrib import get_pattern_table, register_pattern_table
from vmkit.relay.transform import AnnotateTarget, MergeCompilerRegions, MergeComposite, PartitionGraph


def _is_float(call: relay.Call) -> bool:
    return call.args[0].checked_type.dtype == "float32"


for _name in ("add", "multiply", "nn.relu", "exp", "split"):
    register_op_attr(_name, "target.part_npu", _is_float)
register_op_attr("tanh", "target.part_dsp", lambda call: True)


def v(name: str = "x", *shape: int, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape or (2, 3), dtype=dtype)


def partitioned(mod: tvm.IRModule, *targets: str, include: bool = True, merge: bool = True) -> tvm.IRModule:
    mod = AnnotateTarget(list(targets or ("part_npu",)), include)(mod)
    return PartitionGraph()(MergeCompilerRegions()(mod) if merge else mod)


def regions(mod: tvm.IRModule) -> dict[str, list[str]]:
    """Return the operators of each function for a code generator, by the end of its name."""
    found = {g.name_hint: f for g, f in mod.functions.items() if f.attrs.get("Compiler")}
    return {name.removeprefix("tvmgen_default_"): sorted(operators(f)) for name, f in sorted(found.items())}


def values(mod: tvm.IRModule, *args: np.ndarray) -> list[np.ndarray]:
    """Return the results of a module whose functions for code generators are compiled as all others."""
    plain = {
        g: relay.Function(list(f.params), f.body, f.ret_type, list(f.type_params)) for g, f in mod.functions.items()
    }
    result = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule(plain), target="llvm")).run(*args)
    return [np.asarray(r.numpy()) for r in (result if isinstance(result, vmkit.ADT | tuple | list) else [result])]


def assert_same_values(mod: tvm.IRModule, cut: tvm.IRModule, *args: np.ndarray) -> None:
    for got, want in zip(values(cut, *args), values(mod, *args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


X = np.random.default_rng(0).uniform(0.1, 2, (2, 3)).astype("float32")


def test_a_region_is_a_function_with_attributes_and_a_name() -> None:
    x = v()
    mod = module(relay.tanh(relay.exp(x + x)), x)
    cut = partitioned(mod)
    assert regions(cut) == {"part_npu_main_0": ["add", "exp"]}
    function = cut["tvmgen_default_part_npu_main_0"]
    assert {key: str(function.attrs[key]) for key in function.attrs.keys()} == {  # noqa: SIM118
        "Compiler": "part_npu",
        "Inline": "1",
        "Primitive": "1",
        "global_symbol": "tvmgen_default_part_npu_main_0",
    }
    assert tvm_ffi.structural_equal(function.ret_type, x.type_annotation)
    assert operators(cut["main"]) == ["tanh"]
    assert_same_values(mod, cut, X)


@pytest.mark.parametrize("include", [False, True])
def test_several_values_leave_a_region_as_a_tuple(include: bool) -> None:
    x = v()
    e = relay.exp(x)
    mod = module(relay.Tuple([relay.tanh(e), relay.tanh(relay.nn.relu(e)), e]), x)
    cut = partitioned(mod, include=include)
    assert regions(cut) == {"part_npu_main_0": ["exp", "nn.relu"]}
    body = cut["tvmgen_default_part_npu_main_0"].body
    assert isinstance(body, relay.Tuple) and len(body.fields) == 2, "what leaves twice is there once"
    assert_same_values(mod, cut, X)


def test_a_predicate_sees_types() -> None:
    x, i = v(), v("i", dtype="int32")
    assert regions(partitioned(module(x + x, x))) == {"part_npu_main_0": ["add"]}
    assert regions(partitioned(module(i + i, i))) == {}


def test_regions_do_not_merge_around_what_is_between() -> None:
    x = v()
    e = relay.exp(x)
    mod = module(relay.nn.relu(e) + relay.tanh(e), x)
    cut = partitioned(mod)
    assert sorted(regions(cut).values()) == [["add"], ["exp", "nn.relu"]]
    assert_same_values(mod, cut, X)


def test_a_merge_elsewhere_is_seen() -> None:
    # After b has joined a, joining c with d would let each wait for the other: c -> ab -> tanh -> d and c -> d.
    x, y = v(), v("y")
    a, c = relay.exp(x), relay.exp(y)
    t = relay.tanh(a)
    b = a + c
    d = relay.multiply(c, t)
    mod = module(relay.Tuple([b, d]), x, y)
    cut = partitioned(mod)
    assert_same_values(mod, cut, X, X + 1)


def test_two_code_generators_take_turns() -> None:
    x = v()
    mod = module(relay.exp(relay.tanh(relay.exp(x))), x)
    cut = partitioned(mod, "part_npu", "part_dsp")
    assert sorted(regions(cut).values()) == [["exp"], ["exp"], ["tanh"]]
    again = AnnotateTarget("part_dsp")(AnnotateTarget("part_npu")(mod))
    assert tvm_ffi.structural_equal(again, AnnotateTarget(["part_npu", "part_dsp"])(mod))
    assert_same_values(mod, cut, X)


@pytest.mark.parametrize("bind", [False, True])
def test_constants_become_part_of_a_function(bind: bool) -> None:
    x = v()
    mod = module(x + relay.const(X), x)
    cut = PartitionGraph(mod_name="model", bind_constants=bind)(AnnotateTarget("part_npu")(mod))
    function = cut["tvmgen_model_part_npu_main_0"]
    assert len(function.params) == (1 if bind else 2)
    assert_same_values(mod, cut, X)


def test_a_value_that_enters_twice_is_one_parameter() -> None:
    x = v()
    cut = partitioned(module(relay.multiply(relay.exp(x), x), x))
    assert [p.name_hint for p in cut["tvmgen_default_part_npu_main_0"].params] == ["part_npu_0_i0"]


def test_branches_and_loops_keep_their_regions() -> None:
    x, i, s = v(), relay.var("i", shape=(), dtype="int32"), v("s")
    count = relay.var("count", shape=(), dtype="int32")
    loop = relay.Var("loop")
    one = relay.const(1, "int32")
    again = loop(relay.subtract(i, one), relay.exp(s) + s)
    body = relay.Function([i, s], relay.If(relay.less(i, one), s, again), x.type_annotation)
    branch = relay.If(relay.less(count, one), relay.exp(relay.nn.relu(x)), relay.multiply(x, x))
    mod = module(relay.Let(loop, body, loop(count, branch)), x, count)
    cut = partitioned(mod, include=False)
    assert sorted(regions(cut).values()) == [["add", "exp"], ["exp", "nn.relu"], ["multiply"]]
    for k in (0, 2):
        assert_same_values(mod, cut, X / 4, np.array(k, "int32"))


def test_what_a_branch_and_its_outside_use_stays_outside() -> None:
    x = v()
    e = relay.exp(x)
    flag = relay.var("flag", shape=(), dtype="bool")
    mod = module(relay.If(flag, relay.nn.relu(e), e + e), x, flag)
    cut = partitioned(mod)
    assert sorted(regions(cut).values()) == [["add"], ["exp"], ["nn.relu"]]
    assert_same_values(mod, cut, X, np.array(False))


def test_tuples_in_a_region_leave_it_field_by_field() -> None:
    x = v("x", 2, 4)
    parts = relay.split(x, 2, axis=1)
    mod = module(relay.concatenate([relay.tanh(parts[1]), parts[0]], axis=1), x)
    cut = partitioned(mod, "part_npu")
    types = cut["tvmgen_default_part_npu_main_0"].ret_type
    assert all(isinstance(field, relay.TensorType) for field in types.fields)
    assert_same_values(mod, cut, np.arange(8, dtype="float32").reshape(2, 4))


def test_a_region_that_uses_a_variable_without_annotation_is_refused() -> None:
    x, y = v(), v("y")
    bad = module(compiler_end(relay.add(compiler_begin(x, "part_npu"), y), "part_npu"), x, y)
    with pytest.raises(ModelError, match="a region for 'part_npu' uses %y without compiler_begin"):
        PartitionGraph()(bad)


def test_a_region_around_what_depends_on_it_is_refused() -> None:
    x = v()
    inside = relay.exp(compiler_begin(x, "part_npu"))
    outside = relay.tanh(compiler_end(inside, "part_npu"))
    bad = module(compiler_end(inside + compiler_begin(outside, "part_npu"), "part_npu"), x)
    with pytest.raises(ModelError, match="a region for 'part_npu' uses a value that depends on it"):
        PartitionGraph()(bad)


def test_the_optimisation_of_a_code_generator_is_asked() -> None:
    @tvm_ffi.register_global_func("relay.ext.part_folding.optimize", override=True)
    def optimize(mod: tvm.IRModule) -> tvm.IRModule:
        return relay.transform.FoldConstant()(mod)

    x = v()
    one = compiler_begin(relay.const(X), "part_folding")
    mod = module(relay.add(x, compiler_end(one + one, "part_folding")), x)
    function = PartitionGraph()(mod)["tvmgen_default_part_folding_main_0"]
    assert isinstance(function.body, relay.Constant)
    np.testing.assert_allclose(function.body.data.numpy(), X + X)


def test_functions_cut_twice_have_different_names() -> None:
    x = v()
    once = partitioned(module(relay.tanh(relay.exp(x)), x))
    twice = partitioned(once, "part_dsp")
    assert sorted(regions(twice)) == ["part_dsp_main_0", "part_npu_main_0"]


@pytest.fixture
def table() -> Iterator[list[tuple[object, ...]]]:
    """Return the rows of a registered table."""

    @register_pattern_table("part_table")
    def rows() -> list[tuple[object, ...]]:
        pair = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))
        return [("part_table.add_relu", pair, lambda call: call.checked_type.dtype == "float32")]

    yield list(get_pattern_table("part_table"))


def test_composite_functions_are_taken_by_the_owner_of_their_name(table: list[tuple[object, ...]]) -> None:
    x, i = v(), v("i", dtype="int32")
    mod = module(relay.Tuple([relay.tanh(relay.nn.relu(x + x)), relay.nn.relu(i + i)]), x, i)
    made = MergeComposite(table)(mod)
    cut = PartitionGraph()(AnnotateTarget("part_table")(made))
    (function,) = (f for f in cut.functions.values() if f.attrs.get("Compiler"))
    composite = function.body.op
    assert str(composite.attrs["Composite"]) == "part_table.add_relu"
    assert str(composite.attrs["PartitionedFromPattern"]) == "add_nn.relu_"
    assert sorted(operators(function)) == ["add", "nn.relu"], "integers stay outside"
    assert_same_values(mod, cut, X, np.array([[1, -2, 3]] * 2, "int32"))


def test_rows_of_a_pattern_table_come_in_turn() -> None:
    x = v()
    add = is_op("add")(wildcard(), wildcard())
    mod = module(relay.nn.relu(x + x), x)
    small = MergeComposite([("t.add", add), ("t.add_relu", is_op("nn.relu")(add))])(mod)["main"].body
    large = MergeComposite([("t.add_relu", is_op("nn.relu")(add)), ("t.add", add)])(mod)["main"].body
    assert small.op.name == "nn.relu" and str(small.args[0].op.attrs["Composite"]) == "t.add"
    assert str(large.op.attrs["Composite"]) == "t.add_relu"


def test_results_of_another_operator_are_fields_of_a_tuple_to_a_pattern() -> None:
    x = v("x", 2, 4)
    joined = relay.concatenate(relay.split(x, 2, axis=1), axis=1)
    made = MergeComposite([("t.join", is_op("concatenate")(is_tuple([wildcard(), wildcard()])))])(module(joined, x))
    assert len(made["main"].body.args) == 2


def test_bad_rows_and_unknown_tables_are_refused() -> None:
    with pytest.raises(ModelError, match="a row of a pattern table is a name, a pattern and perhaps a predicate"):
        MergeComposite([("t.add",)])
    register_pattern_table("part_known", lambda: [])
    with pytest.raises(ModelError, match="no pattern table is registered for 'part_knwn'; did you mean 'part_known'"):
        get_pattern_table("part_knwn")
