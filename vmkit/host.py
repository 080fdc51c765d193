"""Which machine code is for, and whether this machine can run it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm
from tvm.target import codegen

__all__ = ["Host", "built_for", "this_host"]

# LLVM's list for a cpu mixes instruction sets with tuning hints such as "fast-bextr"; code depends on the former.
_INSTRUCTION_SETS = re.compile(
    r"adx|aes|amx-.*|avx.*|bf16|bmi2?|cx16|dotprod|evex512|f16c|fma4?|fp-armv8|fullfp16|gfni|i8mm|lse|lzcnt|movbe"
    r"|neon|pclmul|popcnt|sha\d*|sme.*|sse.*|ssse3|sve.*|tbm|vaes|vpclmulqdq|xop"
)
# Where Linux names an instruction set otherwise than LLVM, punctuation aside.
_LINUX_NAMES = {
    "abm": ("lzcnt",),
    "asimd": ("neon",),
    "asimddp": ("dotprod",),
    "asimdhp": ("fullfp16",),
    "atomics": ("lse",),
    "bmi1": ("bmi",),
    "fp": ("fp-armv8",),
    "pclmulqdq": ("pclmul",),
    "pni": ("sse3",),
    "sha_ni": ("sha",),
    "sha1": ("sha2",),
}
_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Host:
    """A machine as far as native code cares: LLVM triple and instruction sets."""

    triple: str
    features: frozenset[str]

    @property
    def architecture(self) -> str:
        """The first part of the triple, such as ``x86_64``."""
        name = self.triple.split("-")[0]
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)

    @property
    def system(self) -> str:
        """The operating system in the triple, such as ``linux``, or an empty string."""
        found = re.search(r"linux|darwin|macos|windows|freebsd|android", self.triple)
        return found[0].replace("macos", "darwin") if found else ""

    def cannot_run(self, code: Host) -> str:
        """Return why code for the machine `code` cannot run here, or an empty string if it can."""
        if code.architecture != self.architecture:
            return f"it was built for {code.architecture} ({code.triple}), this machine is {self.architecture}"
        if code.system and self.system and code.system != self.system:
            return f"it was built for {code.system} ({code.triple}), this machine runs {self.system}"
        missing = sorted(code.features - self.features)
        if missing:
            return f"it was built for a CPU with {', '.join(missing)}, which this machine's CPU lacks"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the host as plain JSON values."""
        return {"triple": self.triple, "features": sorted(self.features)}


@lru_cache(maxsize=1)
def this_host() -> Host:
    """Return the machine this process runs on.

    LLVM goes by the model of the CPU. A hypervisor can hide instruction sets that the model has, AVX-512 above all,
    so on Linux what the kernel reports decides.
    """
    triple = str(codegen.llvm_get_system_triple())
    cpu = str(codegen.llvm_get_system_cpu())
    target = {"kind": "llvm", "mtriple": triple}
    if codegen.llvm_is_valid_cpu(cpu, triple):
        target["mcpu"] = cpu
    features = _features(tvm.target.Target(target))
    with contextlib.suppress(OSError):
        features = _visible(features, _CPU_INFO.read_text())
    return Host(triple, features)


def _visible(features: Iterable[str], cpu_info: str) -> frozenset[str]:
    """Return those of LLVM's `features` that the flags in Linux's description of the CPU confirm."""
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", cpu_info, re.MULTILINE)
    if line is None:
        return frozenset(features)
    flags = {plain for flag in line[1].split() for plain in (flag, *_LINUX_NAMES.get(flag, ()))}
    seen = {re.sub(r"\W|_", "", flag) for flag in flags}
    return frozenset(name for name in features if re.sub(r"\W|_", "", name) in seen)


def built_for(target: tvm.target.Target | None) -> Host:
    """Return the machine that the host half of `target` is for."""
    host = (target.host or target) if target is not None else None
    if host is None or host.kind.name != "llvm":
        return Host(this_host().triple, frozenset())
    return Host(str(host.attrs.get("mtriple", this_host().triple)), _features(host))


def _features(target: tvm.target.Target) -> frozenset[str]:
    names = (str(name) for name in codegen.llvm_get_cpu_features(target))
    return frozenset(name for name in names if _INSTRUCTION_SETS.fullmatch(name))
