"""The choices of an executor and a runtime are checked, compared and listed as TVM 0.14 did."""

from __future__ import annotations

import pytest

from vmkit.compat.build_choices import Executor, Runtime
from vmkit.errors import OptionError


def test_options_are_read_by_name() -> None:
    executor = Executor("aot", {"unpacked-api": True, "workspace-byte-alignment": 8})
    assert str(executor) == executor.name == "aot"
    assert executor["unpacked-api"] is True and executor["workspace-byte-alignment"] == 8
    assert "interface-api" not in executor
    with pytest.raises(KeyError, match="'interface-api' of the Executor 'aot' is not set"):
        executor["interface-api"]


def test_what_has_a_default_is_there() -> None:
    assert Executor("graph")["link-params"] is False
    assert Executor("aot")["link-params"] is True


def test_equal_choices_are_equal_and_hash_alike() -> None:
    one, other = Executor("graph", {"link-params": False}), Executor("graph")
    assert one == other and hash(one) == hash(other)
    assert one != Executor("graph", {"link-params": True}) and one != Executor("aot")
    assert Runtime("cpp") != Executor("graph")


@pytest.mark.parametrize(
    ("kind", "name", "options", "message"),
    [
        (Executor, "vm", {}, 'Executor "vm" is not defined; expected one of graph, aot'),
        (Runtime, "c", {}, 'Runtime "c" is not defined'),
        (Executor, "graph", {"link-param": True}, 'Attribute "link-param" is not available on this Executor'),
        (Executor, "graph", {"link-params": "yes"}, 'should have type "IntImm" but instead found "runtime.String"'),
        (Executor, "aot", {"interface-api": 1}, 'should have type "runtime.String" but instead found "IntImm"'),
        (Runtime, "crt", {"system-lib": 0.5}, 'should have type "IntImm" but instead found "FloatImm"'),
    ],
)
def test_a_wrong_choice_says_what_is_wrong(kind: type, name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        kind(name, options)
    assert message in str(caught.value)


def test_names_and_options_are_listed() -> None:
    assert Runtime.list_registered() == ["cpp", "crt"]
    assert Executor.list_registered_options(Executor("graph")) == {"link-params": "IntImm"}
    with pytest.raises(OptionError, match="not defined"):
        Executor.list_registered_options("vm")
