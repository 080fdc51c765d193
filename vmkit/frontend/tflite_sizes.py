"""Sizes of a TFLite file's inputs that stand for others, and those that the caller gives in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, suggest

__all__ = ["file_shape", "resized", "signature_of", "stand_ins"]


def file_shape(tensor: Any) -> list[int]:  # noqa: ANN401 - of tflite
    """Return the shape of a tensor in the file."""
    return [int(size) for size in tensor.ShapeAsNumpy()] if tensor.ShapeLength() else []


def signature_of(tensor: Any) -> list[int]:  # noqa: ANN401 - of tflite
    """Return the sizes that a tensor has whatever the inputs are; -1 for one that depends on them."""
    return [int(size) for size in tensor.ShapeSignatureAsNumpy()] if tensor.ShapeSignatureLength() else []


def _inputs(graph: Any) -> dict[str, tuple[int, Any]]:  # noqa: ANN401 - of tflite
    """Return a graph's inputs by name, each with its place among the tensors."""
    places = [int(graph.Inputs(k)) for k in range(graph.InputsLength())]
    return {graph.Tensors(at).Name().decode(): (at, graph.Tensors(at)) for at in places}


def resized(graph: Any, name: str, shapes: Mapping[str, Sequence[Any]]) -> dict[int, list[int]]:  # noqa: ANN401
    """Return the shapes that the caller gives, by the places of the inputs among the tensors.

    Parameters
    ----------
    graph : tflite.SubGraph
        The graph.
    name : str
        What messages call the file.
    shapes : mapping
        Shapes of inputs by name: numbers, equal to the file's but where its signature has -1.

    Raises
    ------
    InputError
        Says all that does not fit.
    """
    inputs = _inputs(graph)
    wrong, found = [], {}
    for key, shape in shapes.items():
        if key not in inputs:
            wrong.append(f"it has no input {key!r}{suggest(key, inputs)}; it has {', '.join(map(repr, inputs))}")
            continue
        at, tensor = inputs[key]
        have, free = file_shape(tensor), signature_of(tensor)
        given = list(shape)
        if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in given):
            wrong.append(f"the sizes of {key!r} are {given}; of a TFLite file they are numbers from 1 on")
        elif len(given) != len(have):
            wrong.append(f"{key!r} has {len(have)} dimensions, and {given} has {len(given)}")
        else:
            fixed = [s for s, h, f in zip(given, have, free or have, strict=True) if f != -1 and s != h]
            if fixed:
                wrong.append(f"{key!r} is {_text(have, free)} in the file; {given} differs in what is fixed")
            found[at] = given
    if wrong:
        raise InputError(f"{name}: the shapes do not fit: {'; '.join(wrong)}")
    return found


def stand_ins(graph: Any, given: Mapping[int, Sequence[int]]) -> str:  # noqa: ANN401 - of tflite
    """Return what to say, behind an error, of inputs whose sizes in the file stand for others; nothing without them."""
    places = _inputs(graph).items()
    left = [(key, tensor) for key, (at, tensor) in places if at not in given and -1 in signature_of(tensor)]
    if not left:
        return ""
    texts = [f"{key!r} is {_text(file_shape(tensor), signature_of(tensor))}" for key, tensor in left]
    return f"; the file leaves sizes to the caller: {', '.join(texts)}; give them with shapes={{{left[0][0]!r}: [...]}}"


def _text(shape: Sequence[int], signature: Sequence[int]) -> str:
    """Return a shape with what is free in it marked: ``[1, ? (1)]``."""
    signature = signature if len(signature) == len(shape) else shape
    return f"[{', '.join(f'? ({h})' if f == -1 else str(h) for h, f in zip(shape, signature, strict=True))}]"
