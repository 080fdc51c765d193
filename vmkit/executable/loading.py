"""Executables out of their files. Loading one maps its code, and so runs it: what is wrong is found out before that."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm

from .. import bytecode
from .._deferred import deferred
from .._tvm.importing import whole
from .._tvm.running import load_library
from ..bytecode.stored_weights import with_block
from ..errors import ExecutableError, VMKitError
from .archive import CODE, WEIGHTS, read_archive
from .description import MALFORMED, Description
from .executable import Executable, Parts, described
from .needs import require_needs
from .runtimes import require_runtimes
from .scratch import scratch_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from . import portable
else:
    # It needs TVM's compiler, which running does not.
    portable = deferred("vmkit.executable.portable")

__all__ = ["from_archive", "load"]


def load(
    path: str | Path,
    *,
    trusted_keys: Sequence[Ed25519PublicKey | bytes] | None = None,
    map_weights: bool | None = None,
) -> Executable:
    """Return the executable in a file that :meth:`Executable.export` wrote.

    Loading runs code: the kernels in the file are mapped into this process, and what a library does when it is mapped
    is done then. Load only what comes from people that you trust; with `trusted_keys` that is checked first.

    Parameters
    ----------
    path : path
        Of the file.
    trusted_keys : list of Ed25519PublicKey or bytes, optional
        Public keys, as objects of the package ``cryptography``, as their 32 bytes, or as the text of a PEM file in
        bytes. A file that none of them signed is refused before anything in it is read.
    map_weights : bool, optional
        Whether the weights are those in the file, which all processes that map it have in memory once, or a copy. By
        default they are mapped if nobody may write to the file (``chmod a-w model.vmx``, or a file system to read
        from). With True nobody may write into the file as long as it is in use: where it gets shorter the process
        ends. To move another file to its place, as :meth:`Executable.export` does, or to remove it is safe. A copy is
        safe from all, and from disks and networks that fail later.

    Raises
    ------
    ExecutableError
        If the file is missing, truncated, altered or of a newer format, or if its code is not for this machine or
        this version of TVM, or if it is not signed as asked. All of that is found out before any of the code runs,
        but for what only the code itself shows.
    """
    path = Path(path)
    manifest, members = read_archive(path, trusted_keys, map_weights)
    return from_archive(path, manifest, members)


def from_archive(path: Path, manifest: Mapping[str, Any], members: dict[str, memoryview]) -> Executable:
    """Return the executable of what :func:`read_archive` read, as :func:`load` does."""
    try:
        return _load(path, manifest, members)
    except VMKitError:
        raise
    except MALFORMED as error:
        raise ExecutableError(f"{path}: the manifest is incomplete: {error!r}") from error


def _load(path: Path, manifest: Mapping[str, Any], members: dict[str, memoryview]) -> Executable:
    theirs, ours = str(manifest["tvm_version"]), str(tvm.__version__)
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        raise ExecutableError(f"{path}: built with TVM {theirs}, this is TVM {ours}: compile the model again")
    description = Description.from_json(manifest)
    _refuse_foreign_code(path, description)
    # Small constants are parts of the code; by itself that does not keep the rest of the file.
    code = memoryview(bytes(members.pop(CODE)))
    program = with_block(bytecode.decode(code), members.pop(WEIGHTS, memoryview(b"")))
    program.validate()
    if description.built_for.kind != "llvm" or any(name.endswith(".ll") for name in members):
        whole()  # other devices have libraries of their own, and code that is not compiled yet needs the compiler
    # Libraries may hold modules of code generators' own kinds, which these know how to load.
    require_runtimes(description.info.runtimes or {})
    try:
        modules = [_load_library(name, data) for name, data in members.items()]
    except Exception as error:
        raise ExecutableError(
            f"{path}: the kernels for {manifest['target']} cannot be loaded here: {str(error).strip()}"
        ) from error
    require_needs(program, modules)
    # What is kept of the libraries for another export does not keep the rest of the file.
    libraries = {name: bytes(data) for name, data in members.items()}
    return described(Parts(program, tuple(modules)), description, libraries)


def _refuse_foreign_code(path: Path, description: Description) -> None:
    """Raise if the code is for another machine: it would not fail when it ran, it would end the process."""
    problems = description.built_for.problems_here()
    if problems:
        raise ExecutableError(f"{path}: {'; '.join(problems)}; compile the model for this machine")


def _load_library(name: str, data: memoryview) -> tvm.runtime.Module:
    # Loading takes a file. On Linux the library stays mapped once the file is gone.
    if name.endswith(".ll"):
        data = memoryview(portable.compiled_for_here(str(data, "utf-8")).encode())
    with scratch_folder() as folder:
        path = folder / name
        path.write_bytes(data)
        return load_library(path)


def _unpickled(data: bytes) -> Executable:
    """Return the executable in the bytes of a file: unpickling it runs code, as loading does."""
    with scratch_folder() as folder:
        path = folder / "pickled.vmx"
        path.write_bytes(data)
        return load(path)


def _reduced(executable: Executable) -> tuple[Callable[[bytes], Executable], tuple[bytes]]:
    """Return what pickle keeps of an executable: the bytes of its file, which needs what exporting needs."""
    with scratch_folder() as folder:
        path = folder / "pickled.vmx"
        executable.export(path)
        return _unpickled, (path.read_bytes(),)


copyreg.pickle(Executable, _reduced)
