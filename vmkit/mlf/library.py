"""Archives read back: what they say of themselves, and their models built for this machine and run.

Building runs the C compiler on the archive's code, and running runs that code: archives are to be trusted as programs
are. :func:`load` alone runs nothing.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from .._dataclasses import dataclass
from ..errors import ExecutableError, UnavailableError
from ..values.signature import Signature, TensorSpec
from .archive import extract, read_archive
from .description import SIDES, fields_of, header_of, operator_text, problems_of, tensors_of

__all__ = ["BuiltModel", "ModelLibrary", "load"]

_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared")
_LONGEST_BUILD = 600  # seconds


@dataclass(frozen=True)
class ModelLibrary:
    """An archive of the Model Library Format.

    Attributes
    ----------
    path : Path
        Where it was read.
    metadata : dict
        What ``metadata.json`` says.
    files : mapping of str to bytes
        All files by their places in the archive.

    Examples
    --------
    >>> import tempfile, vmkit
    >>> from vmkit import relay
    >>> x = relay.var("x", shape=(2,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = folder + "/double.tar"
    ...     description = vmkit.mlf.export(relay.Function([x], x + x), path, model_name="double")
    ...     library = vmkit.mlf.load(path)
    >>> library.style, library.models, library.signature().names
    ('full-model', ('double',), ('x',))
    """

    path: Path
    metadata: Mapping[str, Any]
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def version(self) -> int:
        """The version of the format."""
        return int(self.metadata["version"])

    @property
    def style(self) -> str:
        """``full-model`` or ``operator``."""
        modules = self.metadata.get("modules")
        if isinstance(modules, dict) and modules:
            return str(next(iter(modules.values()))["style"])
        return str(self.metadata["style"])

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models; of an archive of operators its one name."""
        return tuple(self.metadata.get("modules", {})) or (str(self.metadata["model_name"]),)

    def __str__(self) -> str:
        """Return what the archive says of its models or operators, a line or two each."""
        lines = [f"Model Library Format {self.version}, {self.style}: {', '.join(self.models)}"]
        if self.style == "full-model":
            for name in self.models:
                module = self.metadata["modules"][name]
                main = module["memory"]["functions"]["main"][0]
                sizes = [f"{kind} {main[f'{kind}_size_bytes']:,} bytes" for kind in ("workspace", "constants", "io")]
                made = f"target {_words(module['target'])}, executors {_words(module.get('executors', ()))}"
                lines += [f"  {self.signature(name)}", f"    {made}", f"    {', '.join(sizes)}"]
        else:
            lines.append(f"  target {_words(self.metadata['target'])}")
            lines += [f"  {operator_text(name, params)}" for name, params in self.metadata["memory"].items()]
        return "\n".join([*lines, *(f"  {place}: {len(data):,} bytes" for place, data in sorted(self.files.items()))])

    def extract(self, folder: str | os.PathLike[str]) -> None:
        """Write the files below a folder, which is new or empty; ExecutableError where that cannot be."""
        extract(self.files, Path(folder))

    def signature(self, model: str | None = None) -> Signature:
        """Return what a model takes and gives; its tensors are flat where the archive does not say their shapes."""
        name = self._model(model)
        main = self.metadata["modules"][name]["memory"]["functions"]["main"][0]
        inputs, outputs = (tuple(tensors_of(main[side], fields_of(self.files, name, side))) for side in SIDES)
        return Signature(f"tvmgen_{name}_run", inputs, outputs, result_is_tuple=len(outputs) != 1)

    def build(self, model: str | None = None, compiler: str | None = None) -> BuiltModel:
        """Return a model built for this machine by a C compiler.

        Parameters
        ----------
        model : str, optional
            Which; by default the only one.
        compiler : str, optional
            The command, which may have options; by default ``cc``, ``gcc`` or ``clang``, or what the environment's
            ``CC`` names.

        Raises
        ------
        ExecutableError
            When the archive has no C with an entry, or does not compile.
        UnavailableError
            When there is no C compiler.
        """
        name = self._model(model)
        if not header_of(self.files, name):
            raise ExecutableError(f"{self.path}: model {name!r} has no entry in C that could be run")
        command = _compiler(compiler)
        folder = Path(tempfile.mkdtemp(prefix="vmkit-mlf-"))
        try:
            self.extract(folder / "archive")
            return BuiltModel(self.signature(name), _compiled(folder, name, command, self.path), self._entry(name))
        finally:
            # A library that is loaded stays so without its file.
            shutil.rmtree(folder, ignore_errors=True)

    def _model(self, model: str | None) -> str:
        if self.style != "full-model":
            raise ExecutableError(f"{self.path}: it holds operators, and no model that could be run")
        if model is None and len(self.models) > 1:
            raise ExecutableError(f"{self.path}: say which model: {', '.join(self.models)}")
        name = self.models[0] if model is None else model
        if name not in self.models:
            raise ExecutableError(f"{self.path}: there is no model {name!r}; there is {', '.join(self.models)}")
        return name

    def _entry(self, name: str) -> str:
        """Return the function that takes structs of pointers, as the header declares it."""
        header = header_of(self.files, name)
        found = re.search(rf"int32_t (tvmgen_{name}_run\w*)\(\s*struct ", header)
        if found is None:
            raise ExecutableError(f"{self.path}: the header of model {name!r} declares no entry")
        return found[1]


def _words(value: object) -> str:
    """Return what a description lists; earlier versions of the format have targets by numbers of devices."""
    listed = list(value.values()) if isinstance(value, Mapping) else value
    return ", ".join(map(str, listed)) if isinstance(listed, list | tuple) else str(listed)


class BuiltModel:
    """A model of an archive, built for this machine.

    Attributes
    ----------
    signature : Signature
        What it takes and gives.

    Examples
    --------
    >>> import tempfile, numpy as np, vmkit
    >>> from vmkit import relay
    >>> x = relay.var("x", shape=(2,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     description = vmkit.mlf.export(relay.Function([x], x + x), folder + "/double.tar")
    ...     model = vmkit.mlf.load(folder + "/double.tar").build()
    >>> model.run(np.array([1, 2], "float32"))
    [array([2., 4.], dtype=float32)]
    """

    def __init__(self, signature: Signature, library: ctypes.CDLL, entry: str) -> None:
        self.signature = signature
        self._entry = getattr(library, entry)
        self._entry.restype = ctypes.c_int32

    def run(self, *args: np.ndarray, **kwargs: np.ndarray) -> list[np.ndarray]:
        """Return the outputs for inputs by position or by name.

        Raises
        ------
        InputError
            When they do not match the signature.
        ExecutableError
            When the model says that it failed.
        """
        outputs, call = self._call(args, kwargs)
        code = call()
        if code != 0:
            raise ExecutableError(f"{self.signature.name} returned {code}")
        return outputs

    def seconds(self, args: Sequence[np.ndarray], repeat: int, number: int) -> list[float]:
        """Return the mean times of calls: `repeat` times of `number` calls each."""
        _, call = self._call(args, {})
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                call()
            times.append((time.perf_counter() - start) / number)
        return times

    def _call(self, args: Sequence[np.ndarray], kwargs: Mapping[str, np.ndarray]) -> tuple[list[np.ndarray], Any]:
        shaped = [np.asarray(value, order="C") for value in self.signature.bind(args, kwargs)]
        self.signature.check(shaped)
        specs = [spec for spec in self.signature.outputs if isinstance(spec, TensorSpec)]
        outputs = [np.zeros([int(d) for d in spec.shape], spec.dtype) for spec in specs]
        given, made = _pointers(shaped), _pointers(outputs)
        return outputs, lambda: self._entry(given, made)


def load(path: str | os.PathLike[str]) -> ModelLibrary:
    """Return an archive of the Model Library Format, read whole and checked; nothing of it is run or written.

    Raises
    ------
    ExecutableError
        If there is no such file, or it is no archive of the format, altered, of another version, or would be unpacked
        to places outside of its folder.
    """
    place = Path(path)
    metadata, files = read_archive(place)
    problems = problems_of(metadata, files)
    if problems:
        raise ExecutableError("\n  ".join([f"{place}: metadata.json is not of the format", *problems]))
    return ModelLibrary(place, metadata, files)


def _compiler(command: str | None) -> list[str]:
    """Return the words of a compiler's command, which may have options."""
    named = command or os.environ.get("CC")
    commands = [shlex.split(named)] if named else [[each] for each in _COMPILERS]
    found = next((words for words in commands if words and shutil.which(words[0])), None)
    if found is None:
        raise UnavailableError(f"no C compiler: {named or ', '.join(_COMPILERS)} is not on the path")
    return found


def _compiled(folder: Path, name: str, command: Sequence[str], path: Path) -> ctypes.CDLL:
    """Return the library of a model whose archive is unpacked."""
    archive, library = folder / "archive", folder / "model.so"
    host = archive / "codegen" / "host"
    sources = sorted(host.glob(f"src/{name}_lib*.c"))
    objects = sorted(host.glob(f"lib/{name}_lib*.o"))
    words = [*command, *_FLAGS, "-o", library, *sources, *objects, f"-I{host / 'include'}", "-lm"]
    try:
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, timeout=_LONGEST_BUILD, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExecutableError(f"{path}: {shlex.join(command)} could not build it: {error}") from error
    if done.returncode != 0:
        raise ExecutableError(f"{path}: {shlex.join(command)} could not build it:\n{done.stderr[-2000:]}")
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise ExecutableError(f"{path}: what was built of it cannot be loaded: {error}") from error


def _pointers(arrays: Sequence[np.ndarray]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*[array.ctypes.data for array in arrays])
