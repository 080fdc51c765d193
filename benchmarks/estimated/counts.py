"""How often each basic block of a kernel runs: the kernel is linked with a small program and run by qemu."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .blocks import COUNTERS, MOST, Block, with_counters

__all__ = ["Operand", "counts", "missing_tools"]

_CODES = {"int": 0, "uint": 1, "float": 2}
_TOOLS = ("aarch64-linux-gnu-gcc", "qemu-aarch64-static")

# What a kernel needs of TVM's runtime, for one thread, and a main function that calls it with operands of ones.
_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef struct { int32_t type; int32_t id; } Device;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DataType;
typedef struct {
  void *data; Device device; int32_t ndim; DataType dtype; int64_t *shape, *strides; uint64_t offset;
} Tensor;
typedef struct { int32_t type; uint32_t padding; union { int64_t number; void *pointer; } value; } Any;
typedef struct { void *sync; int32_t tasks; } Group;
typedef int (*Task)(int, Group *, void *);
extern void *__TVMBackendParallelLaunch __attribute__((weak));
extern void *__TVMBackendAllocWorkspace __attribute__((weak));
extern void *__TVMBackendFreeWorkspace __attribute__((weak));
extern int __tvm_ffi_kernel(void *, Any *, int, Any *);
extern uint64_t %(counters)s[];
static int launch(Task task, void *data, int tasks) { Group g = {0, 1}; return task(0, &g, data); }
static void *allocate(int type, int id, uint64_t bytes, int code, int bits) {
  return aligned_alloc(64, (bytes + 127) / 64 * 64);
}
static int release(int type, int id, void *memory) { free(memory); return 0; }
void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int count) {
  for (int i = 0; i < count; ++i) fputs(parts[i], stderr);
}
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *text) { fputs(text, stderr); }
int main(void) {
  if (&__TVMBackendParallelLaunch) __TVMBackendParallelLaunch = launch;
  if (&__TVMBackendAllocWorkspace) __TVMBackendAllocWorkspace = allocate;
  if (&__TVMBackendFreeWorkspace) __TVMBackendFreeWorkspace = release;
  static Any args[%(arity)d];
%(operands)s
  Any result = {0};
  if (__tvm_ffi_kernel(0, args, %(arity)d, &result)) return 1;
  for (int i = 0; i < %(blocks)d; ++i) printf("%%llu\\n", (unsigned long long)%(counters)s[i]);
  return 0;
}
"""
_TENSOR = """  {{ static int64_t shape[] = {{{shape}}};
    static Tensor t = {{0, {{1, 0}}, {rank}, {{{code}, {bits}, 1}}, shape, 0, 0}};
    t.data = allocate(1, 0, {count} * {bits} / 8, 0, 0);
    for (uint64_t i = 0; i < {count}; ++i) (({kind} *)t.data)[i] = 1;
    args[{at}].type = 7; args[{at}].value.pointer = &t; }}"""
_NUMBER = "  args[{at}].type = 1; args[{at}].value.number = {value};"


@dataclass(frozen=True)
class Operand:
    """An operand of a kernel: a tensor of a data type, or a number."""

    shape: tuple[int, ...]
    dtype: str = ""
    value: int | None = None

    def written(self, at: int) -> str:
        """Return the statements that make it the argument at a position."""
        if self.value is not None:
            return _NUMBER.format(at=at, value=self.value)
        name = "uint1" if self.dtype == "bool" else self.dtype
        kind = name.rstrip("0123456789")
        bits = max(8, int(name.removeprefix(kind)))
        code = 6 if self.dtype == "bool" else _CODES[kind]
        types = {("float", 32): "float", ("float", 64): "double"}
        element = types.get((kind, bits), f"uint{bits}_t")
        count = " * ".join(["1ull", *map(str, self.shape)])
        shape = ", ".join(map(str, self.shape)) or "0"
        return _TENSOR.format(
            at=at, shape=shape, rank=len(self.shape), code=code, bits=bits, count=f"({count})", kind=element
        )


def missing_tools() -> list[str]:
    """Return the programs that are needed and are not there."""
    return [tool for tool in _TOOLS if shutil.which(tool) is None]


def counts(
    lines: Sequence[str], blocks: Sequence[Block], operands: Sequence[Operand], folder: Path, seconds: float = 120.0
) -> list[int]:
    """Return how often each block of a listing begins in one call of ``kernel``.

    Raises
    ------
    ValueError, subprocess.SubprocessError, KeyError
        If the kernel cannot be linked or run by itself, or has too many blocks or operands of other types.
    """
    if len(blocks) > MOST:
        raise ValueError(f"{len(blocks)} basic blocks, expected at most {MOST}")
    program = _PROGRAM % {
        "counters": COUNTERS,
        "arity": len(operands),
        "blocks": len(blocks),
        "operands": "\n".join(operand.written(at) for at, operand in enumerate(operands)),
    }
    (folder / "kernel.s").write_text(with_counters(lines, blocks))
    (folder / "main.c").write_text(program)
    compiler, emulator = _TOOLS
    build = [compiler, "-static", "-O1", "-w", "main.c", "kernel.s", "-lm", "-o", "main"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True, text=True)
    run = [emulator, "-cpu", "max", "./main"]
    done = subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True, timeout=seconds)
    return [int(line) for line in done.stdout.split()]
