"""How numbers stand for texts in a program: by what it does with them, and without a difference to its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import ExecutableError
from vmkit.executable.build_info import BuildInfo
from vmkit.relay.ir import Expr, Var
from vmkit.relay.op import build
from vmkit.relay.op.text import string_constant, text_numbers
from vmkit.values.digests import digests

_COLOURS = np.array(["red", "é", ""], object)
_N = tvm.tirx.Var("n", "int64")
_GIVEN = np.array(["red", "b", "b", "a text that is longer than most words are", "", "é"], object)
_OTHER = np.array(["red", "b", "c", "a text that is longer than most words are", "é", "b"], object)


def _place(x: Var) -> Expr:
    return build("contrib_find", text_numbers(x, _COLOURS), relay.const(np.sort(digests(_COLOURS))))


_PLACES = np.argsort(np.argsort(digests(_COLOURS))).tolist()
_CASES: dict[str, tuple[str, Callable[[Var, Var], Expr], object]] = {
    "moved": ("placed", lambda x, y: relay.reverse(x, 0), _GIVEN[::-1]),
    "read": ("placed", lambda x, y: build("contrib_string_concatenate", x, y), _GIVEN + _OTHER),
    "a constant beside": (
        "placed",
        lambda x, y: relay.concatenate([string_constant(_COLOURS), x, y], 0),
        np.concatenate([_COLOURS, _GIVEN, _OTHER]),
    ),
    "looked up": ("known", lambda x, y: _place(x), [_PLACES[0], 3, 3, 3, _PLACES[2], _PLACES[1]]),
    "looked up once joined": (
        "interned",
        lambda x, y: _place(build("contrib_string_concatenate", x, string_constant(np.array([""], object)))),
        [_PLACES[0], 3, 3, 3, _PLACES[2], _PLACES[1]],
    ),
    "compared": ("interned", lambda x, y: relay.equal(x, y), [True, True, False, True, False, False]),
    "compared as stored": (
        "digests",
        lambda x, y: relay.equal(build("contrib_to_stored", x), build("contrib_to_stored", y)),
        [True, True, False, True, False, False],
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_results_do_not_depend_on_the_numbers(name: str) -> None:
    numbering, body, expected = _CASES[name]
    x, y = (relay.var(each, shape=(_N,), dtype="string") for each in "xy")
    executable = vmkit.compile(relay.Function([x, y], body(x, y)), target="llvm")
    assert executable.info.text_numbers == numbering
    # None is what older files have.
    for numbers in (numbering, None):
        executable.info = replace(executable.info, text_numbers=numbers)
        machine = vmkit.VirtualMachine(executable)
        for _ in range(2):
            assert machine.run(_GIVEN, _OTHER).numpy().tolist() == list(expected)


@pytest.mark.parametrize(("labels", "numbering"), [([4, 7], "known"), (["no", "é"], "interned")])
def test_maps_of_numbers_do_not_read_texts(labels: list[object], numbering: str) -> None:
    x = relay.var("x", shape=(_N,), dtype="string")
    places = relay.cast(_place(x), "float32")
    rows = relay.stack([places, relay.negative(places)], 1)
    texts = np.array(labels, object)
    keys = relay.const(np.array(labels)) if numbering == "known" else string_constant(texts)
    executable = vmkit.compile(relay.Function([x], build("map.construct", keys, rows)), target="llvm")
    assert executable.info.text_numbers == numbering
    machine = vmkit.VirtualMachine(executable)
    for given, place in [("red", _PLACES[0]), ("b", 3), ("é", _PLACES[1]), ("red", _PLACES[0])]:
        assert machine.run(np.array([given], object)) == [dict(zip(labels, [place, -place], strict=True))]


def test_programs_without_strings_have_no_numbers() -> None:
    x = relay.var("x", shape=(2,))
    info = vmkit.compile(relay.Function([x], relay.negative(x)), target="llvm").info
    assert info.texts is None and info.text_numbers is None


def test_a_numbering_that_is_not_known_is_refused() -> None:
    with pytest.raises(ExecutableError, match="text_numbers is 'other'"):
        BuildInfo.from_json({"texts": [], "text_numbers": "other"})
