"""``vmkit.check``: what a model takes and gives, what is dynamic in it, what is not supported; without compiling it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..._dataclasses import dataclass
from ...errors import ModelError, UnsupportedOperatorError
from ...relay.analysis.infer_type import inferred
from ...relay.ir import TensorType, dims, type_text
from ...relay.signature import relax_signatures, relay_signatures
from ...values.signature import Signature, TensorSpec
from .check import all_nodes, node_name
from .convert import conversion_settings
from .folder import sole_file
from .importer import Conversion, ModelImporter
from .load import Loaded, read_model
from .registry import default_domain

__all__ = ["DataDependent", "Report", "check"]

_SHOWN = 20
# Bytes from which on a weight is left in the file. What steers an import is small, as scales are, or integers.
_LARGE = 1 << 16
# Suffixes of what is compiled and not checked.
_OTHER_FORMS = frozenset({".pt2", ".mlir", ".relay"})
_STEERING = frozenset({"int32", "int64", "uint32", "uint64", "bool"})


@dataclass(frozen=True)
class DataDependent:
    """A node whose output has sizes that are known only when it runs.

    Attributes
    ----------
    node, op_type : str
        The node.
    outputs : tuple of str
        The types of its outputs; ``?`` is what is not known.
    steered_by : tuple of str
        The values that the sizes may depend on: its inputs that are not known at import.
    """

    node: str
    op_type: str
    outputs: tuple[str, ...]
    steered_by: tuple[str, ...]

    def __str__(self) -> str:
        inputs = ", ".join(map(repr, self.steered_by))
        return f"{self.node!r} ({self.op_type}) gives {', '.join(self.outputs)}, by the values of {inputs}"


@dataclass(frozen=True)
class Report:
    """What :func:`check` found.

    Attributes
    ----------
    name : str
        The model's file name.
    opsets : dict of str to int
        The opset version of each domain.
    operators : dict of str to int
        How many nodes of each operator there are, those in subgraphs and functions included.
    signature : Signature or None
        What the compiled model would take and give; None if it would not compile.
    bound_by : dict of str to str
        For each named dimension, the first input and axis that has it: ``{"n": "x[0]"}``.
    data_dependent : tuple of DataDependent
        Where sizes come from data; what follows from these sizes is not listed.
    unsupported : tuple of str
        The operators that have no converter, each with its nodes.
    problem : str or None
        Why the model cannot be imported otherwise.
    """

    name: str
    opsets: dict[str, int]
    operators: dict[str, int]
    signature: Signature | None
    bound_by: dict[str, str]
    data_dependent: tuple[DataDependent, ...]
    unsupported: tuple[str, ...]
    problem: str | None

    @property
    def is_supported(self) -> bool:
        """Whether the model can be imported."""
        return self.signature is not None

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        made = {k: v for k, v in asdict(self).items() if k not in ("signature", "data_dependent")}
        signature = None if self.signature is None else self.signature.to_json()
        found = [asdict(d) for d in self.data_dependent]
        return {**made, "is_supported": self.is_supported, "signature": signature, "data_dependent": found}

    def __str__(self) -> str:
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(self.opsets.items()))
        lines = [f"{self.name}: {sum(self.operators.values())} nodes, opset {opsets}"]
        if self.signature is not None:
            lines.append(f"supported: {self.signature}")
            lines += [f"  {name} is bound by {place}" for name, place in self.bound_by.items()]
            if not self.bound_by:
                lines.append("  every size is fixed")
            if self.data_dependent:
                lines.append(f"sizes that come from data: {len(self.data_dependent)}")
                lines += [f"  {d}" for d in self.data_dependent[:_SHOWN]]
            else:
                lines.append("no size comes from data")
        if self.unsupported:
            lines.append(f"operators that are not supported: {len(self.unsupported)}")
            lines += [f"  {u}" for u in self.unsupported]
        elif self.problem is not None:
            lines.append(f"cannot be imported: {self.problem}")
        return "\n".join(lines)


def check(model: Any, shapes: Mapping[str, Sequence[Any]] | None = None) -> Report:
    """Return what would become of an ONNX model or a TFLite file, without compiling it.

    Parameters
    ----------
    model : path, onnx.ModelProto or bytes
        The model; the path is that of a file, or of a folder with one ONNX file.
    shapes : mapping, optional
        Shapes of inputs by name, as for :func:`vmkit.compile`.

    Returns
    -------
    Report
        For a model that is not supported too; ``print`` it, or ask ``is_supported``.

    Raises
    ------
    ModelError
        For a file that is neither, of forms too that :func:`vmkit.compile` takes beside these.
    InputError
        When `shapes` do not fit the model.

    Examples
    --------
    >>> from onnx import TensorProto, helper
    >>> info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ["n", 4]), ("y", None))]
    >>> graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"], name="where")], "g", info[:1], info[1:])
    >>> graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    >>> made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    >>> print(check(made))
    the model: 1 nodes, opset ai.onnx 17
    supported: main(x: float32[n, 4]) -> (y: int64[2, ?])
      n is bound by x[0]
    sizes that come from data: 1
      'where' (NonZero) gives Tensor[(2, ?), int64], by the values of 'x'
    """
    if isinstance(model, str | os.PathLike) and (path := Path(model)).is_file():
        if path.suffix == ".tflite":
            return _of_tflite(path, shapes)
        if path.suffix in _OTHER_FORMS:
            raise ModelError(
                f"{path.name}: vmkit.check reads ONNX and TFLite files; vmkit.compile takes this one, and says what of "
                "it is not supported"
            )
    loaded = read_model(sole_file(model))
    operators = Counter(_operator(n) for g in (loaded.model.graph, *loaded.model.functions) for n in all_nodes(g.node))
    opsets = {default_domain(o.domain): int(o.version) for o in loaded.model.opset_import}
    importer, found = _imported(loaded, shapes, _may_steer)
    if isinstance(found, ModelError) and importer.param_values:
        # What a converter refuses of a parameter it may take of a constant, which is what compilation gives it.
        importer, found = _imported(loaded, shapes, lambda _: True)
    problem = found if isinstance(found, ModelError) else None
    signature = found if isinstance(found, Signature) else None
    return Report(
        loaded.name,
        opsets,
        dict(sorted(operators.items())),
        signature,
        {} if signature is None else _bound_by(signature),
        tuple(_data_dependent(importer.conversions)),
        problem.operators if isinstance(problem, UnsupportedOperatorError) else (),
        None if problem is None else str(problem),
    )


def _of_tflite(path: Path, shapes: Mapping[str, Sequence[Any]] | None) -> Report:
    """Return the report of a TFLite file."""
    from ..tflite import VERSION, from_tflite, operators_of

    operators = operators_of(path)
    signature, problem = None, None
    try:
        signature = relax_signatures(from_tflite(path, shapes))["main"]
    except ModelError as error:
        problem = str(error)
    return Report(path.name, {"TFLite": VERSION}, operators, signature, {}, (), (), problem)


def _may_steer(weight: np.ndarray) -> bool:
    """Say whether sizes and axes of a model may be computed from a weight."""
    return weight.nbytes < _LARGE or str(weight.dtype) in _STEERING


def _imported(
    loaded: Loaded, shapes: Mapping[str, Sequence[Any]] | None, freezes: Callable[[np.ndarray], bool]
) -> tuple[ModelImporter, Signature | ModelError]:
    """Return an import of a model, and the signature that it gives or the reason why it gives none."""
    importer = ModelImporter(loaded, shapes, "float32", None, freezes, conversion_settings())
    try:
        module, weights = importer.run()
        signature = relay_signatures(inferred(module))["main"]
    except ModelError as error:
        return importer, error
    return importer, replace(signature, inputs=signature.inputs[: len(signature.inputs) - len(weights)])


def _operator(node: Any) -> str:
    domain = default_domain(node.domain)
    return f"{domain}.{node.op_type}" if domain else node.op_type


def _bound_by(signature: Signature) -> dict[str, str]:
    """Return the first input and axis of each named dimension."""
    places: dict[str, str] = {}
    for spec in signature.inputs:
        for axis, dim in enumerate(spec.shape if isinstance(spec, TensorSpec) else ()):
            if isinstance(dim, str) and dim != "?":
                places.setdefault(dim, f"{spec.name}[{axis}]")
    return places


def _data_dependent(conversions: Sequence[Conversion]) -> list[DataDependent]:
    """Return the nodes that give an unknown size although none of their inputs has one; a node once."""
    found: dict[str, DataDependent] = {}
    for made in conversions:
        given = [e for e in made.inputs if e is not None]
        results = [e.checked_type_ for e in made.results if e is not None]
        if any(map(_is_unknown, results)) and not any(_is_unknown(e.checked_type) for e in given):
            name = node_name(made.node)
            found.setdefault(
                name,
                DataDependent(
                    name, made.node.op_type, tuple(map(type_text, results)), tuple(i for i in made.node.input if i)
                ),
            )
    return list(found.values())


def _is_unknown(ty: Any) -> bool:
    return isinstance(ty, TensorType) and any(dims.is_any(d) for d in ty.shape)
