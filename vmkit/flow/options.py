"""The options of a flow: the keys of mlonmcu's TVM backends, as values or as the texts that configurations have."""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from .._dataclasses import dataclass
from ..errors import OptionError, suggest

__all__ = ["FlowOptions"]


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """What a model is compiled with; every key of mlonmcu's TVM backends, with its default.

    Parameters
    ----------
    target : str
        The kind of target: ``"c"`` or ``"llvm"``.
    fmt : {"so", "mlf"}
        A package, or C in the Model Library Format.
    executor : {"vm", "graph", "aot"}
        Whether a package has a graph; ``"aot"`` for C.
    opt_level : int
        0 to 4.
    target_device, target_mcpu, ... : optional
        Options of the target.
    tvm_target_str : str, optional
        The whole target, in the place of `target` and those.
    extra_targets : list of str
        Code generators before the target.
    desired_layout, desired_layout_ops, desired_layout_map
        Layouts: of all operators, or by operator.
    disabled_passes, extra_pass_config, disable_vectorize, fuse_ops
        Passes and their options; vectors are left out for ``"auto"`` where the target is ``"c"``.
    use_tuning_results, autotuned_results_file
        Whether records are taken, and from where.
    dump : list of str
        Stages to keep as artifacts; see :class:`vmkit.compiler.dumps.Dumps`.
    num_threads : int
        For TVM's own threads.
    bool_as_int : bool
        Whether booleans are written as 1 and 0.

    Raises
    ------
    OptionError
        For values of keys that ask for what there is not.

    Examples
    --------
    >>> FlowOptions.parsed({"tvmllvm.target_num_cores": "4", "disabled_passes": "['FuseOps']"}).target_num_cores
    4
    """

    target: str = "c"
    fmt: str = "so"
    executor: str = "vm"
    print_outputs: bool = False
    opt_level: int = 3
    target_device: str | None = None
    target_mcpu: str | None = None
    target_march: str | None = None
    target_model: str | None = None
    target_mtriple: str | None = None
    target_mabi: str | None = None
    target_mattr: str | None = None
    target_keys: str | None = None
    target_num_cores: int | None = None
    tvm_target_str: str | None = None
    extra_targets: list[str] = field(default_factory=list)
    extra_target_details: dict[str, Any] = field(default_factory=dict)
    desired_layout: str | None = None
    desired_layout_ops: list[str] = field(default_factory=list)
    desired_layout_map: dict[str, str] = field(default_factory=dict)
    disabled_passes: list[str] = field(default_factory=list)
    extra_pass_config: dict[str, Any] = field(default_factory=dict)
    fuse_ops: int | None = None
    use_tuning_results: bool = False
    autotuned_mode: str | None = None
    autotuned_results_file: str | None = None
    tvmc_extra_args: list[str] = field(default_factory=list)
    tvmc_custom_script: str | None = None
    tophub_url: str | None = None
    num_threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    relay_debug: str | None = None
    dump: list[str] = field(default_factory=list)
    disable_vectorize: str | bool = "auto"
    custom_unroll: bool = False
    refresh_model_info: bool = False
    generate_wrapper: str | bool = "auto"
    bool_as_int: bool = True
    params_path: str | None = None
    arena_size: int | None = None
    unpacked_api: bool = False
    alignment_bytes: int = 16
    debug_arena: bool = False

    def __post_init__(self) -> None:
        problems = [
            f"{name}: {why}" for name, why in _REFUSED.items() if getattr(self, name) not in (None, False, [], {})
        ]
        for name, known in (("fmt", ("so", "mlf")), ("executor", ("vm", "graph", "aot"))):
            value = getattr(self, name)
            if value not in known:
                problems.append(f"{name}: there is no {value!r}{suggest(value, known)}; there are {', '.join(known)}")
        if self.generate_wrapper not in ("auto", False):
            problems.append("generate_wrapper: an archive of C has its entry itself; leave it at auto")
        if self.desired_layout and self.desired_layout_map:
            problems.append("desired_layout and desired_layout_map both say layouts; one of them does")
        if problems:
            raise OptionError("\n  ".join(["these options of a flow cannot be used:", *problems]))

    @classmethod
    def parsed(cls, values: Mapping[str, Any]) -> FlowOptions:
        """Return the options of a mapping whose values may be texts, and whose keys may begin with a backend's name.

        Raises
        ------
        OptionError
            Listing the keys that there are not, and the texts that are no values.
        """
        fields = {each.name: each for each in dataclasses.fields(cls)}
        found: dict[str, Any] = {}
        problems = []
        for key, value in values.items():
            name = key.rpartition(".")[2]
            if name not in fields:
                problems.append(f"there is no {key!r}{suggest(name, fields)}")
                continue
            try:
                found[name] = _value(str(fields[name].type), value)
            except ValueError as error:
                problems.append(f"{key}: {error}")
        if problems:
            raise OptionError("\n  ".join(["these options of a flow cannot be used:", *problems]))
        return cls(**found)


_REFUSED = {
    "extra_target_details": "vmkit's code generators take no options",
    "custom_unroll": "LLVM as it is has no feature no-default-unroll",
    "arena_size": "memory is what the archive's metadata says; it is planned",
    "debug_arena": "memory is planned: there is nothing to count when it runs",
}


def _value(type_name: str, given: Any) -> Any:  # noqa: ANN401 - of a field
    """Return a value of a field's type; ValueError says what is wrong with it."""
    if not isinstance(given, str):
        return given
    text = given.strip()
    if "None" in type_name and text in ("", "None", "null"):
        return None
    kind = next(kind for kind in _READ if type_name.startswith(kind))
    return _READ[kind](text)


def _flag(text: str) -> bool:
    known = {"1": True, "true": True, "0": False, "false": False}
    if text.lower() not in known:
        raise ValueError(f"expected True or False, got {text!r}")
    return known[text.lower()]


def _number(text: str) -> int:
    if not text.lstrip("-").isdigit():
        raise ValueError(f"expected a number, got {text!r}")
    return int(text)


def _flag_or_text(text: str) -> str | bool:
    return text if text == "auto" else _flag(text)


def _list(text: str) -> list[str]:
    found = _literal(text) if text.startswith("[") else [word for word in text.replace(",", " ").split() if word]
    if not isinstance(found, list):
        raise ValueError(f"expected a list, got {text!r}")
    return [str(each) for each in found]


def _mapping(text: str) -> dict[str, Any]:
    found = _literal(text) if text else {}
    if not isinstance(found, dict):
        raise ValueError(f"expected a dict, got {text!r}")
    return found


def _literal(text: str) -> Any:  # noqa: ANN401 - whatever it spells
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"{text!r} is no value: {error}") from None


# By how the annotation of a field begins.
_READ: dict[str, Callable[[str], Any]] = {
    "str | bool": _flag_or_text,
    "str": str,
    "int": _number,
    "bool": _flag,
    "list": _list,
    "dict": _mapping,
}
