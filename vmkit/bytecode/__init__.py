"""The VM's bytecode: read, print, rewrite and write the code half of an executable."""

from typing import TYPE_CHECKING

from .._later import named_later
from .blob import decode, encode
from .checks import CheckedTensor, checked_parameters, without_extent_checks
from .module import blob_of, module_of
from .program import Arg, ArgKind, Call, FunctionKind, Goto, If, Instruction, Program, Ret, TensorConstant, VMFunction
from .same_results import SameParts, same_parts
from .weights import lift_weights

if TYPE_CHECKING:
    from .listing import constants_text, disassemble, kernel_names, primitives_text, stats
    from .loops import tail_calls_to_loops

__all__ = [
    "Arg",
    "ArgKind",
    "Call",
    "CheckedTensor",
    "FunctionKind",
    "Goto",
    "If",
    "Instruction",
    "Program",
    "Ret",
    "SameParts",
    "TensorConstant",
    "VMFunction",
    "blob_of",
    "checked_parameters",
    "constants_text",
    "decode",
    "disassemble",
    "encode",
    "kernel_names",
    "lift_weights",
    "module_of",
    "primitives_text",
    "same_parts",
    "stats",
    "tail_calls_to_loops",
    "without_extent_checks",
]

__getattr__, __dir__ = named_later(__name__)
