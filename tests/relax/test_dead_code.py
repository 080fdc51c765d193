"""What nobody reads is not computed; what has an effect or checks sizes stays."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from vmkit.relax.dead_code import eliminate_dead_code


def bindings(function: relax.Function) -> list[relax.Binding]:
    return [binding for block in function.body.blocks for binding in block.bindings]


@I.ir_module
class Program:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        with R.dataflow():
            unread = R.exp(x)
            _dead = R.add(unread, unread)
            kept = R.tanh(x)
            R.output(kept)
        _nobody = R.multiply(x, x)
        R.call_packed("vmkit.test.effect", x, ty_args=(R.Tuple(),))
        _same = R.match_cast(x, R.Tensor((n,), "float32"))
        if c:
            _dead_inside = R.exp(kept)
            result: R.Tensor((n,), "float32") = R.add(kept, kept)
        else:
            result: R.Tensor((n,), "float32") = kept
        return result

    @R.function(private=True)
    def called_by_nobody(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return Program.called_by_that(x)

    @R.function(private=True)
    def called_by_that(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x


def test_dead_values_go_also_in_branches_and_checks_and_effects_stay() -> None:
    made = eliminate_dead_code()(Program)
    kept, effect, same, result = bindings(made["main"])
    assert [kept.var.name, same.var.name, result.var.name] == ["kept", "_same", "result"]
    assert effect.value.op.global_symbol == "vmkit.test.effect"
    branch = result.value
    assert "_dead_inside" not in [b.var.name for block in branch.true_branch.blocks for b in block.bindings]


def test_functions_that_nobody_reaches_go() -> None:
    assert [gvar.name_hint for gvar in eliminate_dead_code()(Program).get_global_vars()] == ["main"]


def test_what_tvms_pass_leaves_is_what_is_left() -> None:
    ours, theirs = eliminate_dead_code()(Program), relax.transform.DeadCodeElimination()(Program)
    tvm.ir.assert_structural_equal(
        relax.transform.CanonicalizeBindings()(ours), relax.transform.CanonicalizeBindings()(theirs)
    )


def test_a_module_without_dead_values_stays_the_same_object() -> None:
    once = eliminate_dead_code()(Program)
    assert eliminate_dead_code()(once)["main"].same_as(once["main"])
