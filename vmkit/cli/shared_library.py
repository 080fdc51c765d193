"""Executables as one shared library, which TVM's own runtime loads where vmkit is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ExecutableError

if TYPE_CHECKING:
    from vmkit.executable.executable import Executable

__all__ = ["load_shared_library", "write_shared_library"]


def write_shared_library(executable: Executable, path: Path, linker: str | None = None) -> None:
    """Write an executable as a shared library.

    ``tvm.runtime.load_module(path)`` reads it, for ``tvm.relax.VirtualMachine``; so does :func:`load_shared_library`,
    which also finds what vmkit knows of the program.

    Parameters
    ----------
    executable : Executable
        The program, its kernels not linked yet.
    path : Path
        The file.
    linker : str, optional
        What links the kernels; see :meth:`vmkit.Executable.export`.

    Raises
    ------
    ExecutableError
        If the file cannot be written, or nothing links for the machine that the program is for.
    """
    from vmkit.compat.vm_executable import relay_executable
    from vmkit.executable.linker import advice, linker_for
    from vmkit.executable.replacing import replacing
    from vmkit.executable.scratch import scratch_folder
    from vmkit.target.llvm import default_triple

    if not path.parent.is_dir():
        raise ExecutableError(f"cannot write {path}: there is no folder {path.parent}")
    if not executable.libraries or not all(each.is_compilation_exportable() for each in executable.libraries):
        raise ExecutableError(
            f"{path}: the program has no kernels that can be linked anew, so it is no library; -f vmx writes it"
        )
    target = executable.target
    host = target if target is None or target.host is None else target.host
    triple = str(host.attrs.get("mtriple", "")) if host is not None and host.kind.name == "llvm" else ""
    triple = triple or str(default_triple())
    link = linker_for(triple, linker)
    if link is None:
        raise ExecutableError(f"{path}: nothing links a library for {triple}: {advice(triple)}")
    with scratch_folder() as folder:
        made = folder / "program.so"
        relay_executable(executable).described_module().export_library(str(made), fcompile=link)
        with replacing(path) as file:
            file.write(made.read_bytes())


def load_shared_library(path: Path) -> Executable:
    """Return the executable of a shared library, whose code runs when it is loaded.

    Raises
    ------
    ExecutableError
        If it is none that TVM loads, or has no program for its virtual machine.
    """
    import tvm

    from vmkit.executable.executable import Executable

    try:
        return Executable.from_module(tvm.runtime.load_module(str(path)))
    except ExecutableError:
        raise
    except Exception as error:
        raise ExecutableError(f"{path}: not a library of a compiled program: {error}") from error
