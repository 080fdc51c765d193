"""The binary form of a VM program, as TVM writes it under the format name ``relax.VMExecutable``.

Everything is little-endian, lists and strings are preceded by their length as uint64:

=================  ==================================================================================
header             uint64 magic, string version
global section     functions: int32 kind, string name, int64 start, end, arguments, registers, parameter names
memory scopes      pairs of int64 device index, string scope
constant section   values: int32 type index of tvm-ffi, then a DLTensor, shape, string, int, float or dtype
code section       offsets of the instructions, then their int64 words
=================  ==================================================================================

:func:`encode` of :func:`decode` gives back the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..errors import ExecutableError
from .program import (
    Arg,
    ArgKind,
    Call,
    Constant,
    DTypeConstant,
    FunctionKind,
    Goto,
    If,
    Instruction,
    Program,
    Ret,
    TensorConstant,
    VMFunction,
)

__all__ = ["decode", "encode"]

_MAGIC = 0xD225DE2F4214151E
_TENSOR_MAGIC = 0xDD5E40F096B4A13F
_ARG_KINDS = tuple(ArgKind)
_VALUE_BITS = 56
_VALUE_MASK = (1 << _VALUE_BITS) - 1


class _Type:
    """Type indices of tvm-ffi."""

    INT, FLOAT, DTYPE, STRING, SHAPE, TENSOR = 1, 3, 5, 65, 69, 70


class _Op:
    """What instructions begin with."""

    CALL, RET, GOTO, IF = 1, 2, 3, 4


class _Reader:
    """Reads fields off a blob; running out of bytes names the section."""

    def __init__(self, blob: memoryview) -> None:
        self.blob = blob
        self.position = 0
        self.section = "header"

    def fail(self) -> ExecutableError:
        return ExecutableError(
            f"Invalid VM file format in the {self.section} section: the code is truncated or altered "
            f"(at byte {self.position} of {len(self.blob)})"
        )

    def unpack(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + layout)
        if self.position + size > len(self.blob):
            raise self.fail()
        values = struct.unpack_from("<" + layout, self.blob, self.position)
        self.position += size
        return values

    def number(self, layout: str = "q") -> int:
        return int(self.unpack(layout)[0])

    def count(self, item_size: int = 1) -> int:
        """Read a length and check that so many items can follow."""
        count = self.number("Q")
        if count * item_size > len(self.blob) - self.position:
            raise self.fail()
        return count

    def raw(self, size: int) -> memoryview:
        if not 0 <= size <= len(self.blob) - self.position:
            raise self.fail()
        self.position += size
        return self.blob[self.position - size : self.position]

    def text(self) -> str:
        try:
            return str(self.raw(self.count()), "utf-8")
        except UnicodeDecodeError as error:
            raise self.fail() from error

    def numbers(self) -> tuple[int, ...]:
        count = self.count(8)
        return self.unpack(f"{count}q")


def decode(blob: bytes | bytearray | memoryview) -> Program:
    """Return the program in `blob`, whose tensors are parts of it: they are not copied.

    Raises
    ------
    ExecutableError
        ``Invalid VM file format in the ... section`` if the bytes are not a VM program or not a whole one.
    """
    reader = _Reader(memoryview(blob))
    if reader.number("Q") != _MAGIC:
        raise reader.fail()
    version = reader.text()
    reader.section = "global"
    functions = tuple(_read_function(reader) for _ in range(reader.count()))
    reader.section = "memory scope"
    scopes = tuple((reader.number(), reader.text()) for _ in range(reader.count()))
    reader.section = "constant"
    constants = tuple(_read_constant(reader) for _ in range(reader.count()))
    reader.section = "code"
    offsets, words = reader.numbers(), reader.numbers()
    if reader.position != len(reader.blob) or (words and not offsets):
        raise reader.fail()
    bounds = zip(offsets, (*offsets, len(words))[1:], strict=True)
    instructions = tuple(_read_instruction(words[start:end], reader.fail) for start, end in bounds)
    return Program(version, functions, scopes, constants, instructions)


def encode(program: Program) -> bytes:
    """Return the bytes of a program."""
    # Parts are joined once at the end: the tensors among them are large.
    out: list[bytes | memoryview] = [struct.pack("<Q", _MAGIC), _text(program.version)]
    out.append(struct.pack("<Q", len(program.functions)))
    for function in program.functions:
        out += [struct.pack("<i", function.kind), _text(function.name)]
        out.append(struct.pack("<4q", function.start, function.end, function.num_args, function.register_file_size))
        out += [struct.pack("<Q", len(function.param_names)), *map(_text, function.param_names)]
    out.append(struct.pack("<Q", len(program.memory_scopes)))
    for index, scope in program.memory_scopes:
        out += [struct.pack("<q", index), _text(scope)]
    out.append(struct.pack("<Q", len(program.constants)))
    for constant in program.constants:
        out += _constant_parts(constant)
    offsets: list[int] = []
    words: list[int] = []
    for instruction in program.instructions:
        offsets.append(len(words))
        words.extend(_instruction_words(instruction))
    return b"".join([*out, _numbers(offsets), _numbers(words)])


def _text(value: str) -> bytes:
    data = value.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _numbers(values: list[int] | tuple[int, ...]) -> bytes:
    return struct.pack(f"<Q{len(values)}q", len(values), *values)


def _read_function(reader: _Reader) -> VMFunction:
    kind = reader.number("i")
    if kind not in list(FunctionKind):
        raise reader.fail()
    name = reader.text()
    start, end, num_args, registers = reader.unpack("4q")
    names = tuple(reader.text() for _ in range(reader.count()))
    return VMFunction(FunctionKind(kind), name, start, end, num_args, registers, names)


def _read_constant(reader: _Reader) -> Constant:
    match reader.number("i"):
        case _Type.INT:
            return reader.number()
        case _Type.FLOAT:
            return float(reader.unpack("d")[0])
        case _Type.DTYPE:
            return DTypeConstant(reader.unpack("BBH"))
        case _Type.STRING:
            return reader.text()
        case _Type.SHAPE:
            return reader.numbers()
        case _Type.TENSOR:
            return _read_tensor(reader)
        case _:
            raise reader.fail()


def _read_tensor(reader: _Reader) -> TensorConstant:
    magic, reserved = reader.unpack("QQ")
    device_type, device_id, rank = reader.unpack("iii")
    dtype = reader.unpack("BBH")
    if magic != _TENSOR_MAGIC or not 0 <= rank <= len(reader.blob):
        raise reader.fail()
    shape = reader.unpack(f"{rank}q")
    data = reader.raw(reader.number())
    return TensorConstant(dtype, (device_type, device_id), shape, data, reserved)


def _constant_parts(value: Constant) -> list[bytes | memoryview]:
    if not isinstance(value, TensorConstant):
        return [_constant_bytes(value)]
    head = struct.pack("<iQQiii", _Type.TENSOR, _TENSOR_MAGIC, value.reserved, *value.device, len(value.shape))
    shape = struct.pack(f"<BBH{len(value.shape)}q", *value.dtype, *value.shape)
    return [head, shape, struct.pack("<q", value.nbytes), value.data]


def _constant_bytes(value: Constant) -> bytes:
    match value:
        case DTypeConstant(dtype):
            return struct.pack("<iBBH", _Type.DTYPE, *dtype)
        case str():
            return struct.pack("<i", _Type.STRING) + _text(value)
        case tuple():
            return struct.pack("<i", _Type.SHAPE) + _numbers(value)
        case int():
            return struct.pack("<iq", _Type.INT, value)
        case float():
            return struct.pack("<id", _Type.FLOAT, value)
        case _:
            raise ExecutableError(f"a {type(value).__name__} cannot be a constant of a VM program")


def _read_instruction(words: tuple[int, ...], fail: Callable[[], ExecutableError]) -> Instruction:
    match words:
        case (_Op.CALL, destination, function, count, *args) if len(args) == count:
            return Call(destination, function, tuple(_read_arg(word, fail) for word in args))
        case (_Op.RET, result):
            return Ret(result)
        case (_Op.GOTO, offset):
            return Goto(offset)
        case (_Op.IF, condition, offset):
            return If(condition, offset)
        case _:
            raise fail()


def _instruction_words(instruction: Instruction) -> tuple[int, ...]:
    match instruction:
        case Call(destination, function, args):
            return (_Op.CALL, destination, function, len(args), *map(_arg_word, args))
        case Ret(result):
            return (_Op.RET, result)
        case Goto(offset):
            return (_Op.GOTO, offset)
        case If(condition, offset):
            return (_Op.IF, condition, offset)


def _read_arg(word: int, fail: Callable[[], ExecutableError]) -> Arg:
    kind, value = (word >> _VALUE_BITS) & 0xFF, word & _VALUE_MASK
    if kind >= len(_ARG_KINDS):
        raise fail()
    # Negative values are stored by their two's complement in 56 bits.
    return Arg(_ARG_KINDS[kind], value - (1 << _VALUE_BITS) if value >> (_VALUE_BITS - 1) else value)


def _arg_word(arg: Arg) -> int:
    return (arg.kind << _VALUE_BITS) | (arg.value & _VALUE_MASK)
