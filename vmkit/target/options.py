"""The kinds of target there are, and the options each takes, from TVM's own registry."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping

from tvm.target import Target, TargetKind, list_tags

from vmkit._tvm import global_function_names, has_global_function
from vmkit.errors import suggest
from vmkit.target.families import PORTABLE
from vmkit.target.source import Problem, Source

from .._dataclasses import dataclass

__all__ = ["NATIVE", "OptionTable", "OptionValue", "code_generators", "has_code_generator", "tag_names"]

NATIVE = "native"

OptionValue = bool | int | str | list[str] | tuple[str, ...]

GONE_KINDS = {
    "aocl": "use 'opencl'",
    "aocl_sw_emu": "use 'opencl'",
    "hybrid": "use 'c' to get source text",
    "opengl": "use 'opencl' or 'webgpu'",
    "sdaccel": "use 'opencl'",
    "stackvm": "use 'llvm'",
}
# Options that older TVM kept in the target, and what to do instead.
GONE_OPTIONS = {
    "executor": "vmkit always builds for the virtual machine; drop it",
    "interface-api": "it belonged to the ahead-of-time executor; drop it",
    "link-params": "weights that are bound when compiling are always part of the executable; drop it",
    "runtime": "vmkit always builds for TVM's C++ runtime; drop it",
    "system-lib": "a target no longer says how its library is linked; drop it",
    "unpacked-api": "it belonged to the ahead-of-time executor; drop it",
}
_OTHER_SPELLINGS = {"target": "mtriple"}


_BUILD = "target.build."


def code_generators() -> list[str]:
    """The target kinds that the installed TVM can generate code for."""
    return sorted(name.removeprefix(_BUILD) for name in global_function_names() if name.startswith(_BUILD))


def has_code_generator(kind: str) -> bool:
    """Whether the installed TVM can generate code for a target kind."""
    return has_global_function(_BUILD + kind)


@functools.cache
def tag_names() -> frozenset[str]:
    """The names of TVM's predefined targets, such as ``nvidia/nvidia-h100``."""
    return frozenset(str(name) for name in list_tags())


@dataclass(frozen=True)
class OptionTable:
    """The options of one target kind.

    Attributes
    ----------
    key : str
        ``"kind"`` or ``"tag"``: what the name that led here is.
    kind : str
        The target kind.
    types : Mapping[str, str]
        Each option with its type as TVM spells it: ``str``, ``int``, ``bool``, ``Array<str>`` or ``target.Target``.
    """

    key: str
    kind: str
    types: Mapping[str, str]

    @classmethod
    def for_name(cls, name: str, source: Source) -> OptionTable:
        """Return the options of the kind or tag `name`; raise ``TargetError`` with close matches if there is none."""
        if name in (NATIVE, PORTABLE):
            return cls("kind", *_kind_options("llvm"))
        if name in Target.list_kinds():
            return cls("kind", *_kind_options(name))
        if name in tag_names():  # last, as TVM makes a target of each to list them
            return cls("tag", *_kind_options(str(Target({"tag": name}).kind.name)))
        if name in GONE_KINDS:
            raise source.error([Problem("kind", f"TVM no longer has target kind {name!r}; {GONE_KINDS[name]}")])
        what, known = ("tag", tag_names()) if "/" in name else ("kind", {*Target.list_kinds(), NATIVE, PORTABLE})
        close = suggest(name, known)
        listed = "" if close or what == "tag" else f"; known kinds: {', '.join(sorted(known))}"
        raise source.error([Problem("kind", f"there is no target {what} {name!r}{close}{listed}")])

    def spelling(self, name: str) -> str:
        """Return today's name of option `name`."""
        return _OTHER_SPELLINGS.get(name, name) if name not in self.types else name

    def parse(self, name: str, text: str | None) -> OptionValue | None:
        """Return the value that `text` spells (None: the option stands alone); ``ValueError`` says what is wrong."""
        type_name = self._type_of(name)
        match type_name, text:
            case "bool", None:
                return True
            case _, None | "":
                raise ValueError(f"needs a value; write -{name}=...")
            case "bool", _:
                return _parse_bool(text)
            case "int", _:
                return _parse_int(text)
            case "Array<str>", _:
                return [item for item in text.split(",") if item]
        return text

    def complaint(self, name: str, value: OptionValue) -> str | None:
        """Return what is wrong with `value` for option `name`, or None."""
        try:
            type_name = self._type_of(name)
        except ValueError as error:
            return str(error)
        if name == "host" or _has_type(value, type_name):
            return None
        expected = _TYPE_WORDS.get(type_name, type_name)
        return f"expected {expected}, got {type(value).__name__} {value!r}{_mend(value, type_name)}"

    def _type_of(self, name: str) -> str:
        if name in self.types:
            return self.types[name]
        if name.startswith("feature."):
            return "feature"
        if name in GONE_OPTIONS:
            raise ValueError(f"no longer an option of a target: {GONE_OPTIONS[name]}")
        close = suggest(name, self.types)
        raise ValueError(f"target kind {self.kind!r} has no such option{close or '; known: ' + ', '.join(self.types)}")


_TYPE_WORDS = {"str": "a str", "int": "an int", "bool": "a bool", "Array<str>": "a list of str"}


@functools.cache
def _kind_options(kind: str) -> tuple[str, Mapping[str, str]]:
    return kind, {str(name): str(type_) for name, type_ in TargetKind.options_from_name(kind).items()}


def _parse_int(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"expected an int, got {text!r}") from None


def _parse_bool(text: str) -> bool:
    match text.lower():
        case "1" | "true" | "on":
            return True
        case "0" | "false" | "off":
            return False
    raise ValueError(f"expected a bool (0 or 1), got {text!r}")


def _has_type(value: OptionValue, type_name: str) -> bool:
    match type_name:
        case "str":
            return isinstance(value, str)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "bool":
            return isinstance(value, bool) or (isinstance(value, int) and value in (0, 1))
        case "Array<str>":
            return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return True


def _mend(value: OptionValue, type_name: str) -> str:
    if type_name == "Array<str>" and isinstance(value, str):
        return f"; pass {json.dumps([item.strip() for item in value.split(',')])}"
    if type_name == "int" and isinstance(value, str) and value.lstrip("-").isdigit():
        return f"; pass {int(value)}"
    return ""
