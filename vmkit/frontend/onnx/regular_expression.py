"""Regular expressions of RE2, which ONNX means, in Python's form.

>>> python_pattern(r"[[:alpha:]]+\\z")
'[A-Za-z]+\\\\Z'

Source: https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re

from ...errors import ModelError, UnsupportedOperatorError

__all__ = ["python_pattern"]

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": r"!-~", "lower": "a-z", "print": r" -~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": r"0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_PARTS = re.compile(
    r"""(?P<quoted>\\Q(?P<literal>.*?)(\\E|\Z))
      | \\x\{(?P<code>[0-9A-Fa-f]+)\}
      | (?P<octal>\\0[0-7]{0,2}|\\[1-7][0-7]{2})
      | (?P<escape>\\.)
      | (?P<named>\(\?P?<(?P<name>\w+)>)
      | (?P<group>\(\?(?P<flags>[imsU-]*)[:)])
      | (?P<other_group>\(\?)
      | (?P<set>\[\^?\]?)
      | (?P<possessive>(?:[*+?]|\{\d+(?:,\d*)?\})\+)
      | (?P<brace>\{(?!\d+(?:,\d*)?\}))
      | (?P<end>\$)
      | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)
_SET_PARTS = re.compile(
    r"""\[:(?P<no>\^?)(?P<posix>\w+):\]
      | \\x\{(?P<code>[0-9A-Fa-f]+)\}
      | (?P<escape>\\.)
      | (?P<close>\])
      | (?P<special>\[|&&|--|~~|\|\|)
      | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)
# Escapes that mean the same in both, for whole texts and ASCII classes.
_SAME = frozenset("AbBdDsSwWafnrtvx")
_SAME_IN_SETS = frozenset("dDsSwWafnrtvx")


def python_pattern(pattern: str) -> str:
    """Return a pattern of RE2 as Python's ``re`` takes it.

    Raises
    ------
    ModelError
        For what is no pattern of RE2.
    UnsupportedOperatorError
        For what only RE2 has: classes of Unicode (``\\pL``), single bytes (``\\C``) and swapped greediness (``(?U)``).
    """
    try:
        made = _translated(pattern)
        re.compile(made)
    except re.error as error:
        raise ModelError(f"the pattern {pattern!r} is not a regular expression: {error}") from error
    return made


def _translated(pattern: str) -> str:
    done: list[str] = ["(?a)"] if re.search(r"\\[dDsSwWbB]", pattern) else []
    multiline = re.search(r"\(\?[a-zA-Z]*m", pattern) is not None
    at = 0
    while at < len(pattern):
        part = _PARTS.match(pattern, at)
        assert part is not None, "the last alternative matches anything"
        at = part.end()
        match part.lastgroup:
            case "quoted":
                done.append(re.escape(part["literal"]))
            case "code":
                done.append(_character(part["code"]))
            case "octal":
                done.append(re.escape(chr(int(part["octal"][1:], 8))))
            case "escape":
                done.append(_escape(part["escape"][1], pattern))
            case "named":
                done.append(f"(?P<{part['name']}>")
            case "group":
                done.append(_group(part[0], part["flags"], pattern))
            case "other_group":
                raise ModelError(f"the pattern {pattern!r} holds {pattern[part.start() :][:4]!r}, which RE2 lacks")
            case "set":
                at = _set(pattern, at, part["set"], done)
            case "possessive":
                raise ModelError(f"the pattern {pattern!r} repeats a repetition, {part[0]!r}")
            case "brace":
                done.append(r"\{")
            case "end":
                done.append("$" if multiline else r"\Z")
            case _:
                done.append(part[0])
    return "".join(done)


def _character(code: str) -> str:
    if int(code, 16) > 0x10FFFF:
        raise ModelError(f"there is no character {code}")
    return re.escape(chr(int(code, 16)))


def _escape(letter: str, pattern: str) -> str:
    if letter == "z":
        return r"\Z"
    if letter in "pPC":
        raise UnsupportedOperatorError(f"the pattern {pattern!r} holds \\{letter}, which is not supported")
    if letter.isalnum() and letter not in _SAME:
        raise ModelError(f"the pattern {pattern!r} holds \\{letter}, which RE2 lacks")
    return f"\\{letter}"


def _group(text: str, flags: str, pattern: str) -> str:
    if "U" in flags:
        raise UnsupportedOperatorError(f"the pattern {pattern!r} swaps greediness by (?U), which is not supported")
    if text.endswith(")"):
        on, _, off = flags.partition("-")
        if off:
            raise UnsupportedOperatorError(f"the pattern {pattern!r} ends flags by {text!r}, which is not supported")
        if not pattern.startswith(text):
            raise UnsupportedOperatorError(f"the pattern {pattern!r} has flags, {text!r}, behind its begin")
        return f"(?{on})" if on else ""
    return text


def _set(pattern: str, at: int, opening: str, done: list[str]) -> int:
    """Translate a set whose opening ends at a place, and return where it ends."""
    done.append(opening.replace("]", r"\]"))
    while at < len(pattern):
        part = _SET_PARTS.match(pattern, at)
        assert part is not None, "the last alternative matches anything"
        at = part.end()
        if part["posix"] is not None:
            if part["posix"] not in _CLASSES:
                raise ModelError(f"the pattern {pattern!r} holds {part[0]!r}, which is no class")
            if part["no"]:
                raise UnsupportedOperatorError(f"the pattern {pattern!r} holds {part[0]!r}, which is not supported")
            done.append(_CLASSES[part["posix"]])
        elif part["code"] is not None:
            done.append(_character(part["code"]))
        elif part["escape"] is not None:
            letter = part["escape"][1]
            if letter in "pP":
                raise UnsupportedOperatorError(f"the pattern {pattern!r} holds \\{letter}, which is not supported")
            if letter.isalpha() and letter not in _SAME_IN_SETS:
                raise ModelError(f"the pattern {pattern!r} holds \\{letter} in a set, which RE2 lacks")
            done.append(part["escape"])
        elif part["close"] is not None:
            done.append("]")
            return at
        else:
            done.append(re.escape(part[0]) if part["special"] else part[0])
    raise ModelError(f"the pattern {pattern!r} has a set that does not end")
