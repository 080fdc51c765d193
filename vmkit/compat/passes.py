"""``tvm.transform.PassContext`` with the names of passes and options that Relay had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm
from tvm.ir.instrument import PassInstrument
from tvm.ir.transform import PassContext, PassInfo

from vmkit.compiler.options import checked_options
from vmkit.relay.transform import module_pass

__all__ = ["install_pass_context"]

_own_init = PassContext.__init__
_own_init_info: Any = PassInfo.__init__


def install_pass_context() -> None:
    """Let ``tvm.transform.PassContext`` take what :func:`vmkit.PassContext` takes, and know the passes of scripts."""
    context: Any = PassContext
    context.__init__ = _init
    info: Any = PassInfo
    info.__init__ = _init_info
    for module in (tvm.transform, tvm.ir.transform):
        transforms: Any = module
        transforms.module_pass = module_pass


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
