"""Between bytecode blobs and the runtime modules that hold them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import tvm

from .._tvm.running import load_bytecode
from .blob import decode, encode
from .program import Program

__all__ = ["blob_of", "module_of"]

_FORMAT = "relax.VMExecutable"


def blob_of(module: tvm.runtime.Module) -> bytes:
    """Return the bytecode of a runtime module of the Relax VM."""
    with tempfile.TemporaryDirectory(prefix="vmkit-") as folder:
        path = Path(folder) / "code.ro"
        module.write_to_file(str(path), _FORMAT)
        return path.read_bytes()


def module_of(code: bytes | Program, libraries: Sequence[tvm.runtime.Module]) -> tvm.runtime.Module:
    """Return a runtime module of bytecode, which is checked first because the VM trusts it, and libraries."""
    program = code if isinstance(code, Program) else decode(code)
    program.validate()
    blob = encode(program) if isinstance(code, Program) else code
    module = load_bytecode(blob)
    for library in libraries:
        module.import_module(library)
    return module
