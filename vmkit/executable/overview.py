"""What an executable's file says of itself, read without running any of its code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm.target import Target

from .. import bytecode
from .._dataclasses import dataclass
from ..bytecode.program import Program
from ..bytecode.stored_weights import with_block
from ..errors import ExecutableError, VMKitError
from ..target import command_line
from ..target.families import is_generic
from ..values.signature import Signature
from .archive import CODE, WEIGHTS, read_archive
from .build_info import BuildInfo
from .description import MALFORMED

__all__ = ["Overview", "overview"]


@dataclass(frozen=True)
class Overview:
    """What is in a file that :meth:`vmkit.Executable.export` wrote.

    Attributes
    ----------
    vmkit_version, tvm_version : str
        What it was compiled by.
    target, target_host : str or None
        What it was compiled for, as JSON; None if not known.
    signatures : mapping of str to Signature
        What its functions take and return, by their names.
    info : BuildInfo
        Facts about the build.
    members : mapping of str to int
        The bytes of each part of the file.
    program : Program
        Its bytecode, with the constants.
    """

    vmkit_version: str
    tvm_version: str
    target: str | None
    target_host: str | None
    signatures: Mapping[str, Signature]
    info: BuildInfo
    members: Mapping[str, int]
    program: Program

    @property
    def portable(self) -> bool:
        """Whether its kernels are for a family of processors, and compiled for the one that loads them."""
        libraries = [name for name in self.members if name.startswith("lib")]
        is_ir = bool(libraries) and all(name.endswith(".ll") for name in libraries)
        return is_ir and self.target is not None and is_generic(Target(json.loads(self.target)))

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels."""
        return bytecode.kernel_names(self.program, self.info.kernel_groups or {})

    @property
    def listing(self) -> str:
        """The instructions of every function, for people to read."""
        return bytecode.disassemble(self.program, self.info.kernel_groups or {})

    @property
    def constants(self) -> str:
        """The constants, one a line."""
        return bytecode.constants_text(self.program)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, without the program itself."""
        return {
            "vmkit_version": self.vmkit_version,
            "tvm_version": self.tvm_version,
            "target": self.target,
            "target_host": self.target_host,
            "signatures": {name: str(signature) for name, signature in self.signatures.items()},
            "members": dict(self.members),
            "portable": self.portable,
            "kernels": self.kernels,
            "info": self.info.to_json(),
        }

    def __str__(self) -> str:
        lines = [str(signature) for signature in self.signatures.values()]
        target = "an unknown target" if self.target is None else command_line(Target(json.loads(self.target)))
        lines.append(f"compiled by vmkit {self.vmkit_version} on TVM {self.tvm_version} for {target}")
        if self.portable:
            lines.append("portable: kernels are LLVM IR, compiled for the processor that loads them")
        lines += [f"  {name:12} {size:>12,} bytes" for name, size in self.members.items()]
        tuned = ", ".join(f"{count} {kind}" for kind, count in (self.info.kernels or {}).items() if count)
        lines.append(f"{len(self.kernels)} kernels{f' ({tuned})' if tuned else ''}")
        return "\n".join(lines)


def overview(path: str | Path) -> Overview:
    """Return what a file says of itself. None of its code is mapped, so that a file of any origin can be looked at.

    Raises
    ------
    ExecutableError
        If the file is missing, truncated, altered or of a newer format.
    """
    path = Path(path)
    manifest, members = read_archive(path)
    sizes = {name: len(data) for name, data in members.items()}
    try:
        return Overview(
            str(manifest["vmkit_version"]),
            str(manifest["tvm_version"]),
            manifest["target"],
            manifest["target_host"],
            {name: Signature.from_json(each) for name, each in manifest["signatures"].items()},
            BuildInfo.from_json(manifest["info"]),
            sizes,
            with_block(bytecode.decode(members[CODE]), members.get(WEIGHTS, memoryview(b""))),
        )
    except VMKitError:
        raise
    except MALFORMED as error:
        raise ExecutableError(f"{path}: the manifest is incomplete: {error!r}") from error
