"""What Linux says that a 64-bit ARM processor has: LLVM asks it about few of the features that it emits code for."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["features_in"]

# By LLVM's name of the feature, the names in /proc/cpuinfo (Linux, Documentation/arch/arm64/elf_hwcaps.rst).
_FLAGS = {
    "bf16": {"bf16"},
    "complxnum": {"fcma"},
    "dotprod": {"asimddp"},
    "fp16fml": {"asimdfhm"},
    "fullfp16": {"fphp", "asimdhp"},
    "i8mm": {"i8mm"},
    "jsconv": {"jscvt"},
    "lse": {"atomics"},
    "rcpc": {"lrcpc"},
    "rdm": {"asimdrdm"},
    "sve": {"sve"},
    "sve2": {"sve2"},
}
_CPUINFO = Path("/proc/cpuinfo")


def features_in(cpuinfo: Path = _CPUINFO) -> dict[str, bool]:
    """Return whether each feature is there by its name in LLVM; nothing where the file does not say.

    Where processors differ, as big and small ones may, only what all of them have is there.
    """
    try:
        lines = re.findall(r"^Features\s*:(.*)$", cpuinfo.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    except OSError:
        return {}
    if not lines:
        return {}
    everywhere = set.intersection(*(set(line.split()) for line in lines))
    return {feature: flags <= everywhere for feature, flags in _FLAGS.items()}
