"""What is too large for the compiler is an error that says which operator it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import vmkit
from vmkit import relay
from vmkit.compiler import stages
from vmkit.errors import CompileError, CompileMemoryError, VMKitError

LARGE = 1 << 31
X = relay.var("x", shape=(LARGE,), dtype="int8")
Y = relay.var("y", shape=(2, 3))
Z = relay.var("z", shape=(2, LARGE), dtype="int8")
W = relay.var("w", shape=(2, LARGE))


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (relay.Function([X], relay.reverse(X, 0)), r"reverse \(int8\[2147483648\]\)"),
        (relay.Function([Z], relay.transpose(Z)), r"transpose \(int8\[2, 2147483648\]\)"),
        (relay.Function([W], relay.argmax(W)), r"argmax \(float32\[2, 2147483648\]\)"),
    ],
    ids=["reverse", "transpose", "argmax"],
)
def test_a_size_beyond_32_bits_names_the_operator(function: relay.Function, named: str) -> None:
    with pytest.raises(CompileError, match=f"^a size does not fit into 32 bits, .*: {named}; expected at most"):
        vmkit.compile(function, "llvm")


def test_long_loops_over_elements_have_room() -> None:
    body = [relay.exp(relay.cast(X, "float32")), relay.tile(Y, (LARGE, 1)), relay.argsort(X), relay.cumsum(X)]
    assert "float32[4294967296, 3]" in str(vmkit.compile(relay.Function([X, Y], relay.Tuple(body)), "llvm").signature)


def test_runs_that_are_copied_have_room() -> None:
    function = relay.Function([X], relay.reshape(X, (2, LARGE // 2)))
    assert "int8[2, 1073741824]" in str(vmkit.compile(function, "llvm").signature)


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(error: Exception) -> Callable[..., object]:
        def lower(*_: object) -> object:
            raise error

        return lower

    small = relay.Function([Y], relay.exp(Y))
    for error, kind, said in (
        (MemoryError(), CompileMemoryError, "there is not enough memory to compile the model: no more is left"),
        (MemoryError("of 8 GB"), CompileMemoryError, "not enough memory to compile the model: of 8 GB"),
        (KeyError("k"), KeyError, "k"),
    ):
        monkeypatch.setattr(stages, "to_relax", failing(error))
        with pytest.raises(kind, match=said) as caught:
            vmkit.compile(small, "llvm")
        assert isinstance(caught.value, VMKitError) == (kind is CompileMemoryError)
