"""Arguments that several sub-commands have in common, and values of theirs out of words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import InputError, OptionError, VMKitError, suggest
from .shape_text import Shapes, parse_shapes

if TYPE_CHECKING:
    import numpy as np

__all__ = ["add_json", "add_shapes", "add_target", "arrays_of", "key_and_value", "listed", "parsed", "shapes_of"]

T = TypeVar("T")


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


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add ``--target`` and ``--target-host``."""
    parser.add_argument(
        "--target",
        default="native",
        help="what to compile for: native (this machine), a kind with options such as 'llvm -mcpu=skylake-avx512', "
        "JSON, a tag or a file (default: %(default)s)",
    )
    parser.add_argument("--target-host", help="the host that drives a device, in the same forms")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


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


def arrays_of(path: Path, known: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
    """Return the arrays in an ``.npz`` file by name, all of which have to be `known`, if that is given.

    Raises
    ------
    InputError
        If the file is none, holds objects, or has an array of another name.
    """
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise InputError(f"{path}: not an .npz file of arrays: {error}") from error
    for name in arrays:
        if known is not None and name not in known:
            expected = ", ".join(known) or "none"
            raise InputError(f"{path}: there is no input {name!r}{suggest(name, known)}; the inputs are {expected}")
    return arrays
