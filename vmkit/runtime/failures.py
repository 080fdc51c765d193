"""What a failure inside a running program means.

A check that the compiler put into a program fails with a message about registers. It carries a number, and the
executable keeps the text that belongs to the number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["explain_failure", "useful_line"]

_FAILURE = re.compile(r"\((-?\d+) vs\. (-?\d+)\) : ErrorContext\(match_cast.*?(7\d{12})\]\)\)", re.DOTALL)


def explain_failure(text: str, messages: Mapping[str, str]) -> str | None:
    """Return the message of the check that a run-time error's text speaks of, or None for another error.

    Parameters
    ----------
    text : str
        What the virtual machine raised.
    messages : mapping
        The texts by number; ``{actual}`` and ``{expected}`` in them stand for the two values compared.
    """
    found = _FAILURE.search(text)
    if found is None or found[3] not in messages:
        return None
    return messages[found[3]].format(actual=found[1], expected=found[2])


def useful_line(error: Exception) -> str:
    """Return what an error of TVM says, without the C++ condition that failed; the values compared are kept."""
    text = " ".join(str(error).split())
    match = re.match(r"Check failed: (?P<condition>.*?) ?: (?P<said>\S.*)", text)
    if match is None:
        return text or type(error).__name__
    said = re.sub(r"^ErrorContext\((.*)\) (match_cast error|expect)", r"\1: \2", match["said"])
    compared = re.search(r"\(([^()]* vs\. [^()]*)\)", match["condition"])
    return f"{said} ({compared[1]})" if compared else said
