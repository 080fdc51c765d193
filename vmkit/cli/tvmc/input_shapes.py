"""The shapes of ``--input-shapes`` against those that a model's file says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import suggest
from .exceptions import TVMCException

if TYPE_CHECKING:
    import tvm

__all__ = ["Shapes", "of_inputs", "of_shapes"]

Shapes: TypeAlias = Mapping[str, Sequence[Any]]


def of_inputs(graph: Any, shapes: dict[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:  # noqa: ANN401 - of onnx
    """Return the shapes of inputs without those of weights that the model lists among them, which have to agree."""
    weights = {weight.name: tuple(weight.dims) for weight in graph.initializer}
    for name in [name for name in shapes if name in weights]:
        given = tuple(shapes.pop(name))
        if given != weights[name]:
            raise TVMCException(
                f"--input-shapes: {name!r} is a weight of shape {list(weights[name])}, not {list(given)}"
            )
    return shapes


def of_shapes(mod: tvm.IRModule, shapes: Shapes | None) -> tvm.IRModule:
    """Return a program whose file says the shapes; TVMCException for given ones that are others."""
    declared = _declared(mod)
    for name, shape in (shapes or {}).items():
        if name not in declared:
            raise TVMCException(f"--input-shapes: the model has no input {name!r}{suggest(name, declared)}")
        given = [size if isinstance(size, int) else None for size in shape]
        if declared[name] != given:
            shown = ["?" if size is None else size for size in declared[name]]
            raise TVMCException(f"--input-shapes: {name!r} has the shape {shown} in the file, which says it")
    return mod


def _declared(mod: tvm.IRModule) -> dict[str, list[int | None]]:
    """Return the shapes of what ``main`` takes, in Relay or in Relax, by name; None for sizes that are not known."""
    import tvm

    from vmkit.relay.ir import Function

    main = mod["main"]
    if isinstance(main, Function):
        shapes = {p.name_hint: getattr(p.type_annotation, "shape", None) for p in main.params}
    else:
        shapes = {p.name: getattr(getattr(p.ty, "shape", None), "values", None) for p in main.params}

    def known(size: object) -> int | None:
        return int(size) if isinstance(size, int | tvm.tirx.IntImm) else None

    return {str(name): [known(size) for size in shape or ()] for name, shape in shapes.items()}
