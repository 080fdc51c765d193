"""The entry of a program in C99: its header, and the calls of its kernels on inputs, outputs, workspace, constants."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from textwrap import indent

from .._dataclasses import dataclass
from .c_kernels import declaration
from .c_names import c_name
from .c_numbers import c_type, element_words
from .foreign import ForeignCode
from .kernels import Kernel
from .planning import Plan
from .program import (
    Branch,
    Call,
    Copy,
    Foreign,
    Instruction,
    Kind,
    Leave,
    Loop,
    Program,
    Repeat,
    Tensor,
    item_bytes,
    plain_tensors,
    walk,
)

__all__ = ["FIELD", "MainWriter", "field_names"]

FIELD = re.compile(r"void\* (\w+); /\* (\w+)(\[[\d, ]*\]) \*/")
"""A field of the structs of inputs and outputs in a header: its name, its data type, its shape."""

_PER_LINE = 12
_MACROS = frozenset({"WORKSPACE"})
"""What a header has sizes of beside those of inputs and outputs."""


def field_names(names: Sequence[str], taken: Container[str] = ()) -> list[str]:
    """Return the names of fields of a struct for tensors, no two alike but for the case of letters.

    Parameters
    ----------
    names
        What the tensors are called.
    taken
        Names in capitals that no field has.

    >>> field_names(["x:0", "x_0", "scale"], {"SCALE"})
    ['x_0', 'x_0_1', 'scale_1']
    """
    made: list[str] = []
    capitals: set[str] = set()
    for name in names:
        field, number = c_name(name), 0
        while field.upper() in capitals or field.upper() in taken:
            number += 1
            field = f"{c_name(name)}_{number}"
        made.append(field)
        capitals.add(field.upper())
    return made


@dataclass(frozen=True)
class MainWriter:
    """Writes the entry of one program.

    Parameters
    ----------
    name : str
        The model's, an identifier of C.
    program, plan
        The program, and its workspace.
    kernels : mapping of str to Kernel
        What it calls.
    symbols : mapping of str to str
        The functions of the kernels.
    alignment : int
        What the workspace's address is a multiple of.
    entry : str
        The name of the entry.
    foreign : ForeignCode
        The functions that other code generators wrote.
    declared : sequence of str
        What else the header declares.
    """

    name: str
    program: Program
    plan: Plan
    kernels: Mapping[str, Kernel]
    symbols: Mapping[str, str]
    alignment: int
    entry: str
    foreign: ForeignCode
    declared: Sequence[str] = ()

    @property
    def prefix(self) -> str:
        """What all names of the model begin with."""
        return f"tvmgen_{self.name}"

    @cached_property
    def input_fields(self) -> list[str]:
        """The names of the inputs in the struct of them."""
        return field_names([name for name, _ in self.program.inputs], _MACROS)

    @cached_property
    def output_fields(self) -> list[str]:
        """The names of the outputs in the struct of them."""
        inputs = zip(self.input_fields, (tensor.nbytes for _, tensor in self.program.inputs), strict=True)
        # An input that is an output as well has one macro of its size.
        own = {(c_name(name), tensor.nbytes) for name, tensor in self.program.outputs}
        taken = {field.upper() for field, size in inputs if (field, size) not in own}
        return field_names([name for name, _ in self.program.outputs], _MACROS | taken)

    @property
    def head(self) -> str:
        """The head of the entry."""
        inputs, outputs = f"struct {self.prefix}_inputs* inputs", f"struct {self.prefix}_outputs* outputs"
        return f"int32_t {self.entry}({inputs}, {outputs})"

    def header(self) -> str:
        """Return the header of the entry."""
        upper = self.prefix.upper()
        inputs = list(zip(self.input_fields, self.program.inputs, strict=True))
        outputs = list(zip(self.output_fields, self.program.outputs, strict=True))
        sizes = [f"#define {upper}_{field.upper()}_SIZE {tensor.nbytes}" for field, (_, tensor) in (*inputs, *outputs)]
        return "\n".join(
            [
                f"#ifndef {upper}_H_",
                f"#define {upper}_H_",
                "",
                "#include <stdint.h>",
                "",
                "#ifdef __cplusplus",
                'extern "C" {',
                "#endif",
                "",
                "/* Bytes of each input and output, and of the workspace, which the library allocates itself. */",
                *dict.fromkeys(sizes),
                f"#define {upper}_WORKSPACE_SIZE {self.plan.size}",
                "",
                *_struct(f"{self.prefix}_inputs", inputs),
                "",
                *_struct(f"{self.prefix}_outputs", outputs),
                "",
                "/* What lies between inputs and outputs: nothing of it is kept from one run to the next. */",
                f"extern uint8_t {self.prefix}_workspace[];",
                "",
                f"/* Computes the outputs; no two of the tensors may overlap. {self.foreign.failure} */",
                f"{self.head};",
                "",
                *self.declared,
                "#ifdef __cplusplus",
                "}",
                "#endif",
                "",
                f"#endif /* {upper}_H_ */",
                "",
            ]
        )

    def source(self) -> str:
        """Return the file with the constants, the workspace and the entry."""
        used = {name for name, *_ in self.constants()}
        arrays = [self.array(*each) for each in dict.fromkeys(self.constants())]
        assert len(arrays) == len(used)
        ran = indent("\n".join(self.statements(self.program.body)), "  ")
        unread = [f"  (void){each};" for each in ("inputs", "outputs") if f"{each}->" not in ran]
        return "\n".join(
            [
                f'#include "{self.prefix}.h"',
                "",
                "#include <math.h>",
                "#include <stdint.h>",
                "#include <string.h>",
                "",
                *(f"{declaration(k, self.symbols[name])};" for name, k in self.kernels.items()),
                *self.foreign.declarations(),
                "",
                *arrays,
                *self.workspace(),
                "",
                f"{self.head} {{",
                *unread,
                *([ran] if ran else []),
                "  return 0;",
                "}",
                "",
            ]
        )

    def workspace(self) -> list[str]:
        """Return the definition of the workspace, for which a build may name a section of memory."""
        upper = self.prefix.upper()
        return [
            f"#ifndef {upper}_WORKSPACE_ATTRIBUTES",
            "#if defined(__GNUC__)",
            f"#define {upper}_WORKSPACE_ATTRIBUTES __attribute__((aligned({self.alignment})))",
            "#else",
            f"#define {upper}_WORKSPACE_ATTRIBUTES",
            "#endif",
            "#endif",
            f"{upper}_WORKSPACE_ATTRIBUTES uint8_t {self.prefix}_workspace[{max(self.plan.size, 1)}];",
        ]

    def constants(self) -> Iterator[tuple[str, int, str]]:
        """Yield the arrays that are read: name, place among the constants, data type in memory."""
        for call in self.program.calls:
            kernel = self.kernels[call.kernel]
            for param, tensor in zip(kernel.params, call.args, strict=True):
                if tensor.memory.home.kind is Kind.CONSTANT and param not in kernel.known:
                    yield self.constant(tensor, kernel.stored.get(param, tensor.dtype))
        for tensor in (tensor for each in walk(self.program.body) for tensor in plain_tensors(each)):
            if tensor.memory.home.kind is Kind.CONSTANT:
                yield self.constant(tensor, str(self.program.constants[tensor.memory.home.index].dtype))

    def constant_bytes(self) -> int:
        """Return the bytes of all arrays of constants."""
        arrays = set(self.constants())
        return sum(self.program.constants[index].size * item_bytes(dtype) for _, index, dtype in arrays)

    def constant(self, tensor: Tensor, dtype: str) -> tuple[str, int, str]:
        """Return the name of the array of a constant, its place, and the data type of the array."""
        index = tensor.memory.home.index
        own = str(self.program.constants[index].dtype)
        return f"{self.prefix}_constant_{index}" + ("" if dtype == own else f"_{dtype}"), index, dtype

    def array(self, name: str, index: int, dtype: str) -> str:
        """Return the definition of an array of constants."""
        words = element_words(self.program.constants[index], dtype)
        lines = [", ".join(words[at : at + _PER_LINE]) for at in range(0, len(words), _PER_LINE)]
        body = ",\n  ".join(lines) or "0"
        return f"static const {c_type(dtype)} {name}[{max(len(words), 1)}] = {{\n  {body}\n}};\n"

    def statements(self, body: Sequence[Instruction]) -> Iterator[str]:
        """Yield the lines of instructions."""
        for each in body:
            match each:
                case Call():
                    yield self.call(each)
                case Copy() if each.source.nbytes:
                    yield f"memcpy({self.address(each.target)}, {self.address(each.source)}, {each.source.nbytes});"
                case Foreign():
                    yield from self.foreign.call(each.symbol, [(self.address(t), t.shape) for t in each.args])
                case Branch():
                    condition = f"*(const {c_type(each.condition.dtype)}*)(const void*){self.address(each.condition)}"
                    yield f"if ({condition}) {{"
                    yield from (f"  {line}" for line in self.statements(each.then))
                    yield "} else {"
                    yield from (f"  {line}" for line in self.statements(each.otherwise))
                    yield "}"
                case Loop():
                    yield "for (;;) {"
                    yield from (f"  {line}" for line in self.statements(each.body))
                    yield "}"
                case Repeat():
                    yield "continue;"
                case Leave():
                    yield "break;"

    def call(self, call: Call) -> str:
        """Return the call of a kernel."""
        kernel = self.kernels[call.kernel]
        args = [
            self.address(tensor, kernel.stored.get(param))
            for param, tensor in zip(kernel.params, call.args, strict=True)
            if param not in kernel.known
        ]
        args += [self.place(self.plan.offsets.get(memory.home, 0)) for memory in call.workspace]
        return f"{self.symbols[call.kernel]}({', '.join(args)});"

    def address(self, tensor: Tensor, stored: str | None = None) -> str:
        """Return where the elements of a tensor are."""
        memory = tensor.memory.home
        match memory.kind:
            case Kind.INPUT:
                return f"inputs->{self.input_fields[memory.index]}"
            case Kind.OUTPUT:
                return f"outputs->{self.output_fields[memory.index]}"
            case Kind.CONSTANT:
                own = str(self.program.constants[memory.index].dtype)
                return self.constant(tensor, stored or own)[0]
        return self.place(self.plan.offsets.get(memory, 0))

    def place(self, offset: int) -> str:
        """Return an address in the workspace."""
        return f"(void*)({self.prefix}_workspace + {offset})"


def _struct(name: str, fields: Sequence[tuple[str, tuple[str, Tensor]]]) -> list[str]:
    # A struct of C has a field at least.
    lines = [f"  void* {field}; /* {tensor.dtype}{list(tensor.shape)} */" for field, (_, tensor) in fields]
    return [f"struct {name} {{", *(lines or ["  void* none;"]), "};"]
