"""Libraries of Relay functions and data types, as texts that a module imports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

import tvm
from tvm.ir import BaseFunc, GlobalVar

from ...errors import ModelError, suggest
from ..analysis.infer_type import inferred
from ..ir import define_type, post_order, type_definitions, with_functions
from ..text.parser import read_module

__all__ = ["import_from_std"]

# A definition of a library begins at the start of a line.
_DEFINITION = re.compile(r"^(?:def @(\w+)|(?:extern )?type (\w+)).*?^\}$", re.MULTILINE | re.DOTALL)


def import_from_std(mod: tvm.IRModule, file_name: str) -> None:
    """Add the functions and data types of a library to a module, in place; the functions have their types.

    What the module has of them already, by name, stays as it is.

    Parameters
    ----------
    mod : tvm.IRModule
        The module.
    file_name : str
        The library: ``"prelude.rly"``, ``"nat.rly"`` (which needs the prelude), ``"gradient.rly"`` or ``"core.rly"``.

    Raises
    ------
    ModelError
        When there is no library of that name.
    """
    known = sorted(entry.name for entry in files(__name__).iterdir() if entry.name.endswith(".rly"))
    if file_name not in known:
        raise ModelError(f"there is no library {file_name!r}{suggest(file_name, known)}; there are {', '.join(known)}")
    missing = list(_missing(mod, files(__name__).joinpath(file_name).read_text(encoding="utf-8")))
    if not missing:
        return
    had = type_definitions(mod)
    found = read_module("\n".join(['#[version = "0.0.5"]', *missing]), file_name, mod)
    define_type(mod, *(data for name, data in type_definitions(found).items() if name not in had))
    names = {gvar.name_hint for gvar in mod.functions}
    for gvar, function in _typed(found, [gvar for gvar in found.functions if gvar.name_hint not in names]).items():
        mod[gvar] = function


def _typed(mod: tvm.IRModule, wanted: list[GlobalVar]) -> dict[GlobalVar, BaseFunc]:
    """Return some functions of a module with their types; what they do not call may be ill-typed as yet."""
    called: dict[GlobalVar, BaseFunc] = {}
    waiting = list(wanted)
    while waiting:
        gvar = waiting.pop()
        if gvar not in called:
            called[gvar] = mod[gvar]
            waiting += [node for node in post_order(mod[gvar]) if isinstance(node, GlobalVar)]
    found = inferred(with_functions(mod, called))
    return {gvar: found[gvar] for gvar in wanted}


def _missing(mod: tvm.IRModule, text: str) -> Iterator[str]:
    functions = {gvar.name_hint for gvar in mod.functions}
    types = type_definitions(mod)
    for definition in _DEFINITION.finditer(text):
        function, data_type = definition.groups()
        if function not in functions and data_type not in types:
            yield definition.group()
