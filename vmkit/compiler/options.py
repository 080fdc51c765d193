"""Compiler options: TVM's ``PassContext``, made and read with every name and value checked.

A script of Relay's time moves over as it is where its options have a meaning today: ``tir.*`` and some ``relay.*``
names became others, and are translated. The rest is refused with the reason, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

import tvm
from tvm.ir.instrument import PassInstrument, PassTimingInstrument

from .._dataclasses import dataclass
from .._tvm import PASSENGER_OPTION
from ..errors import OptionError, suggest
from ..relay.pass_options import RELAY_OPTIONS, packed_options, unpacked_options
from .pass_names import RELAY_ONLY, known_passes, todays_name

__all__ = [
    "OWN_KERNELS",
    "CompilerOptions",
    "PassContext",
    "check_context",
    "checked_options",
    "current_options",
    "list_configs",
]

OWN_KERNELS = 2
"""The optimisation level from which on kernels are made for the sizes of each of their calls, but for many alike."""

_OPT_LEVELS = range(5)

_RENAMED_CONFIG = {
    "relay.FuseOps.max_depth": "relax.FuseOps.max_depth",
    "relay.fallback_device_type": "relax.fallback_device_type",
    "tir.Simplify": "tirx.StmtSimplify",
    "tir.ptx_ldg32": "tirx.s_tir.ldg32",
}


@dataclass(frozen=True)
class _Gone:
    """An option without a counterpart: why, and the values that ask for what vmkit does anyway."""

    reason: str
    accepted: tuple[Any, ...] = ()


_GONE_CONFIG = {
    "relay.backend.disable_compile_engine_cache": _Gone("vmkit has no such cache", (True, False)),
    "relay.backend.tir_converter": _Gone("vmkit lowers operators in one way", ("default",)),
    "relay.backend.use_auto_scheduler": _Gone("the auto-scheduler is gone; use MetaSchedule records", (False,)),
    "relay.backend.use_meta_schedule": _Gone("a MetaSchedule database in scope is always used", (True,)),
    "relay.backend.use_meta_schedule_dispatch": _Gone("a MetaSchedule database in scope is always used", (0,)),
    "tirx.add_lower_pass": _Gone("TVM 0.27 reads it nowhere; observe passes with instruments=[...]", ([],)),
    "tir.usmp.enable": _Gone("vmkit plans memory itself", (True, False)),
    "tir.usmp.algorithm": _Gone("vmkit plans memory itself", ("greedy_by_conflicts", "greedy_by_size", "hill_climb")),
    "tir.add_lower_pass": _Gone("TVM 0.27 reads it nowhere; observe passes with instruments=[...]", ([],)),
}
_GONE_FAMILIES = {
    "relay.collage.": "Collage is gone from TVM",
    "relay.ext.": "code generators take their options elsewhere now",
    "relay.": "it belonged to a Relay pass that has no counterpart",
    "te.": "it is gone from TVM",
    "tir.usmp.": "the unified static memory planner is gone from TVM",
}


# TVM's own constructor: vmkit.compat puts another in its place, which comes back here.
_own_init = tvm.transform.PassContext.__init__
_own_list_configs = tvm.transform.PassContext.list_configs

# What TVM calls the types of options.
_NODE_OF: dict[type, str] = {bool: "IntImm", int: "IntImm", str: "runtime.String", list: "Array"}


@dataclass(frozen=True)
class CompilerOptions:
    """What a ``PassContext`` asks for, as the compiler reads it.

    Attributes
    ----------
    opt_level : int
        0 to 4. A pass of a higher level does not run.
    required, disabled : frozenset of str
        Names of passes that run, or do not run, whatever the level.
    config : Mapping of str to object
        Read-only.
    """

    opt_level: int = 2
    required: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    config: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def runs(self, name: str, level: int | None) -> bool:
        """Whether pass `name`, which belongs to optimisation level `level` or has to be required, is to run."""
        is_reached = level is not None and self.opt_level >= level
        return name not in self.disabled and (name in self.required or is_reached)

    @property
    def groups_kernels(self) -> bool:
        """Whether functions are to call several kernels for LLVM, which are their parts."""
        return self.runs("GroupKernels", 1)


def PassContext(
    opt_level: int = 2,
    required_pass: Iterable[str] | None = None,
    disabled_pass: Iterable[str] | None = None,
    instruments: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> tvm.transform.PassContext:
    """Return a ``tvm.transform.PassContext``, to be entered by ``with``, whose options are known to mean something.

    Parameters
    ----------
    opt_level : int
        0 to 4; the README's table of optimisation levels says what each makes.
    required_pass, disabled_pass : iterable of str, optional
        Names of passes; old ``tir.*`` names are translated. A pass of Relay's that vmkit does not have may be disabled.
    instruments : sequence of PassInstrument, optional
    config : Mapping, optional
        Options of single passes by name; old names are translated.

    Raises
    ------
    OptionError
        Listing every unknown name, with close matches, and every value of the wrong type.

    Examples
    --------
    >>> with PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
    ...     dict(current_options().config)
    {'tirx.disable_vectorize': True}
    """
    return tvm.transform.PassContext(*checked_options(opt_level, required_pass, disabled_pass, instruments, config))


def checked_options(
    opt_level: int = 2,
    required_pass: Iterable[str] | None = None,
    disabled_pass: Iterable[str] | None = None,
    instruments: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> tuple[int, list[str], list[str], list[Any], dict[str, Any]]:
    """Return the arguments of :func:`PassContext` with old names translated, for TVM's own class."""
    problems: list[str] = []
    if not isinstance(opt_level, int) or isinstance(opt_level, bool) or opt_level not in _OPT_LEVELS:
        problems.append(f"opt_level: expected an int from 0 to 4, got {opt_level!r}")
    required = _pass_names("required_pass", required_pass, problems)
    disabled = _pass_names("disabled_pass", disabled_pass, problems)
    for index, instrument in enumerate(instruments or ()):
        if not isinstance(instrument, PassInstrument | PassTimingInstrument):
            got = type(instrument).__name__
            problems.append(f"instruments[{index}]: expected a tvm.ir.instrument.PassInstrument, got {got}")
    options = _translated_config(config or {}, problems)
    _raise_if(problems)
    return opt_level, required, disabled, list(instruments or ()), options


def list_configs() -> dict[str, dict[str, str]]:
    """Return the options that a ``PassContext`` knows, by name: today's, and those of Relay's time.

    Each has its ``type``. An option of Relay's time that has no counterpart takes the values alone that ask for what is
    done anyway.
    """
    known = {str(name): {str(k): str(v) for k, v in row.items()} for name, row in _own_list_configs().items()}
    for name, kind in RELAY_OPTIONS.items():
        known[name] = {"type": _NODE_OF[kind]}
    for name, gone in _GONE_CONFIG.items():
        known.setdefault(name, {"type": _NODE_OF[type(gone.accepted[0])]})
    for old, name in _RENAMED_CONFIG.items():
        if name in known:
            known.setdefault(old, known[name])
    return known


def check_context(context: tvm.transform.PassContext) -> None:
    """Raise ``OptionError`` if `context`, made by any means, names passes that do not exist."""
    problems: list[str] = []
    for what, names in (("required_pass", context.required_pass), ("disabled_pass", context.disabled_pass)):
        for name in map(str, names):
            if todays_name(name) != name:
                problems.append(f"{what}: {name!r} is called {todays_name(name)!r} today")
            else:
                problems += _complaints(what, name)
    if unpacked_options(context.config).keys() - RELAY_OPTIONS or _has_foreign_passes(context.config):
        problems += _refusal(PASSENGER_OPTION, list(context.config[PASSENGER_OPTION]))
    _raise_if(problems)


def current_options() -> CompilerOptions:
    """Return the checked options of the ``PassContext`` entered in this thread, or the defaults."""
    context = tvm.transform.PassContext.current()
    check_context(context)
    return CompilerOptions(
        opt_level=int(context.opt_level),
        required=frozenset(map(str, context.required_pass)),
        disabled=frozenset(map(str, context.disabled_pass)),
        config=MappingProxyType(
            {str(name): value for name, value in context.config.items() if name != PASSENGER_OPTION}
            | unpacked_options(context.config)
        ),
    )


def _has_foreign_passes(config: Mapping[str, Any]) -> bool:
    """Say whether a configuration asks for passes in TVM's option that carries Relay's options."""
    carried = config.get(PASSENGER_OPTION, ())
    return any(not isinstance(node, tvm.ir.DictAttrs) for nodes in carried for node in nodes)


def _pass_names(what: str, names: Iterable[str] | None, problems: list[str]) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str):
        problems.append(f"{what}: expected a list of pass names, got str {names!r}; pass [{names!r}]")
        return []
    translated = [todays_name(str(name)) for name in names]
    for name in translated:
        problems += _complaints(what, name)
    return translated


def _complaints(what: str, name: str) -> list[str]:
    known = known_passes()
    if name in known or (what == "disabled_pass" and name in RELAY_ONLY):
        return []
    if name in RELAY_ONLY:
        return [f"{what}: vmkit has no counterpart of Relay's pass {name!r}"]
    return [f"{what}: there is no pass {name!r}{suggest(name, known | RELAY_ONLY)}"]


def _translated_config(config: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    known = _own_list_configs()
    if not _has_foreign_passes(config):
        # The configuration of another context, in which Relay's options travel.
        config = {n: v for n, v in config.items() if n != PASSENGER_OPTION} | unpacked_options(config)
    options: dict[str, Any] = {}
    of_relay = {name: value for name, value in config.items() if name in RELAY_OPTIONS}
    for name, value in of_relay.items():
        if not isinstance(value, RELAY_OPTIONS[name]):
            problems.append(f"config: {name!r} cannot be {value!r}: expected {RELAY_OPTIONS[name].__name__}")
    if of_relay:
        options[PASSENGER_OPTION] = packed_options(of_relay)
    for old, value in config.items():
        name = _todays_config_name(old, known)
        if name in of_relay:
            continue
        if name in _GONE_CONFIG or name not in known:
            problems += _refusal(name, value) if name in _GONE_CONFIG else _unknown_config(old, known)
        elif name in options and name != PASSENGER_OPTION:
            problems.append(f"config: {name!r} is given twice, once by its old name")
        else:
            problems += _value_complaints(name, value)
            options.setdefault(name, value)
    return options


def _todays_config_name(name: str, known: Iterable[str]) -> str:
    if name in _RENAMED_CONFIG:
        return _RENAMED_CONFIG[name]
    prefix, _, rest = name.partition(".")
    if prefix != "tir" or name in _GONE_CONFIG:
        return name
    return next((new for new in (f"tirx.{rest}", f"s_tir.{rest}") if new in known), name)


def _refusal(name: str, value: Any) -> list[str]:
    gone = _GONE_CONFIG[name]
    return [] if value in gone.accepted else [f"config: {name!r} = {value!r} cannot be honoured: {gone.reason}"]


def _unknown_config(name: str, known: Iterable[str]) -> list[str]:
    reason = next((f": {reason}" for prefix, reason in _GONE_FAMILIES.items() if name.startswith(prefix)), "")
    return [f"config: there is no option {name!r}{reason or suggest(name, map(str, known))}"]


def _value_complaints(name: str, value: Any) -> list[str]:
    try:
        _own_init(tvm.transform.PassContext.__new__(tvm.transform.PassContext), config={name: value})
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        expected = str(_own_list_configs()[name]["type"])
        detail = str(error).splitlines()[0] if isinstance(value, Mapping) else f"expected {expected}"
        return [f"config: {name!r} cannot be {value!r}: {detail}"]
    return []


def _raise_if(problems: list[str]) -> None:
    if problems:
        raise OptionError("\n  ".join(["these compiler options cannot be used", *problems]))
