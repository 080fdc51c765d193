"""Passes are found by their names, with the options and levels that Relay 0.14 gave them."""

from __future__ import annotations

import inspect

import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.compiler import pass_names as passes
from vmkit.errors import OptionError
from vmkit.relay import transform

# name -> parameters with defaults, optimisation level, name of the pass where it is another
RELAY_0_14 = {
    "BackwardFoldScaleAxis": ({}, 3),
    "CanonicalizeCast": ({}, 3),
    "CanonicalizeOps": ({}, 3),
    "CombineParallelBatchMatmul": ({"min_num_branches": 3}, 4),
    "CombineParallelConv2D": ({"min_num_branches": 3}, 4, "CombineParallelConv2d"),
    "CombineParallelDense": ({"min_num_branches": 3, "to_batch": True}, 4),
    "ConvertLayout": ({"desired_layouts": {"nn.conv2d": ["NCHW", "default"]}}, 3),
    "DeadCodeElimination": ({"inline_once": False, "ignore_impurity": False}, 1),
    "DefuseOps": ({}, 3),
    "DynamicToStatic": ({}, 2),
    "EliminateCommonSubexpr": ({"fskip": None}, 3),
    "EtaExpand": ({"expand_constructor": False, "expand_global_var": False}, 1),
    "FastMath": ({}, 4),
    "FlattenAtrousConv": ({}, 0),
    "FoldConstant": ({"fold_qnn": False}, 2),
    "FoldScaleAxis": ({}, 3),
    "ForwardFoldScaleAxis": ({}, 3),
    "InferType": ({}, 0),
    "Inline": ({}, 1),
    "RemoveUnusedFunctions": ({"entry_functions": None}, 1),
    "SimplifyExpr": ({}, 0),
    "SimplifyInference": ({}, 0),
    "SplitArgs": ({"max_function_args": 8}, 1),
    "ToANormalForm": ({}, 1),
    "ToBasicBlockNormalForm": ({}, 1),
    "ToGraphNormalForm": ({}, 1),
    "ToMixedPrecision": ({"mixed_precision_type": "float16", "missing_op_mode": 1}, 0),
}


@pytest.mark.parametrize("name", RELAY_0_14)
def test_a_pass_has_the_signature_that_it_had(name: str) -> None:
    values, level, *other = RELAY_0_14[name]
    make = getattr(transform, name)
    signature = inspect.signature(make).parameters
    # What vmkit has beside Relay's parameters is given by keyword.
    parameters = {n: p for n, p in signature.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY}
    assert list(parameters) == list(values)
    assert {n: p.default for n, p in parameters.items() if p.default is not p.empty} == {
        n: v for n, v in values.items() if parameters[n].default is not inspect.Parameter.empty
    }
    made = make(**values)
    assert isinstance(made, tvm.transform.Pass)
    assert (made.info.name, made.info.opt_level) == ((other or [name])[0], level)
    assert make.__doc__


def test_names_are_known_to_disabled_pass() -> None:
    assert passes.known_passes() >= transform.PASS_NAMES
    assert not transform.PASS_NAMES & passes.RELAY_ONLY


def test_an_unknown_pass_suggests_a_known_one() -> None:
    with pytest.raises(AttributeError, match="no pass 'SimplifyExp'; did you mean 'SimplifyExpr'"):
        transform.SimplifyExp  # noqa: B018
    assert {"Inline", "Sequential", "function_pass"} <= set(dir(transform))


def test_a_pass_leaves_functions_of_other_dialects_alone() -> None:
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(a: T.handle) -> None:
        T.evaluate(0)

    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule({"kernel": kernel, "main": relay.Function([x], x + relay.const(0.0))})
    simpler = transform.SimplifyExpr()(mod)
    assert simpler["kernel"].same_as(mod["kernel"]) and simpler["main"].body.same_as(simpler["main"].params[0])


def test_the_type_of_one_expression() -> None:
    assert str(transform.InferTypeLocal(relay.var("x", shape=(2,)) + relay.const(1.0))) == "Tensor[(2), float32]"


def test_a_pass_of_a_user_is_known_by_its_name() -> None:
    @transform.module_pass(opt_level=4, name="GoesOn")
    def goes_on(mod: tvm.IRModule, _: object) -> tvm.IRModule:
        seen.append(len(mod.functions))
        return mod

    @transform.module_pass(opt_level=4)
    class Counts:
        def __init__(self, step: int) -> None:
            self.step = step

        def transform_module(self, mod: tvm.IRModule, _: object) -> tvm.IRModule:
            seen.append(self.step)
            return mod

    seen: list[int] = []
    passes_of_user = tvm.transform.Sequential([goes_on, Counts(7)])
    passes_of_user(tvm.IRModule())
    assert seen == []
    with vmkit.PassContext(required_pass=["GoesOn", "Counts"]):
        passes_of_user(tvm.IRModule())
    assert seen == [0, 7]
    with pytest.raises(OptionError, match="there is no pass 'GoesOnn'; did you mean 'GoesOn'"):
        vmkit.PassContext(required_pass=["GoesOnn"])
    with pytest.raises(ValueError, match="module_pass needs opt_level"):
        transform.module_pass(name="Nameless")
