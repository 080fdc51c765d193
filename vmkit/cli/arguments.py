"""Arguments that several sub-commands have in common, and values of theirs out of words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ..errors import OptionError, VMKitError, suggest
from .shape_text import Shapes, parse_shapes

__all__ = [
    "Parser",
    "add_cache",
    "add_config",
    "add_graph_changes",
    "add_inputs",
    "add_json",
    "add_shapes",
    "add_target",
    "add_target_options",
    "add_trust",
    "existing",
    "key_and_value",
    "listed",
    "parsed",
    "positive",
    "set_defaults",
    "shapes_of",
]

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are what is wrong, with what is close to it, and not the usage of a hundred options."""

    def error(self, message: str) -> NoReturn:
        """End the program with 2."""
        # Nothing follows a line that carets point into.
        more = "" if "\n" in message else f"; see {self.prog} --help"
        self.exit(2, f"{self.prog}: error: {message}{more}\n")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """End the program with 2 for words that are no arguments."""
        options = [option for action in self._actions for option in action.option_strings]
        close = suggest(words[0].partition("=")[0], options)
        self.error(f"unrecognized arguments: {' '.join(words)}{close}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - as argparse has it
        choices = [*(action.choices or ())]
        if choices and value not in choices:
            close = suggest(str(value), list(map(str, choices)))
            known = ", ".join(map(repr, choices))
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{close} (choose from {known})")


def existing(word: str) -> Path:
    """Return the path of a file or folder out of a word; FileNotFoundError, with a close name, where there is none."""
    path = Path(word)
    if not path.exists():
        beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"{word}: there is no such file{suggest(path.name, beside)}")
    return path


def parsed(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a function that parses a word, as argparse wants one: what is wrong with it is a usage error."""

    def of_word(word: str) -> T:
        try:
            return parse(word)
        except VMKitError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return of_word


def add_shapes(parser: argparse.ArgumentParser) -> None:
    """Add ``--input-shapes``; :func:`shapes_of` reads it."""
    parser.add_argument(
        "--input-shapes",
        "--shape",
        action="append",
        default=[],
        type=parsed(parse_shapes),
        metavar="SHAPES",
        help='shapes of inputs, such as "x:[n,3,224,224] mask:[n,?]"; ? and -1 are sizes that are not known, and '
        "n:1..64 says how large n may be",
    )


def shapes_of(arguments: argparse.Namespace) -> Shapes | None:
    """Return the shapes given, or None; OptionError if one is given twice."""
    merged: Shapes = {}
    for shapes in arguments.input_shapes:
        twice = sorted(set(merged) & set(shapes))
        if twice:
            raise OptionError(f"--input-shapes: {', '.join(map(repr, twice))} is given twice")
        merged.update(shapes)
    return merged or None


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add ``--config``; :func:`set_defaults` reads it."""
    parser.add_argument(
        "--config", metavar="FILE", help='options out of a JSON file, such as {"opt-level": 3}; those given come first'
    )


def set_defaults(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Make the options in the file of ``--config``, where words name one, the defaults of a command that takes it.

    Raises
    ------
    VMKitError
        If there is no such file, and for options that the command has not.
    """
    if not any(word == "--config" or word.startswith("--config=") for word in words):
        return
    only = argparse.ArgumentParser(prog=parser.prog, add_help=False, allow_abbrev=False)
    only.add_argument("--config")
    known, _ = only.parse_known_args(words)
    if any(action.dest == "config" for action in parser._actions):
        from .tvmc.config_options import read_and_convert_json_into_dict, set_json_config_values

        set_json_config_values(parser, read_and_convert_json_into_dict(known))


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add ``--cache``."""
    parser.add_argument(
        "--cache",
        nargs="?",
        const=True,
        default=False,
        metavar="FOLDER",
        help="look for the executable there first, and keep it there (default without FOLDER: this user's; see "
        "vmkit cache); loading what lies there runs its code",
    )


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--target-KIND-OPTION`` for the options of every kind of target, and what says so."""
    from .tvmc.target_options import OPTIONS, PARSERS

    for kind, options in OPTIONS.items():
        for name, type_ in options.items():
            parser.add_argument(f"--target-{kind}-{name}", type=PARSERS[type_], help=argparse.SUPPRESS)
    parser.epilog = (
        "--target-KIND-OPTION VALUE is an option of a target, such as --target-llvm-mcpu; vmkit targets KIND"
    )
    parser.epilog += " lists them."


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add ``--target`` and ``--target-host``."""
    parser.add_argument(
        "--target",
        default="native",
        help="what to compile for: native (this machine), portable (any processor of its architecture), a kind with "
        "options such as 'llvm -mcpu=skylake-avx512', JSON, a tag or a file (default: %(default)s)",
    )
    parser.add_argument("--target-host", help="the host that drives a device, in the same forms")


def add_graph_changes(parser: argparse._ActionsContainer) -> None:
    """Add the options of layouts and of precision."""
    parser.add_argument(
        "--desired-layout", nargs="+", metavar="LAYOUT", help="NHWC or NHWC:HWIO; one, or one an operator"
    )
    parser.add_argument("--desired-layout-ops", nargs="+", metavar="OPERATOR", help="what gets that layout")
    parser.add_argument("--mixed-precision", action="store_true", help="compute in lower precision where that pays")
    parser.add_argument("--mixed-precision-ops", nargs="+", metavar="OPERATOR")
    parser.add_argument("--mixed-precision-calculation-type", default="float16", metavar="DTYPE")
    parser.add_argument("--mixed-precision-acc-type", default="float16", metavar="DTYPE")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add what says on which inputs a program runs, and where; :func:`vmkit.cli.files.inputs_of` reads it."""
    parser.add_argument(
        "-i", "--inputs", type=Path, metavar="FILE", help="inputs by name (.npz), or a picture (.jpg, ...)"
    )
    parser.add_argument(
        "--preprocess",
        choices=("raw", "unit", "symmetric", "imagenet"),
        help="what a picture, scaled to the input's height and width, becomes: raw, from 0 to 255; unit, from 0 to 1; "
        "symmetric, from -1 to 1; imagenet, unit less the mean of ImageNet's pictures by their deviation",
    )
    add_shapes(parser)
    parser.add_argument(
        "--fill-mode", choices=("random", "zeros", "ones"), default="random", help="what inputs that are not given hold"
    )
    parser.add_argument("--seed", type=int, default=0, help="of random inputs (default: %(default)s)")
    parser.add_argument("--device", default=None, help="cpu, cuda, ... (default: what it was compiled for)")
    parser.add_argument("--num-threads", type=positive, help="threads of kernels (default: all cores)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust-script``; :func:`vmkit.cli.files.model_of` reads it."""
    parser.add_argument(
        "--trust-script",
        action="store_true",
        help="read a model that is a Relax script (.py, .relax), which is Python: reading it runs its code",
    )


def listed(words: str) -> list[str]:
    """Return what stands between commas or spaces.

    >>> listed("FuseOps, FoldConstant")
    ['FuseOps', 'FoldConstant']
    """
    return words.replace(",", " ").split()


def key_and_value(word: str) -> tuple[str, Any]:
    """Return the two sides of ``NAME=VALUE``; a value is JSON, or else text.

    >>> key_and_value("relax.FuseOps.max_depth=10"), key_and_value("a=b"), key_and_value("tirx.noalias=True")
    (('relax.FuseOps.max_depth', 10), ('a', 'b'), ('tirx.noalias', True))
    """
    name, equals, value = word.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{word!r} is not NAME=VALUE")
    if value in ("True", "False"):
        return name.strip(), value == "True"
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


def positive(word: str) -> int:
    """Return a number above 0 out of a word."""
    if not word.isdigit() or int(word) == 0:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number above 0")
    return int(word)
