"""Reading the command-line form of a target, ``llvm -mcpu=skylake-avx512 -num-cores=4 --host=llvm``.

TVM took this form until 0.24 and takes only JSON since. Here it becomes the dict that TVM takes, and every option keeps
its place in the text for error messages.
"""

from __future__ import annotations

import re
from typing import Any

from vmkit.target.options import OptionTable
from vmkit.target.source import Problem, Source

from .._dataclasses import dataclass

__all__ = ["parse_command_line", "split_host"]

_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
_QUOTES = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_TOP_LEVEL_COMMA = re.compile(r""",\s+(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")


@dataclass(frozen=True)
class _Word:
    text: str
    start: int
    end: int

    @property
    def is_option(self) -> bool:
        return self.text.startswith("-")


def split_host(text: str) -> list[str]:
    """Split ``"cuda -arch=sm_80, llvm -mcpu=znver4"`` at the commas between targets; commas inside lists stay."""
    return [part.strip() for part in _TOP_LEVEL_COMMA.split(text)]


def parse_command_line(text: str) -> tuple[dict[str, Any], Source, list[Problem]]:
    """Return the configuration that `text` spells, the source to report errors against, and what was wrong.

    Options that do not exist or whose value has the wrong type are left out of the configuration and reported as
    problems; an unknown kind, without which nothing can be read, raises ``TargetError``.
    """
    words = [_Word(match[0], match.start(), match.end()) for match in _WORD.finditer(text)]
    if not words:
        raise Source(text).error([Problem("kind", "the text is empty; expected a target kind such as 'llvm'")])
    spans = {"kind": (words[0].start, words[0].end)}
    if words[0].is_option:
        raise Source(text, spans).error([Problem("kind", "a target starts with its kind, such as 'llvm'")])
    source = Source(text, spans)
    table = OptionTable.for_name(words[0].text, source)
    config: dict[str, Any] = {table.key: words[0].text}
    problems: list[Problem] = []
    rest = words[1:]
    while rest:
        word, *rest = rest
        if not word.is_option:
            spans[word.text] = (word.start, word.end)
            problems.append(Problem(word.text, "expected an option such as -mcpu=..., got a bare word"))
            continue
        name, equals, value = word.text.lstrip("-").partition("=")
        name = table.spelling(name)
        end = word.end
        if not equals and rest and not rest[0].is_option:
            value, end, rest, equals = rest[0].text, rest[0].end, rest[1:], "="
        if name in config:
            problems.append(Problem(name, "given twice"))
        spans[name] = (word.start, end)
        try:
            config[name] = table.parse(name, _unquoted(value) if equals else None)
        except ValueError as error:
            problems.append(Problem(name, str(error)))
    return config, source, problems


def _unquoted(value: str) -> str:
    return _QUOTES.sub(lambda match: match[1] if match[1] is not None else match[2], value)
