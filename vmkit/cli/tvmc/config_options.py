"""``tvm.driver.tvmc.config_options``: options of the command line out of a JSON file.

``{"targets": [{"kind": "llvm", "mcpu": "znver4"}], "executor": {"kind": "graph"}, "opt-level": 3}`` stands for
``--target llvm --target-llvm-mcpu znver4 --executor graph --opt-level 3``. What is given on the command line comes
before what is in the file.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import suggest
from .exceptions import TVMCException

__all__ = [
    "CONFIGS_JSON_DIR",
    "convert_config_json_to_cli",
    "find_json_file",
    "get_configs_json_dir",
    "read_and_convert_json_into_dict",
    "set_json_config_values",
]

CONFIGS_JSON_DIR: str | None = None
"""The folder that :func:`get_configs_json_dir` found, once it has."""

_VARIABLE = "TVM_CONFIGS_JSON_DIR"
_FOLDERS = ("configs/host", "configs/test")


def get_configs_json_dir() -> str | None:
    """Return the folder in which configurations are found by name: that of ``TVM_CONFIGS_JSON_DIR``, if it is one.

    Otherwise ``configs/host`` below the working directory, if there is one; None if not.
    """
    global CONFIGS_JSON_DIR
    if CONFIGS_JSON_DIR is None:
        candidates = [os.environ.get(_VARIABLE, ""), *_FOLDERS]
        CONFIGS_JSON_DIR = next((str(Path(each)) for each in candidates if each and Path(each).is_dir()), None)
    return CONFIGS_JSON_DIR


def find_json_file(name: str) -> Path:
    """Return the file of a configuration: a path, or a name in the folder of configurations."""
    folder = get_configs_json_dir()
    given = Path(name)
    places = [given, given.with_name(f"{given.name}.json")]
    if folder is not None:
        places += [Path(folder, name), Path(folder, f"{name}.json")]
    for place in places:
        if place.is_file():
            return place
    near = [path.stem for path in sorted(Path(folder).glob("*.json"))] if folder is not None else []
    where = f", in {folder} neither" if folder is not None else ""
    raise TVMCException(f"--config {name!r}: there is no such file{where}{suggest(name, near)}")


def read_and_convert_json_into_dict(config_args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the options in the file of ``--config``; none where there is none."""
    if not getattr(config_args, "config", None):
        return []
    path = find_json_file(config_args.config)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise TVMCException(f"--config {path}: no JSON: {error}") from error
    if not isinstance(config, dict):
        raise TVMCException(f"--config {path}: expected an object, got {type(config).__name__}")
    return convert_config_json_to_cli(config)


def convert_config_json_to_cli(json_params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a configuration stands for: the attribute of the parsed arguments and its value, each in a dict.

    >>> convert_config_json_to_cli({"targets": [{"kind": "c", "mcpu": "cortex-m55"}], "opt-level": 2})
    [{'target_c_mcpu': 'cortex-m55'}, {'target': 'c'}, {'opt_level': 2}]
    """
    options: list[dict[str, Any]] = []
    for key, value in json_params.items():
        if key == "targets":
            options += _of_targets(value)
        elif key in ("executor", "runtime") and isinstance(value, Mapping):
            options += _of_choice(key, value)
        elif isinstance(value, Mapping):
            options.append({_attribute(key): [f"{name}={each}" for name, each in value.items()]})
        else:
            options.append({_attribute(key): value})
    return options


def _attribute(key: str) -> str:
    return key.replace("-", "_")


def _of_targets(targets: object) -> list[dict[str, Any]]:
    if not isinstance(targets, Sequence) or not all(isinstance(each, Mapping) and "kind" in each for each in targets):
        raise TVMCException('"targets" is a list of objects, each with a "kind"')
    options = [
        {f"target_{target['kind']}_{name}": value}
        for target in targets
        for name, value in target.items()
        if name != "kind"
    ]
    return [*options, {"target": ", ".join(str(target["kind"]) for target in targets)}]


def _of_choice(kind: str, choice: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "kind" not in choice:
        raise TVMCException(f'"{kind}" is an object with a "kind"')
    name = choice["kind"]
    options = [{_attribute(f"{kind}_{name}_{each}"): value} for each, value in choice.items() if each != "kind"]
    return [{kind: name}, *options]


def set_json_config_values(parser: argparse.ArgumentParser, options: Sequence[Mapping[str, Any]]) -> None:
    """Make what a configuration says the defaults of a parser.

    Raises
    ------
    TVMCException
        For a key that is no option of the command.
    """
    actions = {action.dest: action for action in parser._actions}
    attributes = {name.replace("-", "_"): name for name in actions}
    for option in options:
        for given, value in option.items():
            name = attributes.get(given.replace("-", "_"))
            if name is None:
                shown = given.replace("_", "-")
                known = [each.replace("_", "-") for each in actions]
                raise TVMCException(f"--config: {parser.prog} has no option {shown!r}{suggest(shown, known)}")
            parser.set_defaults(**{name: _parsed(actions[name], value)})
            actions[name].required = False


def _parsed(action: argparse.Action, value: Any) -> Any:  # noqa: ANN401 - of the types of options
    """Return a value of JSON as the option itself would have it."""
    option = action.dest.replace("_", "-")
    is_list = isinstance(value, list)
    words = value if is_list else [value]
    if action.nargs == 0:
        if not isinstance(value, bool | int):
            raise TVMCException(f"--config: {option}: expected true or false, got {value!r}")
        return value
    try:
        found = [_read(action, word) for word in words]
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise TVMCException(f"--config: {option}: {error}") from error
    for each in found:
        if action.choices is not None and each not in action.choices:
            known = list(map(str, action.choices))
            raise TVMCException(
                f"--config: {option}: {each!r} is none of {', '.join(known)}{suggest(str(each), known)}"
            )
    if isinstance(action, argparse._AppendAction):
        return found
    if is_list and found and all(isinstance(each, list) for each in found):
        return [each for listed in found for each in listed]  # of an option that takes a list as one word
    return found if is_list else found[0]


def _read(action: argparse.Action, word: object) -> Any:  # noqa: ANN401 - of the types of options
    if callable(action.type):
        return action.type(str(word))
    return word if isinstance(word, bool | int | float) else str(word)
