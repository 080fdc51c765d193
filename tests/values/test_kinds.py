"""Every kind of value: its text, its form in JSON, what it refuses, what goes in and what comes out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from vmkit._deferred import deferred
from vmkit.errors import InputError, OptionError
from vmkit.values.conversion import ADT, RefValue, StoredTensor, StringTensor, from_runtime, to_numpy, to_runtime
from vmkit.values.kinds import (
    KINDS,
    AnySpec,
    DataSpec,
    MapSpec,
    OptionalSpec,
    SequenceSpec,
    Spec,
    TensorSpec,
    TupleSpec,
    UnrankedSpec,
)
from vmkit.values.signature import Signature
from vmkit.values.texts import ProgramTexts, open_call

CPU = tvm.cpu()
PAIR = TensorSpec("", "float32", (2,))
OPTION = DataSpec("x", "Option[int32]", ((0, "Some", 1), (1, "None", 0)))
SPECS = [
    (TensorSpec("x", "float32", ("n", 3)), "float32[n, 3]"),
    (TensorSpec("x", "int4", ()), "int4"),
    (UnrankedSpec("x", "float32"), "float32[...]"),
    (UnrankedSpec("x", "float32", ((), ("n", 2))), "float32 or float32[n, 2]"),
    (TupleSpec("x", (PAIR,)), "(float32[2],)"),
    (SequenceSpec("x", UnrankedSpec("", "bool")), "list[bool[...]]"),
    (OptionalSpec("x", SequenceSpec("", PAIR)), "list[float32[2]] | None"),
    (MapSpec("x", "string", "float32"), "dict[string, float32]"),
    (SequenceSpec("x", MapSpec("", "int64", "string", True)), "list[list[dict[int64, string]]]"),
    (OPTION, "Option[int32]"),
    (AnySpec("x", "fn (int32) -> int32"), "fn (int32) -> int32"),
]
ONES = np.ones(2, "float32")


def problems(spec: Spec, value: Any) -> list[str]:
    """Return what a call says of a value that does not fit."""
    refused: dict[str, str] = {}
    staged = spec.stage(value, "x", refused)
    with pytest.raises(InputError) as caught:
        Signature("f", (spec,)).check([staged], refused)
    return str(caught.value).splitlines()[1:]


def there_and_back(spec: Spec, value: Any) -> Any:
    """Return what a program that returns its input gives for it, as arrays."""
    refused: dict[str, str] = {}
    staged = spec.stage(value, "x", refused)
    Signature("f", (spec,)).check([staged], refused)
    return to_numpy(spec.from_runtime(to_runtime(staged, CPU)))


@pytest.mark.parametrize(("spec", "text"), SPECS, ids=[text for _, text in SPECS])
def test_its_text_and_json(spec: Spec, text: str) -> None:
    assert str(spec) == text
    data = json.loads(json.dumps(spec.to_json()))
    assert list(data)[:2] == ["kind", "name"] and KINDS[data["kind"]] is type(spec)
    assert Spec.from_json(data) == spec
    assert repr(spec).startswith(f"{type(spec).__name__}(name='x', ")


def test_every_kind_is_tried_above() -> None:
    assert {type(spec) for spec, _ in SPECS} == set(KINDS.values())


def test_an_unknown_kind_lists_the_known() -> None:
    with pytest.raises(OptionError) as caught:
        Spec.from_json({"kind": "tensr", "name": "x"})
    assert str(caught.value).startswith("unknown kind of spec 'tensr', expected ")
    assert all(kind in str(caught.value) for kind in KINDS)


@pytest.mark.parametrize(
    ("spec", "value", "text"),
    [
        (UnrankedSpec("x", "float32"), np.ones(2, "int8"), "  x: int8, expected float32[...]"),
        (UnrankedSpec("x", "float32"), "text", "  x: a str, expected float32"),
        (SequenceSpec("x", PAIR), ONES, "  x: an array, expected a list: list[float32[2]]"),
        (SequenceSpec("x", PAIR), [ONES, {}], "  x[1]: a dict, expected float32[2]"),
        (SequenceSpec("x", PAIR), [ONES[:1]], "  x[0]: dim 0 is 1, expected 2 (shape (1,), expected float32[2])"),
        (OptionalSpec("x", PAIR), {}, "  x: a dict, expected float32[2]"),
        (OptionalSpec("x", PAIR), ONES[:1], "  x: dim 0 is 1, expected 2 (shape (1,), expected float32[2])"),
        (MapSpec("x", "int64", "int8"), ONES, "  x: an array, expected dict[int64, int8]"),
        (MapSpec("x", "int64", "int8"), {"a": 1}, "  x: its keys: 'a' is no int64; expected dict[int64, int8]"),
        (MapSpec("x", "int64", "int8"), {1: 300}, "  x: its values: [300] does not fit int8, expected int8[?]"),
        (MapSpec("x", "int64", "float32"), {1: 1e300, 2: 0.5}, "  x: its values: [1e+300, 0.5] does not fit float32"),
        (MapSpec("x", "string", "int8"), {3: 1}, "  x: its keys: 3 is no string"),
        (MapSpec("x", "int64", "int8", True), {1: 3}, "  x: a dict, expected list[dict[int64, int8]]"),
        (MapSpec("x", "int64", "int8", True), [{1: 3}, {}], "  x: its keys: they differ between the dicts"),
        (MapSpec("x", "int64", "int8", True), [], "  x: its keys: a list of no dicts does not tell them"),
        (OPTION, ONES, "  x: an array, expected vmkit.ADT(tag, fields) for Option[int32]"),
        (OPTION, ADT(2), "  x: tag 2 is of no constructor of Option[int32]; its tags are 0 for Some, 1 for None"),
        (OPTION, ADT(1, [3]), "  x: None has 0 fields, got 1"),
        (TensorSpec("x", "string", ()), 3, "  x: an int, expected string: an array of objects that are str"),
        (TensorSpec("x", "string", (1,)), [b"\xff"], "  x: element 0 is no text in UTF-8"),
    ],
)
def test_what_does_not_fit(spec: Spec, value: Any, text: str) -> None:
    (problem,) = problems(spec, value)
    assert problem.startswith(text)


def test_names_of_dims_stand_for_one_extent_through_every_kind() -> None:
    named = TensorSpec("", "float32", ("n",))
    spec = TupleSpec("x", (SequenceSpec("", named), OptionalSpec("", named)))
    assert problems(spec, ([ONES, ONES], ONES[:1])) == ["  x[1]: n = 1, but x[0][0] already bound n = 2"]


def test_lists_and_missing_values_come_back_as_such() -> None:
    assert [v.tolist() for v in there_and_back(SequenceSpec("x", PAIR), (ONES, [2, 3]))] == [[1, 1], [2, 3]]
    assert there_and_back(SequenceSpec("x", PAIR), []) == []
    assert there_and_back(OptionalSpec("x", PAIR), None) is None
    assert there_and_back(OptionalSpec("x", PAIR), ONES).tolist() == [1, 1]
    nested = OptionalSpec("x", SequenceSpec("", OptionalSpec("", PAIR)))
    first, second = there_and_back(nested, [None, ONES])
    assert first is None and second.tolist() == [1, 1]


def test_values_of_a_dict_may_be_no_numbers() -> None:
    back = there_and_back(MapSpec("x", "int64", "float32"), {1: float("nan"), 2: float("-inf"), 3: 0.1})
    assert np.isnan(back[1]) and back[2] == -np.inf and back[3] == np.float32(0.1)


def test_dicts_come_back_in_the_order_of_their_keys() -> None:
    back = there_and_back(MapSpec("x", "int64", "float32"), {np.int64(7): 1, -2: 0.5})
    assert list(back.items()) == [(-2, 0.5), (7, 1.0)]
    assert {type(v) for v in (*back, *back.values())} == {int, float}
    assert there_and_back(MapSpec("x", "int64", "float32"), {}) == {}
    rows = [{2: 1, 1: 3}, {1: 4, 2: 5}]
    assert there_and_back(MapSpec("x", "int8", "int8", is_list=True), rows) == rows
    with open_call(ProgramTexts([])):
        assert there_and_back(MapSpec("x", "string", "string"), {"b": "x", "a": ""}) == {"a": "", "b": "x"}
    several = [{1: 2.0}, {3: 4.0, 5: 6.0}]
    assert there_and_back(SequenceSpec("x", MapSpec("", "int64", "float64")), several) == several


def test_a_tuple_is_taken_apart_by_its_fields() -> None:
    spec = TupleSpec("x", (PAIR, OptionalSpec("", PAIR), TensorSpec("", "int4", (1,))))
    assert spec.is_restored and not TupleSpec("x", (PAIR, AnySpec(""))).is_restored
    staged = spec.stage((ONES, None, [-8]), "x", {})
    first, second, third = spec.from_runtime(to_runtime(staged, CPU))  # type: ignore[misc]
    assert isinstance(first, tvm.runtime.Tensor) and second is None
    assert isinstance(third, StoredTensor) and str(third) == "StoredTensor(int4[1])"
    assert third.numpy().tolist() == [-8]


def test_strings_come_back_as_texts() -> None:
    spec = TensorSpec("x", "string", (2,))
    with open_call(ProgramTexts([])):
        back = spec.from_runtime(to_runtime(spec.stage(["a", "b"], "x", {}), CPU))
    assert isinstance(back, StringTensor)
    assert to_numpy(back).tolist() == ["a", "b"]


def test_data_and_anything_else_come_back_as_the_runtime_tells() -> None:
    back = there_and_back(OPTION, ADT(0, [3]))
    assert (back.tag, back[0]) == (0, 3)
    assert there_and_back(AnySpec("x"), (1, 2.5)) == (1, 2.5)
    # An array that begins with an integer is of a data type, whatever a tuple's spec says.
    assert isinstance(TupleSpec("x", (PAIR,)).from_runtime(tvm_ffi.Array([1])), ADT)


def test_a_reference_is_one_cell() -> None:
    reference = RefValue(3.0)
    cell = to_runtime(reference, CPU)
    assert to_runtime(reference, CPU).same_as(cell)
    cell[0] = tvm.runtime.tensor(np.float32(4))
    assert to_numpy(reference.value) == 4
    assert to_numpy(from_runtime(cell).value) == 4


@pytest.mark.parametrize("share", [True, False])
def test_fields_of_data_share_memory_only_if_they_may(share: bool) -> None:
    memory = np.zeros(128, "uint8")
    start = -memory.ctypes.data % 64
    array = memory[start : start + 8].view("float32")
    value = from_runtime(to_runtime(ADT(0, [array]), CPU, share=share))
    array[:] = 7
    assert value[0].numpy().tolist() == ([7, 7] if share else [0, 0])


def test_a_deferred_module_is_imported_when_it_is_used() -> None:
    module = deferred("vmkit.values.none")
    with pytest.raises(ModuleNotFoundError, match=r"vmkit\.values\.none"):
        _ = module.anything
    module = deferred("json")
    assert "dumps" not in vars(module)
    assert module.dumps([1]) == "[1]" and "dumps" in vars(module)
    with pytest.raises(AttributeError, match="dmps"):
        _ = module.dmps
