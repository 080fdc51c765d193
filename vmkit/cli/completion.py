"""``vmkit completion``: what a shell needs to complete the words of ``vmkit``.

``eval "$(vmkit completion)"`` in ``~/.bashrc``; in zsh ``autoload -U bashcompinit && bashcompinit`` before it.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Mapping

from .exit_code import ExitCode

__all__ = ["add_arguments", "run", "script"]

_SCRIPT = """\
_vmkit() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}" path="" word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
        case "$path $word" in
{paths}
        esac
    done
    case "$path $previous" in
{values}
        *) case "$path" in
{options}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _vmkit vmkit
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit completion``: none."""


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the script."""
    print(script(), end="")
    return ExitCode.OK


def script() -> str:
    """Return the script for bash, and for zsh with ``bashcompinit``."""
    parsers = _parsers()
    paths = "\n".join(f'        "{path}") path="{path}" ;;' for path in parsers if path)
    values, options = [], []
    for path, parser in parsers.items():
        words = [other.removeprefix(path).strip() for other in parsers if _is_below(other, path)]
        for action in parser._actions:
            words += action.option_strings
            if action.choices and not isinstance(action, argparse._SubParsersAction):
                values += [_case(f"{path} {option}", map(str, action.choices)) for option in action.option_strings]
        options.append(_case(path, words))
    return _SCRIPT.format(paths=paths, values="\n".join(values), options="\n".join(options))


def _is_below(path: str, other: str) -> bool:
    return path.rpartition(" ")[0] == other and path != other


def _case(path: str, words: Iterable[str]) -> str:
    return f'        "{path}") words="{" ".join(words)}" ;;'


def _parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of each command, by the words that lead to it, each with a space before it."""
    from . import COMMANDS, top_level
    from .tvmc.main import all_parsers

    found = {"": top_level()}
    for name in COMMANDS:
        found[f" {name}"] = parser = argparse.ArgumentParser()
        if name != "tvmc":
            importlib.import_module(f"vmkit.cli.{name}").add_arguments(parser)
    first, commands = all_parsers("vmkit tvmc")
    return {**found, " tvmc": first, **{f" tvmc {name}": parser for name, parser in commands.items()}}
