"""What ``metadata.json`` of an archive says, held against what an archive of the format has to say, and its headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from .._dataclasses import dataclass
from ..values.element_types import element_bytes
from ..values.signature import TensorSpec
from .c_main import FIELD

__all__ = ["SIDES", "fields_of", "header_of", "operator_text", "problems_of", "tensors_of"]

SIDES = ("inputs", "outputs")
_VERSIONS = (6, 7)
_DTYPE = re.compile(r"bool|bfloat16|(u?int|float)(8|16|32|64)")


@dataclass(frozen=True)
class Field:
    """A field of a struct of pointers, as a header has it: the data type and shape of what it points at."""

    dtype: str
    shape: tuple[int, ...]


def header_of(files: Mapping[str, bytes], model: str) -> str:
    """Return the header of a model's entry; an empty text where there is none."""
    return files.get(f"codegen/host/include/tvmgen_{model}.h", b"").decode(errors="replace")


def fields_of(files: Mapping[str, bytes], model: str, side: str) -> list[Field]:
    """Return what a header says of a model's ``inputs`` or ``outputs``; nothing where it says no shapes."""
    struct = re.search(rf"struct tvmgen_{model}_{side} \{{(.*?)\}};", header_of(files, model), re.S)
    found = FIELD.finditer(struct[1]) if struct else ()
    return [Field(one[2], tuple(map(int, re.findall(r"\d+", one[3])))) for one in found]


def tensors_of(facts: Mapping[str, Mapping[str, Any]], fields: Sequence[Field]) -> Iterator[TensorSpec]:
    """Yield the inputs or outputs of a model by what its description says of them; flat without their fields.

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
        Where they are not described as they should be, or otherwise than in the header.
    """
    if fields and len(fields) != len(facts):
        raise ValueError(f"{len(facts)} tensors, and the header has {len(fields)}")
    for place, (name, said) in enumerate(facts.items()):
        dtype, size = said["dtype"], said["size"]
        if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
            raise ValueError(f"{name} is of {dtype!r:.40}, no type of elements")
        if type(size) is not int or size < 0 or size % element_bytes(dtype):
            raise ValueError(f"{name} has {size!r:.40} bytes of {dtype}")
        shape = fields[place].shape if fields else (size // element_bytes(dtype),)
        if fields and (dtype != fields[place].dtype or size != prod(shape) * element_bytes(dtype)):
            raise ValueError(f"{name} has {size} bytes of {dtype}, and the header {fields[place].dtype}{list(shape)}")
        yield TensorSpec(name, dtype, shape)


def operator_text(name: str, params: Sequence[Mapping[str, Any]]) -> str:
    """Return an operator with what it takes, as its description says."""
    tensors = (f"{p.get('input_binding', '_')}: {p['dtype']}[{', '.join(map(str, p['shape']))}]" for p in params)
    return f"{name}({', '.join(tensors)})"


def problems_of(metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> list[str]:
    """Return what of a description is not of the format, or does not agree with the files of the archive."""
    version = metadata.get("version")
    if version not in _VERSIONS:
        return [f"version {version!r:.40} of the format; expected one of {_VERSIONS}"]
    if "modules" not in metadata:
        return _style_and_keys("the description", metadata, "operator") or _of_operators(metadata["memory"])
    modules = metadata["modules"]
    if not isinstance(modules, dict) or not modules:
        return ["modules: expected an object with one model at least"]
    return [problem for name, module in modules.items() for problem in _of_model(name, module, files)]


def _of_operators(memory: object) -> list[str]:
    if not isinstance(memory, dict):
        return [f"memory is {memory!r:.40}, expected an object with the parameters of each operator"]
    found = []
    for name, params in memory.items():
        try:
            operator_text(name, params)
        except (KeyError, TypeError, AttributeError) as error:
            found.append(f"operator {name!r}: its parameters are no tensors: {type(error).__name__} {error}")
    return found


def _of_model(name: str, module: object, files: Mapping[str, bytes]) -> list[str]:
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not isinstance(module, dict):
        return [f"modules: {name!r:.80} is no name of a model"]
    found = _style_and_keys(f"model {name!r}", module, "full-model")
    try:
        _check_memory(module["memory"]["functions"]["main"][0], name, files)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        found.append(f"model {name!r}: memory.functions.main: {type(error).__name__} {error}")
    if not any(place.startswith(f"codegen/host/{kind}/{name}_lib") for place in files for kind in ("src", "lib")):
        found.append(f"model {name!r}: there is no code of it in codegen/host")
    return found


def _check_memory(main: Mapping[str, Any], model: str, files: Mapping[str, bytes]) -> None:
    """Raise ValueError, or what reading raises, where the memory of a model is not described as it should be."""
    for side in SIDES:
        list(tensors_of(main[side], fields_of(files, model, side)))
    for key in ("workspace_size_bytes", "constants_size_bytes", "io_size_bytes"):
        if type(main[key]) is not int or main[key] < 0:
            raise ValueError(f"{key} is {main[key]!r:.40}")


def _style_and_keys(what: str, facts: Mapping[str, Any], style: str) -> list[str]:
    if facts.get("style") != style:
        return [f"{what}: style {facts.get('style')!r}; expected {style}"]
    return [f"{what}: there is no {key}" for key in ("model_name", "memory", "target") if key not in facts]
