"""Bring your own code generator: parts of a program that something else compiles or runs.

A code generator is one class, registered by its name: which operators and patterns it takes, what it makes of a
region of them, and how that is run. :func:`partition` cuts a program for it; :func:`vmkit.compile` calls it for each
function with its name as attribute ``Compiler``, however that came there, and links the result into the executable.
"""

from . import ccompiler, examplejson, examplejson_native, onednn, openblas
from .codegen import CODEGENS, Codegen, CSource, Graph, RuntimeModule, codegen
from .linking import Linked, link_functions, with_global_functions
from .partitioning import Kept, Partitioned, partition
from .region import Node, Region, Value

__all__ = [
    "CODEGENS",
    "CSource",
    "Codegen",
    "Graph",
    "Kept",
    "Linked",
    "Node",
    "Partitioned",
    "Region",
    "RuntimeModule",
    "Value",
    "ccompiler",
    "codegen",
    "examplejson",
    "examplejson_native",
    "link_functions",
    "onednn",
    "openblas",
    "partition",
    "with_global_functions",
]
