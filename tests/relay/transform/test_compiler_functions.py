"""Functions for another compiler, taken out of the program and put back."""

from __future__ import annotations

import pytest
import tvm
import tvm_ffi

from tests.relay.transform.passes import module, operators
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.transform import (
    InlineCompilerFunctionsBoundTo,
    MarkCompilerFunctionsAsExtern,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
)

OUTLINE = OutlineCompilerFunctionsWithExistingGlobalSymbols


def foreign(compiler: str, name: str) -> relay.Function:
    """Return a function for another compiler around a composite function."""
    p, q = (relay.var("p", shape=(2,)) for _ in range(2))
    inner = relay.Function([q], relay.exp(relay.tanh(q)), attrs={"Composite": f"{compiler}.pair"})
    return relay.Function([p], inner(p), attrs={"Compiler": compiler, "global_symbol": name, "Inline": 1})


def names(mod: tvm.IRModule) -> list[str]:
    return sorted(gvar.name_hint for gvar in mod.functions)


@pytest.mark.parametrize("is_bound", [False, True])
def test_functions_of_one_compiler_become_global(is_bound: bool) -> None:
    x, f = relay.var("x", shape=(2,)), relay.Var("f")
    function = foreign("npu", "npu_0")
    body = relay.Let(f, function, f(f(x))) if is_bound else function(function(x))
    mod = OUTLINE("npu")(module(relay.nn.relu(body) + foreign("dsp", "dsp_0")(x), x))
    assert names(mod) == ["main", "npu_0"]
    assert str(mod["npu_0"].attrs["Compiler"]) == "npu"
    assert operators(mod["main"]) == ["nn.relu", "tanh", "exp", "add"]
    assert names(OUTLINE()(mod)) == ["dsp_0", "main", "npu_0"]


def test_functions_that_are_made_elsewhere_have_no_attribute_but_that() -> None:
    x = relay.var("x", shape=(2,))
    mod = MarkCompilerFunctionsAsExtern("npu")(OUTLINE()(module(foreign("npu", "npu_0")(x), x)))
    assert dict(mod["npu_0"].attrs.items()) == {"Extern": 1}


def test_what_was_taken_out_comes_back_in_operators() -> None:
    x = relay.var("x", shape=(2,))
    outlined = OUTLINE()(module(foreign("npu", "npu_0")(x), x))
    mod = InlineCompilerFunctionsBoundTo([outlined.get_global_var("npu_0")])(outlined)
    assert names(mod) == ["main"]
    wanted = relay.Function([x], relay.exp(relay.tanh(x)))
    assert tvm_ffi.structural_equal(mod["main"].body, wanted.body, map_free_vars=True)


def test_functions_that_cannot_be_taken_out_are_refused() -> None:
    x, p = relay.var("x", shape=(2,)), relay.var("p", shape=(2,))
    nameless = relay.Function([p], relay.exp(p), attrs={"Compiler": "npu"})
    with pytest.raises(ModelError, match="a function for npu has no global_symbol to be known by"):
        OUTLINE()(module(nameless(x), x))
    closure = relay.Function([p], p + x, attrs={"Compiler": "npu", "global_symbol": "f"})
    with pytest.raises(ModelError, match="function f uses variables from around it: x"):
        OUTLINE()(module(closure(x), x))
    with pytest.raises(ModelError, match="no function for another compiler: main, other"):
        InlineCompilerFunctionsBoundTo([relay.GlobalVar("main"), relay.GlobalVar("other")])(module(relay.exp(x), x))
