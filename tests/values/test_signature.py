"""What a signature prints, binds, accepts and refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from vmkit.errors import InputError, OptionError
from vmkit.values.signature import AnySpec, Signature, TensorSpec, TupleSpec

IMAGE = TensorSpec("x", "float32", ("n", 3, 4))
MASK = TensorSpec("mask", "bool", ("n",))
SIGNATURE = Signature("main", (IMAGE, MASK), (TensorSpec("logits", "float32", ("n", 10)),))
STATE = TupleSpec("state", (TensorSpec("", "int64", ("n",)), TupleSpec("", (TensorSpec("", "int64", ()),))))


def text_of(signature: Signature, values: list[Any], refused: dict[str, str] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        signature.check(values, refused)
    return str(caught.value)


def test_import_costs_neither_tvm_nor_numpy() -> None:
    program = "import sys, vmkit.values.signature; print([m for m in ('tvm', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (SIGNATURE, "main(x: float32[n, 3, 4], mask: bool[n]) -> (logits: float32[n, 10])"),
        (Signature("f", (), (TensorSpec("", "float32", ()),)), "f() -> float32"),
        (Signature("f", (AnySpec("list"),)), "f(list: any)"),
        (Signature("f", (), (), result_is_tuple=True), "f() -> ()"),
        (Signature("f", (), (TensorSpec("", "int8", ("2*n + 1",)),), True), "f() -> (int8[2*n + 1],)"),
        (
            Signature("f", (STATE,), (TensorSpec("a", "int8", ("?",)), TensorSpec("", "bool", (0,)))),
            "f(state: (int64[n], (int64,))) -> (a: int8[?], bool[0])",
        ),
    ],
)
def test_a_signature_prints_and_survives_json(signature: Signature, text: str) -> None:
    assert str(signature) == text
    assert Signature.from_json(signature.to_json()) == signature


@pytest.mark.parametrize("dim", [-1, 1.5, True, "", None])
def test_a_dim_is_an_extent_or_a_name(dim: Any) -> None:
    with pytest.raises(OptionError, match="is neither an extent, nor a name"):
        TensorSpec("x", "float32", (dim,))


def test_parameter_names_are_unique() -> None:
    with pytest.raises(OptionError, match="more than one parameter is named 'x'"):
        Signature("f", (IMAGE, IMAGE))


def test_bind_orders_values_by_parameter() -> None:
    assert SIGNATURE.bind((1, 2), {}) == [1, 2]
    assert SIGNATURE.bind((1,), {"mask": 2}) == [1, 2]
    assert SIGNATURE.bind((), {"mask": 2, "x": 1}) == [1, 2]


def test_bind_reports_everything_at_once() -> None:
    with pytest.raises(InputError) as caught:
        SIGNATURE.bind((1,), {"x": 2, "maks": 3})
    assert str(caught.value) == (
        "the arguments do not fit main(x: float32[n, 3, 4], mask: bool[n])\n"
        "  x: given by position 0 and by name\n"
        "  maks: no such input; did you mean 'mask'?\n"
        "  mask: missing, expected bool[n]"
    )


def test_bind_counts_positional_arguments() -> None:
    with pytest.raises(InputError, match="3 positional arguments, expected at most 2"):
        SIGNATURE.bind((1, 2, 3), {})


def test_matching_inputs_pass_and_zero_is_an_extent() -> None:
    for n in (0, 1, 5):
        SIGNATURE.check([np.zeros((n, 3, 4), "float32"), np.zeros(n, bool)])


def test_dtype_and_name_mismatches_come_in_one_error() -> None:
    assert text_of(SIGNATURE, [np.zeros((8, 3, 4)), np.zeros(4, bool)]) == (
        "2 inputs do not match main(x: float32[n, 3, 4], mask: bool[n])\n"
        '  x: dtype float64, expected float32; pass x.astype("float32")\n'
        "  mask: n = 4, but x already bound n = 8"
    )


def test_rank_mismatch() -> None:
    assert text_of(SIGNATURE, [np.zeros((8, 3), "float32"), np.zeros(8, bool)]) == (
        "1 input does not match main(x: float32[n, 3, 4], mask: bool[n])\n"
        "  x: rank 2 (shape (8, 3)), expected rank 3: float32[n, 3, 4]"
    )


def test_fixed_dim_mismatches_are_named_by_axis() -> None:
    assert text_of(SIGNATURE, [np.zeros((8, 4, 5), "float32"), np.zeros(8, bool)]).splitlines()[1:] == [
        "  x: dim 1 is 4, expected 3 (shape (8, 4, 5), expected float32[n, 3, 4])",
        "  x: dim 2 is 5, expected 4 (shape (8, 4, 5), expected float32[n, 3, 4])",
    ]


def test_a_name_unifies_inside_one_input() -> None:
    square = Signature("f", (TensorSpec("a", "int8", ("k", "k")),))
    square.check([np.zeros((3, 3), "int8")])
    assert "a: k = 4, but a already bound k = 3" in text_of(square, [np.zeros((3, 4), "int8")])


def test_an_anonymous_dim_does_not_unify() -> None:
    Signature("f", (TensorSpec("a", "int8", ("?", "?")),)).check([np.zeros((3, 4), "int8")])


def test_foreign_byte_order_is_another_dtype() -> None:
    assert "dtype >f4, expected float32" in text_of(SIGNATURE, [np.zeros((1, 3, 4), ">f4"), np.zeros(1, bool)])


def test_tuples_are_checked_to_their_leaves() -> None:
    signature = Signature("f", (TensorSpec("x", "int64", ("n",)), STATE))
    x, scalar = np.zeros(2, "int64"), np.zeros((), "int64")
    signature.check([x, (x, (scalar,))])
    assert "state[0]: n = 3, but x already bound n = 2" in text_of(signature, [x, (np.zeros(3, "int64"), (scalar,))])
    assert "state[1][0]: rank 1" in text_of(signature, [x, (x, (x,))])
    assert "state[1]: a tuple of 2, expected 1 fields: (int64,)" in text_of(signature, [x, (x, (x, x))])
    assert "state: an array, expected a tuple (int64[n], (int64,))" in text_of(signature, [x, x])


def test_what_is_not_an_array_is_named() -> None:
    lines = text_of(SIGNATURE, [None, {}]).splitlines()
    assert lines[1:] == ["  x: None, expected float32[n, 3, 4]", "  mask: a dict, expected bool[n]"]


def test_refusals_of_the_conversion_join_the_list() -> None:
    text = text_of(SIGNATURE, [None, np.zeros(4, "int8")], {"x": "cannot be read"})
    assert text.splitlines()[1:] == [
        "  x: cannot be read",
        '  mask: dtype int8, expected bool; pass mask.astype("bool")',
    ]
