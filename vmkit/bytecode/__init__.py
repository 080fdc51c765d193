"""The VM's bytecode: read, print, rewrite and write the code half of an executable."""

from .blob import decode, encode
from .listing import constants_text, disassemble, primitives_text, stats
from .loops import tail_calls_to_loops
from .module import blob_of, module_of
from .program import Arg, ArgKind, Call, FunctionKind, Goto, If, Instruction, Program, Ret, TensorConstant, VMFunction

__all__ = [
    "Arg",
    "ArgKind",
    "Call",
    "FunctionKind",
    "Goto",
    "If",
    "Instruction",
    "Program",
    "Ret",
    "TensorConstant",
    "VMFunction",
    "blob_of",
    "constants_text",
    "decode",
    "disassemble",
    "encode",
    "module_of",
    "primitives_text",
    "stats",
    "tail_calls_to_loops",
]
