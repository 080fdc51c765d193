"""``tvm.relay.backend.Executor`` and ``Runtime``: what ``relay.build`` was told of how a model is to run.

The names and options are TVM 0.14's, checked as there. Models run on the virtual machine whatever is chosen, and
``relay.build`` says so where the choice would have made a difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from vmkit.errors import OptionError, suggest

__all__ = ["Executor", "Runtime", "c_interface"]

_NUMBER, _STRING, _FLOAT = "IntImm", "runtime.String", "FloatImm"
# Booleans were integers of one bit.
_TYPES = {bool: _NUMBER, int: _NUMBER, str: _STRING, float: _FLOAT}


class _Choice:
    """A name with options, both of a table; equal where both are, in whatever order."""

    kind: ClassVar[str]
    # By name: the options, their types in TVM's words, and the values of those that have a default.
    table: ClassVar[Mapping[str, Mapping[str, str]]]
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        known = self.list_registered_options(name)
        self.name = str(name)
        for option, value in (options or {}).items():
            if option not in known:
                raise OptionError(
                    f'Attribute "{option}" is not available on this {self.kind}: {name} has '
                    f"{', '.join(known)}{suggest(option, known)}"
                )
            found = _TYPES.get(type(value), type(value).__name__)
            if found != known[option]:
                raise OptionError(
                    f'Attribute "{option}" should have type "{known[option]}" but instead found "{found}"'
                )
        self.options: dict[str, Any] = {**self.defaults.get(self.name, {}), **(options or {})}

    def __contains__(self, option: str) -> bool:
        return option in self.options

    def __getitem__(self, option: str) -> Any:
        if option not in self.options:
            raise KeyError(f"the option {option!r} of the {self.kind} {self.name!r} is not set")
        return self.options[option]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and (self.name, self.options) == (other.name, other.options)

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.options.items())))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{self.kind}({self.name!r}, {self.options!r})"

    @classmethod
    def list_registered(cls) -> list[str]:
        """Return the names that there are."""
        return list(cls.table)

    @classmethod
    def list_registered_options(cls, name: object) -> dict[str, str]:
        """Return the options of a name, each with its type; OptionError for a name that there is not."""
        known = cls.table.get(str(name))
        if known is None:
            raise OptionError(f'{cls.kind} "{name}" is not defined; expected one of {", ".join(cls.table)}')
        return dict(known)


class Executor(_Choice):
    """The choice of an executor and its options.

    Parameters
    ----------
    name : {"graph", "aot"}
        The executor.
    options : mapping, optional
        For ``"graph"``: ``link-params``, a bool. For ``"aot"``: ``interface-api``, a str; ``unpacked-api`` and
        ``link-params``, bools; ``workspace-byte-alignment`` and ``constant-byte-alignment``, ints, in bytes.

    Raises
    ------
    OptionError
        For a name, an option or a type of value that there is not.

    Examples
    --------
    >>> executor = Executor("aot", {"interface-api": "c"})
    >>> executor.name, executor["interface-api"], "link-params" in executor
    ('aot', 'c', True)
    """

    kind = "Executor"
    table: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "graph": {"link-params": _NUMBER},
        "aot": {
            "link-params": _NUMBER,
            "unpacked-api": _NUMBER,
            "interface-api": _STRING,
            "workspace-byte-alignment": _NUMBER,
            "constant-byte-alignment": _NUMBER,
        },
    }
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "graph": {"link-params": False},
        "aot": {"link-params": True},
    }


class Runtime(_Choice):
    """The choice of a runtime and its options.

    Parameters
    ----------
    name : {"cpp", "crt"}
        TVM's runtime in C++, or that in C for boards.
    options : mapping, optional
        ``system-lib``, a bool.

    Raises
    ------
    OptionError
        For a name, an option or a type of value that there is not.
    """

    kind = "Runtime"
    table: ClassVar[Mapping[str, Mapping[str, str]]] = {"cpp": {"system-lib": _NUMBER}, "crt": {"system-lib": _NUMBER}}


def c_interface(executor: Executor | None) -> str:
    """Return what the entry of a model in C takes: ``"packed"`` where that is asked for, else ``"c"``."""
    return "c" if executor is None else str(executor.options.get("interface-api", "c"))
