"""What the LLVM inside TVM knows: triples, cpus, cpu features, and the machine this process runs on.

TVM only logs a bad ``mcpu``, lets LLVM ignore a bad feature, and dies of SIGSEGV when asked about a triple that LLVM
has no back end for. Nothing here asks LLVM about a triple before :func:`architecture` has accepted it.
"""

from __future__ import annotations

import functools
import os
import re

from tvm.target import Target, codegen

from .. import _tvm
from . import arm_features

__all__ = [
    "architecture",
    "cpu_features",
    "cpu_names",
    "default_triple",
    "description_of",
    "feature_names",
    "features_to_have",
    "host_cores",
    "host_cpu",
    "host_features",
    "is_cpu",
    "is_feature",
    "known_architectures",
    "library_version",
    "missing_on_host",
    "operating_system",
]

_SPELLINGS = {
    "amd64": "x86_64",
    "x86-64": "x86_64",
    "x86_64h": "x86_64",
    "arm64": "aarch64",
    "arm64e": "aarch64",
    "arm64_32": "aarch64_32",
    "xscale": "arm",
    "mipseb": "mips",
    "mipsallegrex": "mips",
    "ppc": "powerpc",
    "ppc32": "powerpc",
    "ppcle": "powerpcle",
    "ppc64": "powerpc64",
    "ppc64le": "powerpc64le",
    "ppu": "powerpc64",
    "s390": "s390x",
    "systemz": "s390x",
    "sparc64": "sparcv9",
}
_FAMILIES = (
    (re.compile(r"i[3-9]86$"), "i386"),
    (re.compile(r"arm(v\d.*)?eb|armeb.*$"), "armeb"),
    (re.compile(r"armv\d[\w.+-]*$"), "arm"),
    (re.compile(r"thumbeb.*$"), "thumbeb"),
    (re.compile(r"thumbv\d[\w.+-]*$"), "thumb"),
    (re.compile(r"mips(isa)?(32|)(r\d)?$"), "mips"),
    (re.compile(r"mips(isa)?(32|)(r\d)?el$"), "mipsel"),
    (re.compile(r"mips(isa)?64(r\d)?$"), "mips64"),
    (re.compile(r"mips(isa)?64(r\d)?el$"), "mips64el"),
)
# Instructions for operating systems, enclaves, ciphers and caches: part of what a cpu name stands for, but no compiler
# emits them for a tensor program, and hypervisors and makers of cheap boards often leave them out.
_NEVER_EMITTED = frozenset(
    """64bit aes cldemote clflushopt clwb clzero cmpccxadd enqcmd fsgsbase fsrm fxsr hreset invpcid kl lwp movdir64b
    movdiri mwaitx pconfig pku prefetchi prfchw ptwrite rand rdpid rdpru rdrnd rdseed rtm sahf serialize sgx
    sha2 shstk ssbs tsxldtrk uintr usermsr waitpkg wbnoinvd widekl xsave xsavec xsaveopt xsaves""".split()  # noqa: SIM905 - forty lines of one word each hide the rest
)


@functools.cache
def known_architectures() -> tuple[str, ...]:
    """The names of the back ends that this LLVM has, such as ``x86_64`` and ``aarch64``."""
    return tuple(str(name) for name in codegen.llvm_get_targets())


def architecture(triple: str) -> str | None:
    """The LLVM back end for `triple`, or None where there is none.

    >>> architecture("arm64-apple-macos"), architecture("thumbv7em-none-eabi"), architecture("x68-linux")
    ('aarch64', 'thumb', None)
    """
    first = triple.split("-", 1)[0].lower()
    name = _SPELLINGS.get(first, first)
    for pattern, family in _FAMILIES:
        if pattern.match(name):
            name = family
            break
    return name if name in known_architectures() else None


def library_version() -> str:
    """The version of LLVM itself, as far as TVM tells it."""
    return str(codegen.llvm_version_major())


def operating_system(triple: str) -> str:
    """``"linux"``, ``"darwin"``, ``"windows"`` or, for anything else, ``""``."""
    for name, marks in {"linux": ("linux",), "darwin": ("darwin", "macos", "apple"), "windows": ("windows",)}.items():
        if any(mark in triple for mark in marks):
            return name
    return ""


def default_triple() -> str:
    """The triple of the machine this process runs on, as LLVM names it."""
    return str(codegen.llvm_get_system_triple())


def description_of(target: Target) -> tuple[str, str, tuple[str, ...]]:
    """The triple, the cpu and the attributes of a target, as :func:`cpu_features` takes them."""
    triple = str(target.attrs.get("mtriple", "")) or default_triple()
    return triple, str(target.attrs.get("mcpu", "")), tuple(str(a) for a in target.attrs.get("mattr", ()))


def host_cpu() -> str:
    """The name LLVM gives to the cpu of this machine."""
    return str(codegen.llvm_get_system_cpu())


def missing_on_host(triple: str, cpu: str, attributes: tuple[str, ...]) -> list[str]:
    """Features that code for this cpu may use and that this machine does not have, sorted."""
    present = host_features()
    return [feature for feature in features_to_have(triple, cpu, attributes) if not present[feature]]


def features_to_have(triple: str, cpu: str, attributes: tuple[str, ...]) -> list[str]:
    """Features that code for this cpu may use, of those that can be detected on machines like this one, sorted."""
    return sorted((cpu_features(triple, cpu, attributes) - _NEVER_EMITTED) & host_features().keys())


def host_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def host_features() -> dict[str, bool]:
    """Each feature that LLVM, or on ARM Linux, can detect on this machine, and whether it is there.

    This is what the processor answers, not what a cpu of its name should have: a hypervisor may hide features.
    """
    detected = _tvm.host_features()
    more = arm_features.features_in() if architecture(default_triple()) == "aarch64" else {}
    return {**{str(name): bool(present) for name, present in detected.items()}, **more}


@functools.lru_cache(maxsize=256)
def cpu_features(triple: str, cpu: str = "", attributes: tuple[str, ...] = ()) -> frozenset[str]:
    """The features of `cpu` with `attributes` (``+name``, ``-name``) applied; `triple` must have a back end."""
    return frozenset(str(name) for name in codegen.llvm_get_cpu_features(_probe(triple, cpu, attributes)))


@functools.lru_cache(maxsize=64)
def cpu_names(triple: str) -> tuple[str, ...]:
    """The cpus that the back end of `triple` knows; `triple` must have a back end."""
    return tuple(str(name) for name in codegen.llvm_get_cpu_archlist(_probe(triple, "", ())))


def is_cpu(cpu: str, triple: str) -> bool:
    """Whether the back end of `triple` knows `cpu`; `triple` must have a back end."""
    return bool(codegen.llvm_is_valid_cpu(cpu, triple))


def is_feature(feature: str, triple: str) -> bool:
    """Whether the back end of `triple` knows `feature`; `triple` must have a back end."""
    return feature in cpu_features(triple, "", (f"+{feature}",))


def feature_names(triple: str) -> list[str]:
    """Features that some cpu of the back end of `triple` has."""
    return sorted({feature for cpu in cpu_names(triple) for feature in cpu_features(triple, cpu)})


def _probe(triple: str, cpu: str, attributes: tuple[str, ...]) -> Target:
    config: dict[str, object] = {"kind": "llvm", "mtriple": triple}
    if cpu:
        config["mcpu"] = cpu
    if attributes:
        config["mattr"] = list(attributes)
    return Target(config)
