"""Classes of targets: what tuning records are filed under, so that one machine's records serve others like it."""

from __future__ import annotations

from tvm.target import Target

from ..target import llvm

__all__ = ["target_class"]

# The widest first: the class of x86-64 and the features that it means (System V ABI, x86-64 psABI, section 3.1.1).
_X86 = (
    ("x86-64-v4", frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})),
    ("x86-64-v3", frozenset({"avx2", "fma"})),
)


def target_class(target: Target) -> str:
    """Return the class of a target: ``x86-64-v4`` or ``x86-64-v3`` by its features, ``aarch64``, ``generic`` ...

    >>> target_class(Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver3"}))
    'x86-64-v3'
    >>> target_class(Target({"kind": "llvm", "mtriple": "arm64-apple-macos"}))
    'aarch64'
    """
    kind = str(target.kind.name)
    if kind != "llvm":
        return kind
    triple, cpu, attributes = llvm.description_of(target)
    match llvm.architecture(triple):
        case "aarch64":
            return "aarch64"
        case "x86_64":
            features = llvm.cpu_features(triple, cpu, attributes)
            return next((name for name, needed in _X86 if needed <= features), "generic")
        case _:
            return "generic"
