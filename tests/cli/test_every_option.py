"""Every option of every command stands in a test, and is explained."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
from collections.abc import Iterator

import pytest

from tests.places import TOP
from vmkit.cli import COMMANDS
from vmkit.cli.tvmc.main import parsers
from vmkit.cli.tvmc.option_states import STATES

# The options of the kinds of targets, which are TVM's own; those of each kind are read by the same lines.
OF_TARGETS = re.compile(r"--target-[a-z]+-")


def words_in_tests() -> set[str]:
    """Return the texts in the tests of the command line, and of the flows that call it."""
    files = [path for room in ("cli", "flow", "pages") for path in (TOP / "tests" / room).rglob("*.py")]
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {part for text in found for part in re.split(r"[\s=]", text)}


WORDS = words_in_tests()


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name in COMMANDS:
        if name != "tvmc":
            parser = argparse.ArgumentParser(prog=name)
            importlib.import_module(f"vmkit.cli.{name}").add_arguments(parser)
            yield name, parser
    for name, parser in parsers().items():
        yield f"tvmc {name}", parser


ACTIONS = [
    pytest.param(name, action, id=f"{name} {max(action.option_strings, key=len, default=action.dest)}")
    for name, parser in commands()
    for action in parser._actions
    if not any(map(OF_TARGETS.match, action.option_strings)) and action.dest != "help"
]


@pytest.mark.parametrize(("name", "action"), ACTIONS)
def test_an_option_stands_in_a_test(name: str, action: argparse.Action) -> None:
    refused = {f"--{option}" for option in STATES.get(name.removeprefix("tvmc "), {})}  # each has its test
    assert not action.option_strings or (WORDS | refused) & set(action.option_strings)


@pytest.mark.parametrize(("name", "action"), ACTIONS)
def test_an_option_is_explained(name: str, action: argparse.Action) -> None:
    assert action.help or action.metavar
