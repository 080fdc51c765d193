"""``tvm.driver.tvmc.target``: targets as tvmc takes them, with code generators before them.

``"npu -accelerator=small, llvm -mcpu=znver4"`` is the code generator ``npu`` with an option, and the target that
compiles what it leaves. Of two targets of TVM the second is the host.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import suggest
from .exceptions import TVMCException, reported
from .target_options import OPTIONS, PARSERS

if TYPE_CHECKING:
    from tvm.target import Target

__all__ = [
    "generate_target_args",
    "parse_target",
    "reconstruct_target_args",
    "target_from_cli",
    "tokenize_target",
    "validate_targets",
]

# An option, in whose value a comma is one where no space follows or quotes are around it; a name; a comma between.
_VALUE = r"""(?:'[^']*'|"[^"]*"|[^\s,'"]|,(?=\S))*"""
_TOKEN = re.compile(rf"""--?[^\s,'"=]+(?:={_VALUE})?|[^\s,'"]+|,""")


def generate_target_args(parser: argparse._ActionsContainer) -> None:
    """Add ``--target``, and ``--target-KIND-OPTION`` for the options of every kind."""
    parser.add_argument(
        "--target",
        help="what to compile for: native (this machine), llvm, 'llvm -mcpu=skylake-avx512', a tag, JSON or a JSON "
        "file; code generators that come first take what they can; a second target is the host",
    )
    for kind, options in OPTIONS.items():
        group = parser.add_argument_group(f"target {kind}")
        for name, type_ in options.items():
            group.add_argument(f"--target-{kind}-{name}", type=PARSERS[type_], help=f"target {kind} {name} ({type_})")


def reconstruct_target_args(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the options of ``--target-KIND-OPTION`` that were given, by kind."""
    found: dict[str, dict[str, Any]] = {}
    for kind, options in OPTIONS.items():
        for name in options:
            value = getattr(args, f"target_{kind}_{name}".replace("-", "_"), None)
            if value is not None:
                found.setdefault(kind, {})[name] = value
    return found


def tokenize_target(target: str) -> list[str]:
    """Return the words of targets, and the commas between targets.

    >>> tokenize_target("foo -opt1=a,b --flag, bar -opt2='x, y'")
    ['foo', '-opt1=a,b', '--flag', ',', 'bar', "-opt2='x, y'"]
    """
    return _TOKEN.findall(target)


def parse_target(target: str) -> list[dict[str, Any]]:
    """Return what each target of a text is.

    Returns
    -------
    list of dict
        With ``name``; ``opts``, its options by name; ``raw``, its words; and ``is_tvm_target``, whether TVM compiles
        for it, and no code generator. Of a target in JSON, ``raw`` is that.
    """
    if target.lstrip().startswith("{"):
        return [_of_json(target)]
    words: list[list[str]] = [[]]
    for token in tokenize_target(target):
        if token == ",":
            words.append([])
        else:
            words[-1].append(token)
    if not all(words):
        raise TVMCException(f"target {target!r}: a target is missing before or after a comma")
    known = _tvm_targets()
    return [
        {
            "name": name,
            "opts": dict(map(_option, options)),
            "raw": " ".join([name, *options]),
            "is_tvm_target": name in known,
        }
        for name, *options in words
    ]


def _option(word: str) -> tuple[str, Any]:
    name, equals, value = word.lstrip("-").partition("=")
    if value[:1] in "'\"" and len(value) > 1 and value[0] == value[-1]:
        value = value[1:-1]
    return name, value if equals else True


def _of_json(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise TVMCException(f"target {text!r} is no JSON: {error}") from error
    name = config.get("kind", config.get("tag"))
    if name is None:
        raise TVMCException(f'target {text!r}: a target in JSON has a "kind" or a "tag"')
    options = {option: value for option, value in config.items() if option not in ("kind", "tag")}
    return {"name": name, "opts": options, "raw": text, "is_tvm_target": True}


def _tvm_targets() -> frozenset[str]:
    """Return the names that a target may begin with: kinds, also those that are gone, and tags."""
    from tvm.target import Target

    from vmkit.target.families import PORTABLE
    from vmkit.target.options import GONE_KINDS, NATIVE, tag_names

    return frozenset(map(str, Target.list_kinds())) | tag_names() | {NATIVE, PORTABLE, *GONE_KINDS}


def validate_targets(
    parse_targets: Sequence[Mapping[str, Any]], additional_target_options: Mapping[str, Any] | None = None
) -> None:
    """Raise TVMCException for targets that cannot stand together, and options of targets that are not among them."""
    names = [each["name"] for each in parse_targets]
    for kind, options in (additional_target_options or {}).items():
        if kind not in names:
            option = next(iter(options))
            raise TVMCException(f"Passed --target-{kind}-{option} but did not specify {kind} target")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TVMCException(f"Duplicate target definitions are not allowed: {', '.join(twice)}")
    known = _tvm_targets()
    if names[-1] not in known:
        close = suggest(names[-1], dict.fromkeys([*OPTIONS, "native", *known]))
        raise TVMCException(
            f"The last target needs to be a TVM target, not {names[-1]!r}{close or '; choices: ' + ', '.join(OPTIONS)}"
        )
    ours = [each["raw"] for each in parse_targets if each["is_tvm_target"]]
    if len(ours) > 2:
        raise TVMCException(f"Only two of the following targets can be used at a time. Found: {', '.join(ours)}")


def target_from_cli(
    target: str, additional_target_options: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Target, list[dict[str, Any]]]:
    """Return the target of a text with its host, and the code generators before it.

    Parameters
    ----------
    target : str
        Targets with commas between them, JSON, or a file with JSON.
    additional_target_options : mapping, optional
        More options, by the name of the target they are for.

    Raises
    ------
    TVMCException
        For a target or an option that does not exist, and for targets that cannot stand together.
    """
    if Path(target).suffix == ".json" and Path(target).is_file():
        target = Path(target).read_text(encoding="utf-8")
    parsed = parse_target(target)
    more = additional_target_options or {}
    validate_targets(parsed, more)
    extra = [
        {**each, "opts": each["opts"] | more.get(each["name"], {})} for each in parsed if not each["is_tvm_target"]
    ]
    ours = [_configuration(each, more.get(each["name"], {})) for each in parsed if each["is_tvm_target"]]
    with reported():
        return _target_class()(ours[0], *ours[1:]), extra


@functools.cache
def _target_class() -> type[Target]:
    from tvm.target import Target

    class CommandLineTarget(Target):
        """A target that prints as TVM's did: on a command line's form, with its keys."""

        def __init__(self, target: Mapping[str, Any], host: Mapping[str, Any] | None = None) -> None:
            super().__init__(dict(target), dict(host) if host is not None else None)

        def __str__(self) -> str:
            return _command_line(self)

        @property
        def host(self) -> Target | None:  # type: ignore[override]  # TVM's own is read only, too
            """The target that drives the device."""
            own = super().host
            return None if own is None else CommandLineTarget({n: v for n, v in own.export().items() if n != "host"})

    return CommandLineTarget


def _command_line(target: Target) -> str:
    words = [str(target.kind.name), f"-keys={','.join(map(str, target.keys))}"]
    for name, value in sorted(target.attrs.items()):
        if not str(name).startswith("feature."):
            texts = isinstance(value, Sequence) and not isinstance(value, str)
            shown = ",".join(map(str, value)) if texts else int(value) if isinstance(value, bool) else value
            words.append(f"-{name}={shown}")
    return " ".join(words)


def _configuration(parsed: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a target as TVM takes them."""
    from vmkit.target.families import PORTABLE
    from vmkit.target.options import NATIVE, OptionTable
    from vmkit.target.plan import canonical_target
    from vmkit.target.source import Problem, Source
    from vmkit.target.text import parse_command_line

    with reported():
        if parsed["raw"].lstrip().startswith("{"):
            config = json.loads(parsed["raw"])
            source = Source(parsed["raw"])
            problems: list[Problem] = []
        else:
            config, source, problems = parse_command_line(parsed["raw"])
        kind = config.get("kind")
        if kind in (NATIVE, PORTABLE):
            config = {**canonical_target(kind).primary.export(), **{n: v for n, v in config.items() if n != "kind"}}
            config.pop("host", None)
        table = OptionTable.for_name(parsed["name"], source)
        for name, value in more.items():
            try:
                config[name] = table.parse(name, str(value))
            except ValueError as error:
                problems.append(Problem(name, str(error)))
        if problems:
            raise source.error(problems)
    return config
