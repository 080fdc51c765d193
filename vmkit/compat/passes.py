"""``tvm.transform.PassContext`` with the names of passes and options that Relay had, and ``PrintIR`` of Relay."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm
from tvm.ir.instrument import PassInstrument
from tvm.ir.transform import PassContext, PassInfo

from vmkit.compiler.options import checked_options, list_configs
from vmkit.relay.text import astext
from vmkit.relay.transform import module_pass

from .ir_module import is_relay_module

__all__ = ["install_pass_context"]

_own_init = PassContext.__init__
_own_init_info: Any = PassInfo.__init__
_own_override: Any = vars(PassContext)["override_instruments"]


def install_pass_context() -> None:
    """Let ``tvm.transform.PassContext`` take what :func:`vmkit.PassContext` takes, and know the passes of scripts."""
    context: Any = PassContext
    context.__init__, context.override_instruments = _init, _override
    context.list_configs = staticmethod(list_configs)
    info: Any = PassInfo
    info.__init__ = _init_info
    for module in (tvm.transform, tvm.ir.transform):
        transforms: Any = module
        transforms.module_pass, transforms.PrintIR = module_pass, PrintIR


def PrintIR(header: str = "", show_meta_data: bool = False) -> tvm.transform.Pass:
    """Return the pass that writes a module to standard error, and gives it on as it is.

    Parameters
    ----------
    header : str
        What is written before it.
    show_meta_data : bool
        Whether constants and other objects are written, which the text of Relay otherwise refers to by number.
    """

    @module_pass(opt_level=0, name="PrintIR")
    def run(mod: tvm.IRModule, _: PassContext) -> tvm.IRModule:
        text = astext(mod, show_meta_data=True) if show_meta_data and is_relay_module(mod) else str(mod)
        sys.stderr.write(f"PrintIR({header}):\n{text}\n")
        return mod

    return run


def _override(self: PassContext, instruments: Sequence[PassInstrument] | None) -> None:
    _own_override(self, list(instruments or ()))


def _init(
    self: PassContext,
    opt_level: int = 2,
    required_pass: Iterable[str] | None = None,
    disabled_pass: Iterable[str] | None = None,
    instruments: Sequence[PassInstrument] | None = None,
    config: Mapping[str, Any] | None = None,
) -> None:
    _own_init(self, *checked_options(opt_level, required_pass, disabled_pass, instruments, config))


def _init_info(
    self: PassInfo, opt_level: int, name: str, required: Sequence[str] | None = None, traceable: bool = False
) -> None:
    _own_init_info(self, opt_level, name, list(required or ()), traceable)
