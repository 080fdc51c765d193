"""Kernels as LLVM IR that goes to any processor of a family, and is compiled for the one that it is loaded on.

What a function may use of a processor stands in the IR itself: LLVM's attributes of functions, and a flag of the module
by which TVM makes its code generator. Both are about the family when the file is written, and about the processor at
hand when it is loaded: vectors and multiply-adds become instructions that the family does not have in common.
"""

from __future__ import annotations

import json
import re

from tvm.target import Target

from ..errors import ExecutableError
from ..target import command_line
from ..target.check import native_config
from ..target.families import is_generic

__all__ = ["compiled_for_here", "require_portable"]

_FLAG = re.compile(r'(!"tvm_target", !")([^"]*)(")')
_ATTRIBUTES = re.compile(r"^attributes #\d+ = \{.*\"target-cpu\".*\}$", re.M)
_OF_A_CPU = re.compile(r' "(target-cpu|target-features|tune-cpu)"(="[^"]*")?')


def require_portable(text: str) -> None:
    """Raise ExecutableError for LLVM IR that was made for one processor, whose instructions it calls by their names."""
    target = _target_of(text)
    if target is None or not is_generic(target):
        raise ExecutableError(
            "portable=True stores kernels for any processor of a family, and these were compiled for one: "
            f"{'unknown' if target is None else command_line(target)}; compile for a family: target='portable', or "
            "'llvm -mcpu=x86-64-v3' for the processors that have AVX2"
        )


def compiled_for_here(text: str) -> str:
    """Return LLVM IR for a family of processors as IR for the one at hand; other IR as it is."""
    target = _target_of(text)
    if target is None or not is_generic(target):
        return text
    native = native_config()
    features = ",".join(native.get("mattr", ()))
    own = f' "target-cpu"="{native["mcpu"]}"' + (f' "target-features"="{features}"' if features else "") + " }"
    mine = {name: native[name] for name in ("mcpu", "mattr") if name in native}
    # LLVM writes a quote in a text as its number.
    said = json.dumps({**_config_in(text), **mine}, separators=(",", ":")).replace('"', r"\22")
    text = _FLAG.sub(lambda found: found[1] + said + found[3], text)
    return _ATTRIBUTES.sub(lambda found: _OF_A_CPU.sub("", found[0]).removesuffix(" }") + own, text)


def _target_of(text: str) -> Target | None:
    config = _config_in(text)
    return Target(config) if config else None


def _config_in(text: str) -> dict[str, object]:
    """Return what a module says of its target; empty if it says nothing."""
    found = _FLAG.search(text)
    return dict(json.loads(found[2].replace(r"\22", '"'))) if found else {}
