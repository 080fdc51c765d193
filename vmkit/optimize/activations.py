"""Which calls after a layer are a function of each number by itself, which the layer's kernel computes as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from .._dataclasses import dataclass
from ..kernels.activation import OPERATIONS
from ..relay.ir import Call, Op, RelayExpr, dims
from .constants import number_of

__all__ = ["Activation", "activation_after"]

_MOST_CALLS = 8
_MOST_WORDS = 24  # of a program, in which stands several times what is used several times
_OF_CONSTANT = ("maximum", "minimum")  # what is not constant of two has to be the first


@dataclass(frozen=True)
class Activation:
    """Calls that are one function of what a layer gives.

    Attributes
    ----------
    end : Call
        The last of them, which alone is used elsewhere.
    calls : list of Call
        All of them.
    path : list of int
        From the end to the layer, which argument of a call the one before is.
    program : str
        The function, for :mod:`vmkit.kernels.activation`.
    """

    end: Call
    calls: list[Call]
    path: list[int]
    program: str


def activation_after(node: RelayExpr, users: Mapping[Any, Sequence[Any]], taken: Set[RelayExpr]) -> Activation | None:
    """Return the longest function of a typed node that nothing else reads the inside of; None if there is none.

    What is `taken` already is not of it.
    """
    programs: dict[RelayExpr, str] = {node: "x"}
    paths: dict[RelayExpr, list[int]] = {node: []}
    calls: list[Call] = []
    best: Activation | None = None
    while len(calls) < _MOST_CALLS:
        readers = (user for each in programs for user in users.get(each, ()) if user not in programs)
        call = next((each for each in readers if _is_of(each, programs, node) and each not in taken), None)
        program = None if call is None else _program(call, programs)
        if call is None or program is None:
            break
        at = next(i for i, arg in enumerate(call.args) if arg in programs)
        paths[call] = [at, *paths[call.args[at]]]
        programs[call] = program
        calls.append(call)
        inside = [each for each in programs if each is not call]
        if all(user in programs for each in inside for user in users[each]):
            best = Activation(call, calls.copy(), paths[call], program)
    return best


def _is_of(call: RelayExpr, known: Mapping[RelayExpr, str], like: RelayExpr) -> bool:
    """Say whether a node is an operator of the table on what is known and constants, of the shape that this has."""
    if not (isinstance(call, Call) and isinstance(call.op, Op) and call.op.name in _NAMES):
        return False
    if not all(arg in known or number_of(arg) is not None for arg in call.args):
        return False
    made, have = call.checked_type.shape, like.checked_type.shape
    return len(made) == len(have) and all(dims.equal(a, b) is True for a, b in zip(made, have, strict=True))


def _program(call: Call, known: Mapping[RelayExpr, str]) -> str | None:
    """Return the program of a call of what is known; None where there is none, or one that is too long."""
    name, attrs = call.op.name, call.attrs
    values = [known[arg] if arg in known else _text(number_of(arg)) for arg in call.args]
    if name == "clip":
        words = [*values, _text(attrs.a_min), "maximum", _text(attrs.a_max), "minimum"]
    elif name == "nn.relu":
        words = [*values, "0.0", "maximum"]
    elif name == "nn.leaky_relu":
        words = [*values, _text(attrs.alpha), name]
    elif name in _OF_CONSTANT:
        if all(arg in known for arg in call.args):
            return None
        words = [*sorted(values, key=lambda value: "x" not in value.split()), name]
    else:
        words = [*values, name]
    program = " ".join(words)
    return program if len(program.split()) <= _MOST_WORDS else None


def _text(value: float | None) -> str:
    assert value is not None
    return repr(float(value))


_NAMES = {*OPERATIONS, "clip", "nn.relu"}
