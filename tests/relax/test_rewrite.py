"""What all passes over Relax have in common: what changes is made anew with its type, the rest stays."""

from __future__ import annotations

import tvm
from tvm import ir, relax, tirx

from tests.relax import programs
from vmkit.relax import rewrite


def function() -> relax.Function:
    """Return ``main(c, x)``, which adds x to itself, and multiplies that by itself where c is true."""
    x, c = relax.Var("x", relax.TensorType([4], "float32")), relax.Var("c", relax.TensorType([], "bool"))
    builder = relax.BlockBuilder()
    with builder.function("main", [c, x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    main = builder.get()["main"]
    (binding,) = rewrite.bindings_of(main.body)
    arms = [relax.SeqExpr([], binding.var) for _ in range(2)]
    branch = relax.If(c, *arms)
    result = relax.Var("result", x.ty)
    block = relax.BindingBlock([binding, relax.VarBinding(result, branch)])
    return relax.Function(main.params, relax.SeqExpr([block], result), main.ret_ty, True, main.attrs)


def test_functions_that_no_change_is_for_stay_the_same_objects() -> None:
    mod, _ = programs.add_rows()
    after = rewrite.on_functions(mod, lambda _gvar, _function: None)
    assert not after.same_as(mod)
    assert after["main"].same_as(mod["main"])


def test_a_changed_function_keeps_all_but_its_body() -> None:
    mod = tvm.IRModule({"main": function()})
    after = rewrite.on_functions(
        mod, lambda gvar, f: relax.SeqExpr([], f.params[1]) if gvar.name_hint == "main" else None
    )
    assert after["main"].body.body.same_as(mod["main"].params[1])
    assert list(after["main"].params) == list(mod["main"].params)
    assert len(mod["main"].body.blocks) == 1, "the given module is as it was"


def test_bindings_may_become_none_or_several() -> None:
    body = function().body
    assert rewrite.on_bindings(body, lambda binding: [binding]).same_as(body)
    twice = rewrite.on_bindings(body, lambda binding: [binding, binding])
    assert [b.var.name for b in rewrite.bindings_of(twice)] == [
        b.var.name for b in rewrite.bindings_of(body) for _ in "12"
    ]
    assert not list(rewrite.bindings_of(rewrite.on_bindings(body, lambda _: [])))


def test_branches_are_changed_under_the_same_variable_and_type() -> None:
    add, branch = rewrite.bindings_of(function().body)
    assert rewrite.with_branches(add, lambda arm: relax.SeqExpr([], add.var)).same_as(add)
    assert rewrite.with_branches(branch, lambda arm: arm).same_as(branch)
    made = rewrite.with_branches(branch, lambda arm: relax.SeqExpr([], arm.body))
    assert made.var.same_as(branch.var)
    assert made.value.cond.same_as(branch.value.cond)
    other = relax.Var("other", relax.TensorType([], "bool"))
    assert rewrite.with_branches(branch, lambda arm: arm, other).value.cond.same_as(other)


def test_a_call_with_other_arguments_has_the_type_of_the_old_one() -> None:
    add, _ = rewrite.bindings_of(function().body)
    y = relax.Var("y", add.var.ty)
    made = rewrite.retyped_call(add.value, [y, y])
    assert [arg.name for arg in made.args] == ["y", "y"]
    tvm.ir.assert_structural_equal(made.ty, add.value.ty)


def test_variables_are_found_in_order_and_substituted() -> None:
    add, _ = rewrite.bindings_of(function().body)
    assert [v.name for v in rewrite.variables_in(add.value) if isinstance(v, ir.Var)] == ["x", "x"]
    y = relax.Var("y", add.var.ty)
    assert [v.name for v in rewrite.variables_in(rewrite.substituted(add.value, {add.value.args[0]: y}))] == ["y", "y"]
    assert rewrite.substituted(add.value, {}).same_as(add.value)


def test_an_allocation_is_storage_and_a_tensor_in_it() -> None:
    tensor = relax.Var("t", relax.TensorType([2, 3], "float32"))
    storage, made = rewrite.allocation(tensor, tirx.IntImm("int64", 24), "place")
    assert (storage.var.name, storage.value.op.name) == ("place", "relax.memory.alloc_storage")
    assert [int(size) for size in storage.value.args[0].values] == [24]
    assert made.var.same_as(tensor)
    assert made.value.args[0].same_as(storage.var)
    tvm.ir.assert_structural_equal(made.value.ty, tensor.ty)
