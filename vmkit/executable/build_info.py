"""What the compiler tells of a build beside its code: for the machine that runs it, and for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Any

from .._dataclasses import dataclass
from ..errors import ExecutableError
from ..stack import SMALLEST_STACK_BYTES
from ..values.text_tables import NUMBERINGS

__all__ = ["BuildInfo"]

# What older files call a fact by.
_OLD_NAMES = {"runs": "kernel_groups"}


@dataclass(frozen=True, eq=False)
class BuildInfo(Mapping[str, Any]):
    """Facts about a build, kept in its file. It reads as a mapping, too: of those facts that are not None.

    Parameters
    ----------
    checks
        The message of each check that the compiler put into the program, by the check's number.
    kernels
        How many kernels have a tuned schedule, one generalised from a record, or a default one; None if not known.
    alignment
        What kernels expect of addresses; None for :data:`vmkit.values.host_memory.ALIGNMENT`.
    texts
        The strings among the program's constants; None for a program without strings.
    text_numbers
        How numbers stand for the texts of a call, one of :data:`vmkit.values.text_tables.NUMBERINGS`; None for digests.
    kernel_groups
        The kernels that are called together, in their order, by the name of the group; None if there are none.
    runtimes
        The packed functions of other code generators that it calls, each with the Python module that registers it;
        None if there are none.
    recursive
        Whether calls need a deep stack; None to see it in the bytecode.
    stack_bytes
        How deep; None for :data:`vmkit.stack.MACHINE_STACK_BYTES`.
    model
        What the model's file says of the model, such as who made it; kept for those who ask, and read by nothing else.
    devices
        The names of the devices that a program runs on, if there are several, in the order of the machine's.
    graph
        For a model that is found by a name in its file: that ``name``, as ``json`` the graph of its operators for tools
        that show it, and as ``program`` what the two know each other by; None for one that is found by its functions.

    Examples
    --------
    >>> info = BuildInfo(kernels={"tuned": 1, "generalised": 0, "default": 2})
    >>> info["kernels"]["default"], list(info), "texts" in info
    (2, ['checks', 'kernels'], False)
    """

    checks: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[str, int] | None = None
    alignment: str | None = None
    texts: tuple[str, ...] | None = None
    text_numbers: str | None = None
    kernel_groups: Mapping[str, list[str]] | None = None
    runtimes: Mapping[str, str] | None = None
    recursive: bool | None = None
    stack_bytes: int | None = None
    model: Mapping[str, Any] | None = None
    devices: tuple[str, ...] | None = None
    graph: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.devices is not None:
            object.__setattr__(self, "devices", tuple(self.devices))
        if self.texts is not None:
            object.__setattr__(self, "texts", tuple(self.texts))

    def __getitem__(self, name: str) -> Any:
        value = getattr(self, name) if name in _NAMES else None
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        return (name for name in _NAMES if getattr(self, name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def to_json(self) -> dict[str, Any]:
        """Return the known facts as plain JSON values; :meth:`from_json` reads them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> BuildInfo:
        """Return the facts that :meth:`to_json` described, of this release or an older one.

        Raises
        ------
        ExecutableError
            If there are others, what they would have the machine do being unknown, or one is no value of its kind.
        """
        named = {_OLD_NAMES.get(name, name): value for name, value in data.items()}
        others = ", ".join(map(repr, sorted(set(named) - set(_NAMES))))
        if others:
            raise ExecutableError(f"unknown facts about the build: {others}, expected some of {', '.join(_NAMES)}")
        named = {name: value for name, value in named.items() if value is not None}
        wrong = [f"{name} is {value!r}" for name, value in named.items() if not _is_of_kind(name, value)]
        if wrong:
            raise ExecutableError(f"facts about the build that cannot be: {', '.join(wrong)}")
        return BuildInfo(**named)


def _is_of_kind(name: str, value: Any) -> bool:
    """Tell whether a JSON value is one of a fact."""
    match name, value:
        case "checks", dict():
            return all(isinstance(text, str) for text in value.values())
        case "model", dict():
            return True
        case "kernels", dict():
            return all(isinstance(count, int) for count in value.values())
        case (("runtimes" | "graph"), dict()):
            return _are_texts(list(value.values()))
        case (("texts" | "devices"), list()):
            return _are_texts(value)
        case "kernel_groups", dict():
            return all(isinstance(kernels, list) and _are_texts(kernels) for kernels in value.values())
        case ("alignment", str()) | ("recursive", bool()):
            return True
        case "text_numbers", str():
            return value in NUMBERINGS
        case "stack_bytes", int():
            return value >= SMALLEST_STACK_BYTES and not isinstance(value, bool)
    return False


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


_NAMES = tuple(each.name for each in fields(BuildInfo))
