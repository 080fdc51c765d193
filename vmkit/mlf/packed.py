"""Functions in the convention of TVM 0.14's C runtime, ``TVMBackendPackedCFunc``.

Arguments are values of 8 bytes, of which those of tensors point at ``DLTensor``; results are tensors among them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .c_main import MainWriter

__all__ = ["PREAMBLE", "packed_entry", "packed_function", "packed_head"]

PREAMBLE = """#include <stdint.h>

typedef struct {
  void* data;
  struct { int32_t type; int32_t id; } device;
  int32_t ndim;
  struct { uint8_t code; uint8_t bits; uint16_t lanes; } dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} Tensor;

typedef union {
  int64_t number;
  double real;
  Tensor* tensor;
} Value;

static void* elements(const void* args, int place) {
  const Tensor* tensor = ((const Value*)args)[place].tensor;
  return (uint8_t*)tensor->data + tensor->byte_offset;
}"""
"""What a file of such functions begins with; ``elements(args, place)`` is where an argument's elements are."""

_PARAMS = "void* args, int32_t* type_codes, int32_t count, void* result, int32_t* result_code, void* resource"
_UNREAD = ("type_codes", "count", "result", "result_code", "resource")


def packed_head(symbol: str) -> str:
    """Return the head of a function."""
    return f"int32_t {symbol}({_PARAMS})"


def packed_function(symbol: str, declared: Sequence[str], statements: Sequence[str], result: str = "0") -> str:
    """Return a function: its declarations and statements, indented, which read ``args``, and what it returns."""
    unread = [f"  (void){name};" for name in _UNREAD]
    return "\n".join([f"{packed_head(symbol)} {{", *declared, *unread, *statements, f"  return {result};", "}"])


def packed_entry(writer: MainWriter) -> str:
    """Return the file of the entry that takes the inputs and then the outputs as tensors, and calls the other entry.

    The number of arguments is not looked at, nor the tensors' types and shapes: firmware that knows the model leaves
    them out.
    """
    prefix, place = writer.prefix, 0
    declared = []
    for name, fields in (("inputs", writer.input_fields), ("outputs", writer.output_fields)):
        values = ", ".join(f"elements(args, {place + k})" for k in range(len(fields))) or "0"
        declared.append(f"  struct {prefix}_{name} {name} = {{{values}}};")
        place += len(fields)
    entry = packed_function(f"{prefix}_run", declared, [], f"{writer.entry}(&inputs, &outputs)")
    return "\n\n".join([f'#include "{prefix}.h"', PREAMBLE, entry]) + "\n"
