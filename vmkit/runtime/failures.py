"""What a failure inside a running program means.

A check that the compiler put into a program fails with a message about registers. It carries a number, and the
executable keeps the text that belongs to the number.

The number is looked for in the text of the error, because nothing else of a failure leaves TVM's VM: an error has no
place in the bytecode, and the VM's one builtin that fails with a message of the program's own, Relax's ``assert_op``,
is a function in Python that takes tensors, which every call would pay for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["explain_failure", "useful_line"]

_COMPARED = re.compile(r"\((-?\d+) vs\. (-?\d+)\)")
_PLACE = re.compile(r"match_cast error, +shape\[(\d+)\]")


def explain_failure(text: str, messages: Mapping[str, str]) -> str | None:
    """Return the message of the check that a run-time error's text speaks of, or None for another error.

    Parameters
    ----------
    text : str
        What the virtual machine raised.
    messages : mapping
        The texts by number; ``{actual}`` and ``{expected}`` in them stand for the two values compared.
    """
    compared = _COMPARED.search(text)
    if compared is None:
        return None
    # Whatever TVM writes around it: no dimension of a tensor comes near the numbers of checks.
    numbers = [each for each in re.findall(r"\d+", text[compared.end() :]) if each in messages]
    place = _PLACE.search(text, compared.end())
    # Several checks are made at once, each of which is two dimensions: what is compared, and its number.
    which = int(place[1]) // 2 if place is not None and len(numbers) > 1 else 0
    return messages[numbers[which]].format(actual=compared[1], expected=compared[2]) if numbers else None


def useful_line(error: Exception) -> str:
    """Return what an error of TVM says, without the C++ condition that failed; the values compared are kept."""
    text = " ".join(str(error).split())
    if text == "std::bad_alloc":
        return "the system has no memory for a tensor of the size that the inputs ask for"
    match = re.match(r"Check failed: (?P<condition>.*?) ?: (?P<said>\S.*)", text)
    if match is None:
        return text or type(error).__name__
    said = re.sub(r"^ErrorContext\((.*)\) (match_cast error|expect)", r"\1: \2", match["said"])
    compared = re.search(r"\(([^()]* vs\. [^()]*)\)", match["condition"])
    return f"{said} ({compared[1]})" if compared else said
