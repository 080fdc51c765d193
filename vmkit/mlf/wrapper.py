"""Functions around the entry that hold the inputs and outputs themselves, for firmware that knows no model.

Their names and what they do are those of mlonmcu's ``tvm_wrapper.h``. For wrappers that others write, :mod:`.c_runtime`
has the names of TVM's C runtime that such include.
"""

from __future__ import annotations

from .c_main import MainWriter
from .c_runtime import FILES
from .program import Tensor

__all__ = ["wrapper_files"]

_HEADER = """#ifndef TVM_WRAPPER_H_
#define TVM_WRAPPER_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0 when all is well. */
int TVMWrap_Init(void);
int TVMWrap_Run(void);

/* Where an input is put before a run and an output is found after it, and their bytes; NULL and 0 of others. */
size_t TVMWrap_GetNumInputs(void);
void* TVMWrap_GetInputPtr(int index);
size_t TVMWrap_GetInputSize(int index);
size_t TVMWrap_GetNumOutputs(void);
void* TVMWrap_GetOutputPtr(int index);
size_t TVMWrap_GetOutputSize(int index);

#ifdef __cplusplus
}
#endif

#endif /* TVM_WRAPPER_H_ */
"""


def wrapper_files(writer: MainWriter) -> dict[str, str]:
    """Return the wrapper of a model, by places in the archive."""
    return {"runtime/include/tvm_wrapper.h": _HEADER, "runtime/src/tvm_wrapper.c": _source(writer), **FILES}


def _source(writer: MainWriter) -> str:
    prefix = writer.prefix
    sides = (("Input", "inputs", writer.program.inputs), ("Output", "outputs", writer.program.outputs))
    lines = [f'#include "{prefix}.h"', '#include "tvm_wrapper.h"', ""]
    for side, name, tensors in sides:
        lines += _tensors(side, name, [tensor for _, tensor in tensors])
    lines += ["int TVMWrap_Init(void) {", "  return 0;", "}", "", "int TVMWrap_Run(void) {"]
    for _, name, tensors in sides:
        values = ", ".join(f"{name}[{place}]" for place in range(len(tensors))) or "0"
        lines.append(f"  struct {prefix}_{name} all_{name} = {{{values}}};")
    lines += [f"  return (int){writer.entry}(&all_inputs, &all_outputs);", "}", ""]
    return "\n".join(lines)


def _tensors(side: str, name: str, tensors: list[Tensor]) -> list[str]:
    """Return the memory of inputs or outputs, and the functions that tell of it."""
    single = side.lower()
    memory = [
        # An element of 8 bytes gives an array of bytes the alignment that any element needs.
        f"static union {{ uint8_t bytes[{max(tensor.nbytes, 1)}]; int64_t aligned; double number; }} {single}{place};"
        for place, tensor in enumerate(tensors)
    ]
    count = max(len(tensors), 1)
    pointers = ", ".join(f"{single}{place}.bytes" for place in range(len(tensors))) or "0"
    sizes = ", ".join(str(tensor.nbytes) for tensor in tensors) or "0"
    inside = f"index >= 0 && index < {len(tensors)}"
    return [
        *memory,
        f"static uint8_t* const {name}[{count}] = {{{pointers}}};",
        f"static const size_t {single}_sizes[{count}] = {{{sizes}}};",
        "",
        f"size_t TVMWrap_GetNum{side}s(void) {{",
        f"  return {len(tensors)};",
        "}",
        "",
        f"void* TVMWrap_Get{side}Ptr(int index) {{",
        f"  return {inside} ? {name}[index] : 0;",
        "}",
        "",
        f"size_t TVMWrap_Get{side}Size(int index) {{",
        f"  return {inside} ? {single}_sizes[index] : 0;",
        "}",
        "",
    ]
