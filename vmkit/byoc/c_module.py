"""C that code generators write: made a module whose functions the VM calls, or a file that needs no runtime."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from .._tvm import c_module
from .region import Region

__all__ = ["ARRAY", "CODE_BEGINS", "module_of_c"]

ARRAY = "typedef struct { void* data; int32_t ndim; const int64_t* shape; } vmkit_array;"
"""What the functions that code generators write get several of."""

CODE_BEGINS = f"""\
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

{ARRAY}
"""
"""What a file of such functions begins with."""

# What crosses the border of a packed function, in the layout of tvm-ffi (tvm/ffi/c_api.h) and DLPack: written out, so
# that no header has to be there where the source is compiled.
_PACKED = """\
typedef struct { int32_t type_index; uint32_t padding; union { int64_t number; void* pointer; } value; } vmkit_any;
typedef struct {
  void* data;
  struct { int32_t type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} vmkit_tensor;

#ifdef __cplusplus
extern "C" {
#endif
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
#ifdef __cplusplus
}
#endif

static vmkit_array vmkit_argument(const vmkit_any* value) {
  /* A tensor object begins with 24 bytes that count its owners; a bare DLTensor does not. */
  const vmkit_tensor* t = (const vmkit_tensor*)((const char*)value->value.pointer + (value->type_index == 70 ? 24 : 0));
  vmkit_array made;
  made.data = (char*)t->data + t->byte_offset;
  made.ndim = t->ndim;
  made.shape = t->shape;
  return made;
}
"""

_ENTRY = """
#ifdef __cplusplus
extern "C"
#endif
__attribute__((visibility("default"))) int __tvm_ffi_{symbol}(
    void* self, const vmkit_any* args, int32_t count, vmkit_any* result) {{
  vmkit_array values[{count}];
  (void)self;
  (void)result;
  if (count != {count}) {{
    TVMFFIErrorSetRaisedFromCStr("TypeError", "{symbol} takes {count} tensors");
    return -1;
  }}
  for (int32_t i = 0; i < count; ++i) values[i] = vmkit_argument(args + i);
  if ({symbol}_run(values) != 0) {{
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "{symbol} failed: out of memory, or a shape that it cannot take");
    return -1;
  }}
  return 0;
}}
"""


def module_of_c(sources: Sequence[tuple[Region, str]]) -> tvm.runtime.Module:
    """Return a module of C functions, which is compiled when an executable is run or exported.

    Parameters
    ----------
    sources : sequence of (Region, str)
        Regions, and the C of each as :meth:`.CSource.source` returns it.
    """
    parts = [CODE_BEGINS, _PACKED]
    for region, source in sources:
        count = len(region.arguments) + len(region.outputs)
        parts += [source, _ENTRY.format(symbol=region.symbol, count=count)]
    return c_module("\n".join(parts), [region.symbol for region, _ in sources])
