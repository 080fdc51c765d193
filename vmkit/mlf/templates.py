"""Files that firmware begins with: copied out of an archive and filled in, where TVM's archives had theirs."""

from __future__ import annotations

from collections.abc import Sequence

from .c_main import MainWriter
from .program import Tensor

__all__ = ["template_files"]


def template_files(writer: MainWriter) -> dict[str, str]:
    """Return the templates of a model, by places in the archive."""
    return {"templates/crt_config.h.template": _config(writer), "templates/platform.c.template": _platform(writer)}


def _config(writer: MainWriter) -> str:
    upper = writer.prefix.upper()
    return f"""/* What can be chosen of the model {writer.name}; given to the compiler by -include crt_config.h. */
#ifndef CRT_CONFIG_H_
#define CRT_CONFIG_H_

/* Where the workspace of {writer.plan.size} bytes lies, such as in a section of fast memory. */
#define {upper}_WORKSPACE_ATTRIBUTES __attribute__((aligned({writer.alignment})))

#endif /* CRT_CONFIG_H_ */
"""


def _platform(writer: MainWriter) -> str:
    prefix = writer.prefix
    inputs = _memory("input", writer.input_fields, [tensor for _, tensor in writer.program.inputs])
    outputs = _memory("output", writer.output_fields, [tensor for _, tensor in writer.program.outputs])
    return "\n".join(
        [
            f"/* Runs the model {writer.name} once. */",
            f'#include "{prefix}.h"',
            "",
            *(line for line, _ in (*inputs, *outputs)),
            "",
            "int main(void) {",
            f"  struct {prefix}_inputs inputs = {{{_values(inputs)}}};",
            f"  struct {prefix}_outputs outputs = {{{_values(outputs)}}};",
            "  /* Put the inputs here. */",
            f"  const int32_t failed = {writer.entry}(&inputs, &outputs);",
            "  /* Use the outputs here. */",
            "  return (int)failed;",
            "}",
            "",
        ]
    )


def _memory(side: str, fields: Sequence[str], tensors: Sequence[Tensor]) -> list[tuple[str, str]]:
    """Return for each tensor the C of memory that is aligned for any element, and of the pointer to it."""
    made = []
    for field, tensor in zip(fields, tensors, strict=True):
        name = f"{side}_{field}"
        bytes_ = f"union {{ uint8_t bytes[{max(tensor.nbytes, 1)}]; int64_t aligned; double number; }}"
        made.append((f"static {bytes_} {name};", f"{name}.bytes"))
    return made


def _values(memory: Sequence[tuple[str, str]]) -> str:
    return ", ".join(pointer for _, pointer in memory) or "0"
