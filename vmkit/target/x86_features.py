"""Features of x86 processors as Linux tells them, by LLVM's names: what can be told without LLVM.

The kernel lists a feature where the processor has it and the system lets programs use it, so one that is listed is
there. One that is not may have a name that is not known here: that has to be asked of LLVM.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["features_in"]

# The kernel's names (arch/x86/include/asm/cpufeatures.h) where they are not LLVM's with other punctuation.
_FLAGS = {
    "bmi": "bmi1",
    "crc32": "sse4_2",  # came with it, and has no flag of its own
    "lzcnt": "abm",
    "pclmul": "pclmulqdq",
    "sha": "sha_ni",
    "sse3": "pni",
    **{f"avx512{name}": f"avx512_{name}" for name in ("bf16", "bitalg", "fp16", "vbmi2", "vnni", "vp2intersect")},
    "avx512vpopcntdq": "avx512_vpopcntdq",
    **{name: name.replace("avx", "avx_") for name in ("avxifma", "avxvnni")},
}
_KNOWN = """
    adx amx-bf16 amx-int8 amx-tile avx avx2 avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl bmi2 cmov
    cx16 cx8 f16c fma fma4 gfni mmx movbe popcnt sse sse2 sse4.1 sse4.2 sse4a ssse3 tbm vaes vpclmulqdq xop
"""
_CPUINFO = Path("/proc/cpuinfo")


def features_in(cpuinfo: Path = _CPUINFO) -> set[str]:
    """Return features that are there, by their names in LLVM; none where the file does not say."""
    try:
        with open(cpuinfo, encoding="ascii", errors="replace") as lines:
            # The file has an entry for each processor, and takes the kernel milliseconds for many: one is enough.
            flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    except OSError:
        return set()
    plain = {name: name.replace("-", "_").replace(".", "_") for name in _KNOWN.split()}
    return {name for name, flag in (plain | _FLAGS).items() if flag in flags}
