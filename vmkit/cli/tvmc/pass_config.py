"""``tvm.driver.tvmc.pass_config``: options of passes out of ``NAME=VALUE``."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable
from typing import Any

from ...errors import suggest
from .exceptions import TVMCException

__all__ = ["parse_configs", "without_effect"]

logger = logging.getLogger(__name__)

_LOWER_PASS = "tir.add_lower_pass"
_TIR = ("tir.transform", "tvm.tir.transform")
_BOOLEANS = {"true": True, "false": False}
# Planned memory of TVM's that is gone: programs give its options with every model they compile.
_IDLE = "tir.usmp."


def parse_configs(input_configs: Iterable[str] | None) -> dict[str, Any]:
    """Return the options of passes by name, each as its type is.

    Parameters
    ----------
    input_configs : iterable of str or None
        Such as ``["tir.disable_vectorize=1", "relax.FuseOps.max_depth=10"]``. ``tir.add_lower_pass=LEVEL,PASS,...``
        names functions that make passes, by their module's names.

    Raises
    ------
    TVMCException
        For a text of another form, a name that there is not, or a value that an option does not have.
    """
    from vmkit.compiler.options import list_configs

    known = list_configs()
    configs: dict[str, Any] = {}
    for text in input_configs or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise TVMCException(f"Invalid format for pass config {text!r}. Supported format is NAME=VALUE")
        if name == _LOWER_PASS:
            configs.setdefault(name, []).extend(_lower_passes(value))
            continue
        if name.startswith(_IDLE):
            configs[name] = value
            continue
        todays = _todays(name, known)
        if todays is None:
            raise TVMCException(f"Configuration '{name}' is not defined in TVM{suggest(name, known)}")
        configs[name] = _value(name, value, known[todays]["type"])
    return configs


def without_effect(configs: dict[str, Any]) -> dict[str, Any]:
    """Return the options that something reads; of the others a warning says, once, that nothing does."""
    idle = sorted(name for name in configs if name.startswith(_IDLE))
    if idle:
        logger.warning(
            "--pass-config %s: no effect; TVM's unified static memory planner is gone, and vmkit plans memory always",
            ", ".join(idle),
        )
    return {name: value for name, value in configs.items() if name not in idle}


def _todays(name: str, known: Iterable[str]) -> str | None:
    prefix, _, rest = name.partition(".")
    forms = [name, *([f"tirx.{rest}", f"s_tir.{rest}"] if prefix == "tir" else [])]
    return next((form for form in forms if form in known), None)


def _value(name: str, text: str, type_name: str) -> bool | int | str:
    if type_name.endswith("String") or type_name == "str":
        return text
    if type_name in ("IntImm", "int", "bool", "Integer", "Bool") or "Int" in type_name:
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        try:
            return int(text)
        except ValueError:
            raise TVMCException(
                f"Value '{text}' is not valid for the configuration '{name}': expected a number, true or false"
            ) from None
    raise TVMCException(
        f"Unsupported configuration '{name}' for '{type_name}' type: the command line takes numbers and text"
    )


def _lower_passes(value: str) -> list[tuple[int, Any]]:
    """Return levels and passes out of ``LEVEL,PASS,LEVEL,PASS``."""
    words = [word.strip() for word in value.split(",")]
    if len(words) % 2:
        raise TVMCException(f"{_LOWER_PASS}={value}: expected LEVEL,PASS,LEVEL,PASS ...")
    return [(_level(level, value), _made(path)) for level, path in zip(words[::2], words[1::2], strict=True)]


def _level(word: str, value: str) -> int:
    if not word.isdigit():
        raise TVMCException(f"{_LOWER_PASS}={value}: the level {word!r} is no number")
    return int(word)


def _made(path: str) -> Any:  # noqa: ANN401 - a pass, of whatever makes it
    """Return the pass that a function makes: ``tir.transform.NAME``, or one by its module's name."""
    home, _, name = path.rpartition(".")
    homes = ["tvm.tirx.transform", "tvm.s_tir.transform"] if home in _TIR else [home]
    modules = [importlib.import_module(each) for each in homes]
    make = next((getattr(module, name) for module in modules if hasattr(module, name)), None)
    if make is None:
        known = [each for module in modules for each in dir(module) if each[:1].isupper()]
        raise TVMCException(f"{_LOWER_PASS}: {home} has no pass {name!r}{suggest(name, known)}")
    return make()
