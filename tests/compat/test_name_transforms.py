"""Names in C's styles, fresh names, and the prefix of a module's functions."""

from __future__ import annotations

import pytest
import tvm

from vmkit import relay
from vmkit.compat.backend_names import mangle_module_name
from vmkit.compat.name_transforms import (
    prefix_generated_name,
    prefix_name,
    sanitize_name,
    to_c_constant_style,
    to_c_function_style,
    to_c_variable_style,
)
from vmkit.compat.supply import GlobalVarSupply, NameSupply
from vmkit.errors import InputError


def test_a_prefixed_name_in_each_style() -> None:
    name = prefix_generated_name(["my_model", "run"])
    assert name == "TVMGen_my_model_run"
    assert to_c_function_style(name) == "TVMGenMyModelRun"
    assert to_c_variable_style(name) == "tvmgen_my_model_run"
    assert to_c_constant_style(prefix_name("size")) == "TVM_SIZE"


def test_what_c_has_not_in_names_becomes_an_underscore() -> None:
    assert sanitize_name("conv/weight:0") == "conv_weight_0"
    assert sanitize_name("größe") == "gr__e"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: to_c_function_style("run"), "Function not TVM prefixed: run"),
        (lambda: to_c_variable_style(""), "Variable name is empty"),
        (lambda: prefix_name([]), "Name segments empty"),
        (lambda: prefix_name(["a", ""]), "Name segment is empty"),
        (lambda: sanitize_name(""), "Name is empty"),
    ],
)
def test_a_name_that_is_none_is_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        call()


def test_the_prefix_of_a_module() -> None:
    assert mangle_module_name("net") == "tvmgen_net" and mangle_module_name(None) == "tvmgen"
    with pytest.raises(ValueError, match="ASCII"):
        mangle_module_name("netz_ü")


def test_a_supply_gives_each_name_once() -> None:
    supply = GlobalVarSupply(NameSupply("p"))
    first = supply.fresh_global("f")
    assert first.name_hint == "p_f" and supply.fresh_global("f").name_hint == "p_f_1"
    assert supply.unique_global_for("f").same_as(first)
    with pytest.raises(ValueError, match="a global variable p_f already"):
        supply.reserve_global(tvm.ir.GlobalVar("p_f"))


def test_a_supply_knows_the_functions_of_a_module() -> None:
    x = relay.var("x", shape=(1,))
    gvar = relay.GlobalVar("helper")
    supply = GlobalVarSupply(tvm.IRModule({gvar: relay.Function([x], x)}))
    assert supply.unique_global_for("helper", add_prefix=False).same_as(gvar)
    assert supply.fresh_global("helper", add_prefix=False).name_hint == "helper_1"
    assert supply.unique_global_for("helper").name_hint == "tvmgen_default_helper"
