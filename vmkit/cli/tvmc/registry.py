"""``tvm.driver.tvmc.registry``: options of the command line for a registry of names that have options of their own."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

from ...compat.build_choices import Executor, Runtime
from .exceptions import TVMCException, reported

__all__ = ["generate_registry_args", "reconstruct_registry_entity"]

_TYPES = {"IntImm": int, "runtime.String": str}


Registry: TypeAlias = type[Executor] | type[Runtime]


def generate_registry_args(parser: argparse._ActionsContainer, registry: Registry, default: str | None = None) -> None:
    """Add ``--KIND`` and a ``--KIND-NAME-OPTION`` for every option of every name.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        What gets them.
    registry : type
        ``Executor`` or ``Runtime``.
    default : str, optional
        The name where none is given.
    """
    kind = registry.kind.lower()
    names = registry.list_registered()
    group = parser.add_argument_group(f"{kind} options")
    group.add_argument(f"--{kind}", default=default, help=f"{registry.kind} to compile for: {', '.join(names)}")
    for name in names:
        for option, type_name in registry.list_registered_options(name).items():
            group.add_argument(
                f"--{kind}-{name}-{option}",
                type=_flag if _TYPES[type_name] is int else str,
                help=f"{registry.kind} {name}: {option}",
            )


def _flag(word: str) -> int:
    """Return an int; programs write booleans as numbers or as Python does."""
    if word.lower() in ("true", "false"):
        return int(word.lower() == "true")
    try:
        return int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not an int") from None


def reconstruct_registry_entity(args: argparse.Namespace, registry: Registry) -> Any:  # noqa: ANN401
    """Return what parsed arguments choose of a registry, None where they name nothing.

    Raises
    ------
    TVMCException
        For a name that there is not, and for options of a name that is not the one chosen.
    """
    kind = registry.kind.lower()
    chosen = getattr(args, kind)
    known = registry.list_registered()
    if chosen is not None and chosen not in known:
        raise TVMCException(f'{registry.kind} "{chosen}" is not defined; expected one of {", ".join(known)}')
    options = {}
    for name in known:
        for option in registry.list_registered_options(name):
            value = getattr(args, f"{kind}_{name}_{option.replace('-', '_')}", None)
            if value is None:
                continue
            if name != chosen:
                raise TVMCException(f"Passed --{kind}-{name}-{option} but did not specify {name} {kind}")
            options[option] = value
    if chosen is None:
        return None
    with reported():
        return registry(chosen, options)
