"""Archives in the Model Library Format: the one place that calls :mod:`vmkit.mlf`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .exceptions import TVMCException

if TYPE_CHECKING:
    import tvm

    from vmkit.compat.build_choices import Executor, Runtime
    from vmkit.mlf.model import Model

__all__ = ["export", "require_library_format", "require_no_linker"]

logger = logging.getLogger("TVMC")


def export(
    mod: tvm.IRModule,
    path: Path,
    params: Mapping[str, Any],
    target: object,
    name: str,
    executor: Executor | None = None,
) -> Model:
    """Write a model as C in the Model Library Format, and return it.

    Parameters
    ----------
    mod, params
        The model, and arrays to bind to parameters of ``main``.
    path : Path
        The archive.
    target
        ``"c"`` or one of kind ``"llvm"``, with its options.
    name : str
        The name of the module, which names of C contain.
    executor : Executor, optional
        ``"graph"`` for a graph in place of an entry in C. Of the entry are the options ``interface-api`` and
        ``workspace-byte-alignment``.

    Raises
    ------
    VMKitError
        As :func:`vmkit.mlf.export` does.
    """
    from vmkit.compat.build_choices import c_interface
    from vmkit.mlf.export import model_of, write

    alignment = 1 if executor is None else int(executor.options.get("workspace-byte-alignment", 1))
    chosen = "aot" if executor is None else executor.name
    model = model_of(
        *(mod, params, target, name),
        executor=chosen,
        interface=c_interface(executor),
        workspace_byte_alignment=alignment,
        numbers_outputs=True,
    )
    write(path, [model])
    return model


def require_no_linker(cross: object) -> None:
    """Raise TVMCException where a linker is named for an archive, which holds sources."""
    if cross:
        raise TVMCException("Specifying the MLF output and a cross compiler is not supported.")


def require_library_format(output_format: str, executor: Executor | None, runtime: Runtime | None) -> None:
    """Raise TVMCException where an interface of C is asked for and no archive of C.

    Of what has no effect a warning says so.
    """
    if output_format == "mlf":
        return
    if runtime is not None and runtime.name == "crt":
        raise TVMCException("--runtime crt: a package needs TVM's runtime in C++; C without any is written by -f mlf")
    if runtime is not None and runtime.options.get("system-lib"):
        raise TVMCException(
            "--runtime-cpp-system-lib 1: a package is loaded, and linked into nothing; it is for -f mlf"
        )
    options = executor.options if executor is not None and executor.name == "aot" else {}
    if options.get("interface-api", "packed") != "packed" or options.get("unpacked-api"):
        raise TVMCException("--executor-aot-interface-api c, --executor-aot-unpacked-api 1: C is written by -f mlf")
    idle = [f"--executor-aot-{name}" for name in options if name.endswith("byte-alignment")]
    if idle:
        logger.warning("%s: no effect on a package, whose memory the virtual machine aligns", ", ".join(idle))
