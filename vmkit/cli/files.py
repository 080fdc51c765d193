"""Files that sub-commands read and write: executables, arrays by name, texts of programs."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ExecutableError, InputError, OptionError, suggest
from .arguments import shapes_of
from .progress import compiling

if TYPE_CHECKING:
    import numpy as np
    import tvm

    from vmkit.executable.executable import Executable
    from vmkit.values.signature import Signature

__all__ = ["arrays_of", "executable_of", "inputs_of", "model_of", "named_outputs", "write_arrays", "write_dumps"]


def model_of(path: Path, trusts_script: bool) -> Path | tvm.IRModule:
    """Return a model as :func:`vmkit.compile` takes it: its file, or what a Relax script gives that is trusted.

    Raises
    ------
    OptionError
        If a script is trusted and the file is none.
    """
    if not trusts_script:
        return path
    from vmkit.frontend.relax_script import SUFFIXES, from_relax_script

    if path.suffix not in SUFFIXES:
        raise OptionError(f"--trust-script is for Relax scripts ({', '.join(SUFFIXES)}), and {path} is none")
    return from_relax_script(path)


def executable_of(arguments: argparse.Namespace, cache: bool | str = False) -> Executable:
    """Return the executable in a file (``.vmx``, ``.so``) or package (``.tar``), or a model compiled for a target.

    With `cache` a model is looked for there first; see :func:`vmkit.compile`.
    """
    path = arguments.file
    model = model_of(path, arguments.trust_script)
    from vmkit.compiler.vm_compiler import compile
    from vmkit.executable.loading import load

    if path.suffix == ".tar":
        from .tvmc.package_file import unpacked

        with unpacked(path) as package:
            if package.executable is None:
                raise ExecutableError(f"{path}: an archive of C in the Model Library Format, which is not run here")
            return load(package.executable)
    if path.suffix == ".so":
        from .shared_library import load_shared_library

        return load_shared_library(path)
    if path.suffix == ".vmx":
        return load(path)
    with compiling(path.name):
        return compile(model, arguments.target, cache=cache)


def write_dumps(texts: Mapping[str, str], output: Path) -> list[Path]:
    """Write texts of a program beside what was compiled, ``OUTPUT.FORMAT`` each, and return the files."""
    files = []
    for each, text in texts.items():
        path = output.with_name(f"{output.name}.{each.replace(':', '.')}")
        path.write_text(text, encoding="utf-8")
        files.append(path)
    return files


def arrays_of(path: Path, known: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
    """Return the arrays in an ``.npz`` file by name, all of which have to be `known`, if that is given.

    Raises
    ------
    InputError
        If the file is none, holds objects, or has an array of another name.
    """
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
        raise InputError(f"{path}: not an .npz file of arrays: {error}") from error
    for name in arrays:
        if known is not None and name not in known:
            expected = ", ".join(known) or "none"
            raise InputError(f"{path}: there is no input {name!r}{suggest(name, known)}; the inputs are {expected}")
    return arrays


def inputs_of(arguments: argparse.Namespace, signature: Signature) -> dict[str, Any]:
    """Return the inputs that arguments ask for by name, in order: those of a file, and others that are made up."""
    from vmkit.values.filling import filled_inputs

    given = _given(arguments, signature)
    made = filled_inputs(signature, shapes_of(arguments), arguments.fill_mode, given=given, seed=arguments.seed)
    return {name: made[name] for name in signature.names}


def _given(arguments: argparse.Namespace, signature: Signature) -> dict[str, np.ndarray]:
    """Return the inputs in a file: arrays by name, or a picture."""
    from vmkit.values.image_inputs import image_input, is_picture
    from vmkit.values.kinds import TensorSpec

    path = arguments.inputs
    is_image = path is not None and is_picture(path)
    if is_image != (arguments.preprocess is not None):
        raise InputError(
            "--preprocess says what a picture becomes as an input: it goes with a picture of --inputs, and the picture "
            "with it"
        )
    if not is_image:
        return {} if path is None else arrays_of(path, dict.fromkeys(signature.names))
    shapes = {name: [s for s in shape if isinstance(s, int)] for name, shape in (shapes_of(arguments) or {}).items()}
    specs = [spec for spec in signature.inputs if isinstance(spec, TensorSpec)]
    return dict([image_input(path, specs, arguments.preprocess, shapes)])


def named_outputs(result: object, executable: Executable) -> dict[str, np.ndarray]:
    """Return the tensors of a result by the names of the outputs; what is inside another has its place behind that."""
    import numpy as np

    fields = list(result) if isinstance(result, list | tuple) and executable.signature.result_is_tuple else [result]
    names = [spec.name for spec in executable.outputs]
    flat: dict[str, np.ndarray] = {}

    def add(name: str, value: object) -> None:
        if isinstance(value, list | tuple):
            for place, part in enumerate(value):
                add(f"{name}.{place}", part)
        elif isinstance(value, dict):
            add(f"{name}.keys", np.asarray(list(value)))
            add(f"{name}.values", np.asarray(list(value.values())))
        elif value is not None:
            flat[name] = np.asarray(value.numpy() if hasattr(value, "numpy") else value)

    for place, value in enumerate(fields):
        add((names[place] if place < len(names) else "") or f"output_{place}", value)
    return flat


def write_arrays(path: Path, outputs: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name to an ``.npz`` file; InputError for another file, and for strings."""
    import numpy as np

    if path.suffix != ".npz":
        raise InputError(f"{path}: outputs are written to an .npz file")
    for name, array in outputs.items():
        if array.dtype.hasobject:
            raise InputError(f"{path}: output {name!r} holds strings, which an .npz file would keep as code to be run")
    # Not by np.savez, whose own arguments cannot be names of arrays.
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in outputs.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
