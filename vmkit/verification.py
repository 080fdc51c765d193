"""Does a compiled model give what a reference gives? Each output compared, and each value inside where asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx

from ._dataclasses import dataclass
from .compiler.vm_compiler import compile
from .errors import InputError, OptionError, UnavailableError
from .frontend.onnx.load import read_model
from .runtime.machine import VirtualMachine
from .target.plan import Targets
from .values.conversion import to_numpy
from .values.filling import filled_inputs

__all__ = ["Difference", "Reference", "Verification", "verify"]

Reference: TypeAlias = Literal["onnxruntime", "reference"]
REFERENCES: tuple[Reference, ...] = ("onnxruntime", "reference")


@dataclass(frozen=True)
class Difference:
    """How far one value is from the reference's.

    Attributes
    ----------
    name : str
        Of the output, or of the value inside the model.
    node : str
        What gives it.
    absolute, relative : float
        The largest differences; infinite where shapes or data types differ, or one side alone is not a number.
    excess : float
        The largest difference in units of what is allowed: above 1 it is wrong.
    """

    name: str
    node: str
    absolute: float
    relative: float
    excess: float

    @property
    def is_within(self) -> bool:
        """Whether it is no more than what is allowed."""
        return self.excess <= 1


@dataclass(frozen=True)
class Verification:
    """What :func:`verify` found: the differences, in the order in which the model gives the values."""

    against: str
    rtol: float
    atol: float
    differences: tuple[Difference, ...]

    @property
    def is_equal(self) -> bool:
        """Whether every value is within what is allowed."""
        return all(each.is_within for each in self.differences)

    @property
    def first(self) -> Difference | None:
        """The first value that is not, or None."""
        return next((each for each in self.differences if not each.is_within), None)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "against": self.against,
            "rtol": self.rtol,
            "atol": self.atol,
            "is_equal": self.is_equal,
            "differences": [{**vars(each), "is_within": each.is_within} for each in self.differences],
        }

    def __str__(self) -> str:
        width = max([len("value"), *(len(each.name) for each in self.differences)])
        lines = [f"{'value':{width}}  {'absolute':>9}  {'relative':>9}"]
        for each in self.differences:
            mark = "" if each.is_within else f"  differs, by {each.node}"
            lines.append(f"{each.name:{width}}  {each.absolute:9.2e}  {each.relative:9.2e}{mark}")
        said = "equal" if self.is_equal else "not equal"
        lines.append(f"{said} to {self.against} within atol {self.atol:g} + rtol {self.rtol:g}")
        return "\n".join(lines)


def verify(
    model: onnx.ModelProto | str | os.PathLike[str],
    shapes: Mapping[str, Sequence[Any]] | None = None,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    against: Reference = "onnxruntime",
    target: Targets | None = "native",
    rtol: float = 1e-3,
    atol: float = 1e-4,
    inside: bool = False,
    seed: int = 0,
) -> Verification:
    """Compile an ONNX model, run it and a reference on the same inputs, and compare.

    Parameters
    ----------
    model : ModelProto or path
    shapes : mapping, optional
        Shapes to run at by the names of inputs, where the model leaves sizes open.
    inputs : mapping of str to array, optional
        Inputs by name. The others are made up, see :func:`vmkit.values.filling.filled_inputs`.
    against : str
        ``"onnxruntime"``, or ``"reference"`` for ONNX's own evaluator.
    target : optional
        What to compile for; it has to run here.
    rtol, atol : float
        A value ``x`` may be ``atol + rtol * abs(x)`` away.
    inside : bool
        Whether to compare what every node gives, too. The model is compiled with all of that as outputs, so that what
        is fused differs from what is fused without.
    seed : int
        Of the inputs made up.

    Raises
    ------
    UnavailableError
        If the reference is not installed.
    InputError, ModelError
        If inputs or the model cannot be used.
    """
    if against not in REFERENCES:
        raise OptionError(f"against: {against!r} is none of {', '.join(REFERENCES)}")
    loaded = read_model(model, whole=True)
    proto = _with_values_as_outputs(loaded.model) if inside else loaded.model
    executable = compile(proto, target)
    feed = filled_inputs(executable.signature, shapes, given=inputs, seed=seed)
    unknown = sorted(set(inputs or {}) - set(executable.signature.names))
    if unknown:
        raise InputError(f"there is no input {unknown[0]!r}; the inputs are {', '.join(executable.signature.names)}")
    machine = VirtualMachine(executable, executable.device_kind or "cpu")
    result = to_numpy(machine.run(*(feed[name] for name in executable.signature.names)))
    fields: Sequence[object] = [result]
    if executable.signature.result_is_tuple and isinstance(result, list | tuple):
        fields = result
    names = [output.name for output in proto.graph.output]
    expected = _expected(proto, feed, against)
    producers = {name: f"{node.op_type} {node.name!r}" for node in proto.graph.node for name in node.output}
    found = [
        _difference(name, producers.get(name, "an input"), got, want, rtol, atol)
        for name, got, want in zip(names, fields, expected, strict=True)
    ]
    order = {name: place for place, name in enumerate(producers)}
    return Verification(against, rtol, atol, tuple(sorted(found, key=lambda each: order.get(each.name, -1))))


def _with_values_as_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that gives back every tensor that a node of its main graph gives."""
    extended = onnx.ModelProto()
    extended.CopyFrom(model)
    known = {output.name for output in extended.graph.output}
    inferred = onnx.shape_inference.infer_shapes(model)
    values = {value.name: value for value in inferred.graph.value_info}
    for node in model.graph.node:
        for name in node.output:
            # What is no tensor, or of no type that is known, cannot be declared as an output.
            if name in values and name not in known and values[name].type.HasField("tensor_type"):
                extended.graph.output.append(values[name])
                known.add(name)
    return extended


def _expected(model: onnx.ModelProto, feed: Mapping[str, np.ndarray], against: Reference) -> list[Any]:
    if against == "reference":
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(model).run(None, dict(feed)))
    try:
        import onnxruntime
    except ImportError as error:
        raise UnavailableError(
            f"onnxruntime is not installed: {error}; install it, or compare with against='reference'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    taken = {each.name for each in session.get_inputs()}
    return list(session.run(None, {name: array for name, array in feed.items() if name in taken}))


def _difference(name: str, node: str, got: object, want: object, rtol: float, atol: float) -> Difference:
    if isinstance(want, list | tuple) and isinstance(got, list | tuple) and len(got) == len(want):
        parts = [_difference(name, node, g, w, rtol, atol) for g, w in zip(got, want, strict=True)]
        return max(parts, key=lambda each: each.excess, default=Difference(name, node, 0.0, 0.0, 0.0))
    infinite = Difference(name, node, np.inf, np.inf, np.inf)
    if isinstance(want, list | tuple | dict) or isinstance(got, list | tuple | dict):
        return infinite if got != want else Difference(name, node, 0.0, 0.0, 0.0)
    ours, theirs = np.asarray(got), np.asarray(want)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return infinite
    if ours.dtype.kind not in "biufc" and ours.dtype.hasobject:
        return infinite if (ours != theirs).any() else Difference(name, node, 0.0, 0.0, 0.0)
    a, b = ours.astype("float64"), theirs.astype("float64")
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        # Equal infinities, and two that are not numbers, differ by nothing.
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        apart = np.where(np.isnan(apart), np.inf, apart)
        relative = np.where(apart > 0, apart / np.abs(b), 0.0)
        excess = apart / (atol + rtol * np.where(np.isfinite(b), np.abs(b), 0.0))
    largest = [float(each.max(initial=0.0)) for each in (apart, relative, np.where(apart > 0, excess, 0.0))]
    return Difference(name, node, *largest)
