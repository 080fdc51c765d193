"""``vmkit.load_model``: folders of ONNX files, as Hugging Face's optimum writes them, one model a file.

A network that writes text is exported as several files (``encoder_model.onnx``, ``decoder_model.onnx``,
``decoder_with_past_model.onnx``; or one ``decoder_model_merged.onnx``), and a pipeline as folders of these
(``unet/model.onnx``). What a step leaves for the next, keys and values of its layers, are inputs and outputs whose
names say so: ``past_key_values.0.key`` and ``present.0.key``.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import onnx

from ..._dataclasses import dataclass
from ...errors import ModelError, suggest
from .external import leads_out
from .load import read_model

__all__ = ["ModelFile", "ModelFolder", "load_model", "sole_file"]

T = TypeVar("T")

_CONFIG = "config.json"
# Configurations have some kilobytes; what is larger by far is none.
_MOST_CONFIG = 1 << 24
# What stands for "past" in the name of an input, and for that in the name of the output that it comes from.
_NEXT = (
    ("past_key_values", "present"),
    ("past_key_values", "present_key_values"),
    ("past_key_values", "present_key_value"),
    ("past", "present"),
)


@dataclass(frozen=True)
class ModelFile:
    """One ONNX file, which :func:`vmkit.compile` and :func:`vmkit.check` take as a path.

    Attributes
    ----------
    path : Path
        The file.
    cache : mapping of str to str
        What is fed back from step to step: for an input the output that has its next value, such as
        ``past_key_values.0.key`` and ``present.0.key``. In a folder the output may be that of another file alone, as
        the keys of the encoder's states are that only the first step of a decoder computes: such a value stays.
    """

    path: Path
    cache: Mapping[str, str] = field(default_factory=dict)

    def __fspath__(self) -> str:
        return str(self.path)


class ModelFolder(Mapping[str, ModelFile]):
    """The models of a folder by the names of their files, with or without ``.onnx``.

    A folder of one file stands for that file wherever a model is expected.

    Attributes
    ----------
    path : Path
        The folder.
    config : mapping
        What ``config.json`` says; empty where there is none.

    Examples
    --------
    >>> import tempfile
    >>> from onnx import TensorProto, helper
    >>> x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy")
    >>> graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), f"{folder}/model.onnx")
    ...     models = load_model(folder)
    >>> models
    ModelFolder(model.onnx)
    >>> models["model"].cache
    mappingproxy({})
    """

    def __init__(self, path: Path, files: Mapping[str, ModelFile], config: Mapping[str, Any]) -> None:
        self.path = path
        self.config = MappingProxyType(dict(config))
        self._files = dict(files)

    def __getitem__(self, name: str) -> ModelFile:
        found = self._files.get(name) or self._files.get(f"{name}.onnx")
        if found is None:
            raise KeyError(f"{self.path} has no model {name!r}{suggest(str(name), self)}; it has {', '.join(self)}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"ModelFolder({', '.join(self)})"

    def only(self) -> ModelFile:
        """Return the one model of the folder; ModelError where there are several."""
        if len(self) > 1:
            raise ModelError(
                f"{self.path} has {len(self)} models: {', '.join(self)}; "
                "vmkit.load_model(folder) gives them by name, to compile each"
            )
        return next(iter(self._files.values()))


def load_model(path: str | os.PathLike[str]) -> ModelFolder:
    """Return the models of a folder of ONNX files, by name, each to be compiled as it is.

    Nothing of the weights is read. Files are taken from the folder and from the folders in it, without hidden ones.

    Parameters
    ----------
    path : str or PathLike
        A folder; or an ONNX file, which is a folder of one here.

    Returns
    -------
    ModelFolder

    Raises
    ------
    ModelError
        With all that is wrong: no ONNX file, links that lead out of the folder, files that are no models, external
        data that is missing, too short, or outside of the model's folder.
    """
    folder = Path(path)
    if folder.is_file():
        if folder.suffix != ".onnx":
            raise ModelError(f"{folder}: expected a folder of ONNX files, or one of them; vmkit.compile reads others")
        paths, top = [folder], folder.parent
    elif folder.is_dir():
        top = folder
        paths = _files_of(folder)
    else:
        raise ModelError(f"{folder}: there is no such file or folder")
    config = _config(top / _CONFIG) if folder is top else {}
    graphs = _graphs(paths, top)
    outputs = [graph.output for graph in graphs.values()]
    files = {
        file.relative_to(top).as_posix(): ModelFile(file, MappingProxyType(_cache(graph, outputs)))
        for file, graph in graphs.items()
    }
    return ModelFolder(folder, files, config)


def sole_file(source: T) -> T | Path:
    """Return the one ONNX file of a folder, and what is no folder as it is; ModelError where there are several."""
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        return load_model(source).only().path
    return source


def _files_of(folder: Path) -> list[Path]:
    """Return the ONNX files of a folder and of the folders in it; ModelError for links out of it, or for none."""
    inner = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    found = [p for place in (folder, *inner) for p in sorted(place.iterdir()) if p.suffix == ".onnx"]
    problems = [f"{p.relative_to(folder)}: {why}" for p in found for why in [_refusal(p, folder)] if why]
    if problems:
        raise ModelError(f"{folder} has models that are not read:\n  " + "\n  ".join(problems[:20]))
    if not found:
        beside = ", ".join(sorted(p.name for p in folder.iterdir())[:10]) or "nothing"
        raise ModelError(f"{folder} has no ONNX file, only {beside}")
    return found


def _refusal(path: Path, folder: Path) -> str | None:
    """Return why a file of a folder is not read: it may have come with the folder, from anyone."""
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a RuntimeError for links in a circle
        return "it is a link to nothing"
    if leads_out(resolved, folder):
        return "it is a link that leads out of the folder; copy what it leads to, as `cp -rL` does"
    if not stat.S_ISREG(resolved.stat().st_mode):
        return "it is no regular file"
    return None


def _config(path: Path) -> Mapping[str, Any]:
    """Return what the configuration in a folder says, which need not be there."""
    if not path.exists() and not path.is_symlink():
        return {}
    why = _refusal(path, path.parent)
    size = 0 if why else path.stat().st_size
    if why or size > _MOST_CONFIG:
        raise ModelError(f"{path}: {why or f'it has {size} bytes, more than any configuration'}")
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: expected JSON, but {error}") from error
    if not isinstance(read, dict):
        raise ModelError(f"{path}: expected an object of JSON, got {type(read).__name__}")
    return read


def _graphs(paths: list[Path], top: Path) -> dict[Path, onnx.GraphProto]:
    """Return the graphs of files, without weights; ModelError with all that are no models."""
    graphs, problems = {}, []
    for path in paths:
        try:
            graphs[path] = read_model(path).model.graph
        except (ModelError, OSError) as error:
            problems.append(f"{path.relative_to(top)}: {error}")
    if problems:
        raise ModelError(f"{top} has models that cannot be read:\n  " + "\n  ".join(problems))
    return graphs


def _cache(graph: onnx.GraphProto, of_folder: list[Any]) -> dict[str, str]:
    """Return the outputs that inputs of a graph come from: its own, else those of other graphs of the folder."""
    own = {o.name: o for o in graph.output}
    others = {o.name: o for outputs in of_folder for o in outputs}
    pairs = {}
    for given in graph.input:
        names = [given.name.replace(past, present, 1) for past, present in _NEXT if past in given.name]
        for outputs in (own, others):
            fitting = [n for n in names if n in outputs and _fits(given, outputs[n])]
            if fitting:
                pairs[given.name] = fitting[0]
                break
    return pairs


def _fits(given: onnx.ValueInfoProto, output: onnx.ValueInfoProto) -> bool:
    """Say whether an output may be an input of the next step, as far as the file says what they are."""
    a, b = given.type.tensor_type, output.type.tensor_type
    same_type = a.elem_type == b.elem_type or not b.elem_type
    has_ranks = a.HasField("shape") and b.HasField("shape")
    return same_type and (not has_ranks or len(a.shape.dim) == len(b.shape.dim))
