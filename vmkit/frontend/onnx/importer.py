"""Import a model: walk its graph, call a converter for every node, and build the Relay module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import tirx
from tvm.ir import GlobalVar

from ..._dataclasses import dataclass
from ...errors import ModelError, UnsupportedOperatorError, VMKitError
from ...relay.ir import (
    Constant,
    Dim,
    Expr,
    Function,
    FuncType,
    TensorType,
    Tuple,
    Type,
    Var,
    dims,
    post_order,
    type_text,
)
from ...relay.op import build
from ...relay.signature import OUTPUT_NAMES
from ...values.element_types import to_stored
from . import families
from .attributes import Attributes
from .capture import parameter
from .check import check_model, node_name, opset_versions, sorted_nodes
from .context import Context
from .element_checks import require_elements
from .fold import fold_constants, fold_symbolic
from .functions import Body, Functions, imported_versions, instance, type_proto
from .in_file import InFile
from .initializers import initializer_arrays, stored_parameter
from .inputs import InputTypes
from .known import constant, is_symbolic, known_value, sizes, value_of
from .load import Loaded
from .named_sizes import applied
from .outcome import Condition, Failure, Fork, Outcome
from .partly_known import PartlyKnown
from .ranks import settled
from .registry import default_domain
from .run_time_axes import pinned
from .scope import Frame, Scope
from .spans import filled_where_asked, place, span_of
from .typing import typed
from .walk import walk

__all__ = ["Conversion", "ModelImporter"]

_LARGE = 1 << 20  # bytes of weights that are worth their memory
# More than any memory holds: a size in the file is wrong.
_MOST_ELEMENTS = 1 << 40


@dataclass(frozen=True)
class Conversion:
    """A node that was imported: what it was given and what it became."""

    node: onnx.NodeProto
    inputs: Sequence[Expr | None]
    results: Sequence[Expr | None]


class ModelImporter:
    """One import: the state that graphs and converters share.

    Attributes
    ----------
    freezes : callable
        Whether an initializer becomes a constant; otherwise it is a parameter, and its memory is left where it is.
    param_values : dict
        The values of those parameters.
    conversions : list of Conversion
        Every node that was imported, in the order of their execution.
    """

    def __init__(
        self,
        loaded: Loaded,
        shape: Mapping[str, Any] | None,
        dtype: str | Mapping[str, str],
        opset: int | None,
        freezes: Callable[[np.ndarray], bool],
        settings: Mapping[str, Any],
    ) -> None:
        model = loaded.model
        self.folder = loaded.folder
        self.weights = loaded.weights
        self.lists = loaded.lists
        self.model = model
        self.library = Functions(model)
        self.versions = opset_versions(model, opset)
        self.settings = settings
        self.freezes = freezes
        self.param_values: dict[Var, np.ndarray] = {}
        self.functions: dict[GlobalVar, Function] = {}
        self.widened: dict[Any, int] = {}
        self.inputs = InputTypes(shape, dtype)
        self.conversions: list[Conversion] = []
        self.function_count = 0
        # Run-time sequences that nothing but the operator which is given them holds.
        self.own_sequences: set[Expr] = set()
        # Variables that count from 0 or more, and what they are less than.
        self.index_ends: dict[Expr, Dim] = {}
        self.partly_known = PartlyKnown()
        self._transposed: dict[Constant, Expr] = {}

    def run(self) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
        """Return the module, and the values of those of its parameters that are initializers."""
        with filled_where_asked():
            return self._run()

    def _run(self) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
        graph = self.model.graph
        check_model(graph.node, self.versions, self.library)
        initializers = {i.name for i in graph.initializer} | {i.values.name for i in graph.sparse_initializer}
        free = [i for i in graph.input if i.name not in initializers]
        types = self.inputs.types(free, sorted(initializers))
        self.widened = self.inputs.widened
        scope = Scope(frame=Frame(self.versions))
        params = [parameter(name, ty, span_of(name)) for name, ty in types.items()]
        scope.define(list(types), params)
        nodes = sorted_nodes(graph, ())
        self.add_initializers(graph, scope, weights=self.weights)
        outcome = self.walk(nodes, scope, [o.name for o in graph.output])
        names = [o.name for o in graph.output]
        return self.module(params, [o for o in settled(outcome) if o is not None], names)

    def module(
        self, params: list[Var], results: list[Expr], names: list[str]
    ) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
        body = typed(results[0] if len(results) == 1 else Tuple(results))
        for symbol, (least, most) in self.inputs.ranges.items():
            body = _within(symbol, least, most, body)
        used = {v for v in post_order(body) if isinstance(v, Var)} if self.param_values else set()
        extra = [v for v in self.param_values if v in used]
        main = Function([*params, *extra], body, body.checked_type_, attrs={OUTPUT_NAMES: names})
        main.checked_type_ = FuncType([p.checked_type_ for p in main.params], body.checked_type_)
        values = {v.name_hint: self.param_values[v] for v in extra}
        return tvm.IRModule({**self.functions, GlobalVar("main"): main}), values

    def transposed(self, matrix: Constant) -> Expr:
        """Return a constant matrix transposed: one expression for all nodes that read the matrix.

        A large one is left to be transposed with others in parts: the model has them all until it is imported.
        """
        if matrix not in self._transposed:
            values = value_of(matrix)
            is_large = values.nbytes >= _LARGE
            self._transposed[matrix] = (
                typed(build("transpose", matrix, axes=[1, 0])) if is_large else constant(values.T)
            )
        return self._transposed[matrix]

    def new_function(self, name: str) -> GlobalVar:
        """Return the variable of a new global function, whose definition the caller puts into `functions`."""
        self.function_count += 1
        return GlobalVar(f"{name}_{self.function_count}")

    # -- graphs

    def add_initializers(
        self,
        graph: onnx.GraphProto,
        scope: Scope,
        frozen: bool = False,
        weights: Mapping[str, InFile] = MappingProxyType({}),
    ) -> None:
        for name, array in initializer_arrays(graph, weights, self.folder):
            # Strings are always part of the program: what they stand for is not in a tensor.
            if frozen or array.dtype == object or self.freezes(array):
                scope.values[name] = constant(array)
            else:
                variable, scope.values[name] = stored_parameter(name, array)
                self.param_values[variable] = to_stored(array)
            scope.values[name] = place(name, [scope.values[name]])[0]

    def subgraph(self, graph: onnx.GraphProto, outer: Scope, inputs: Mapping[str, Expr]) -> Outcome:
        """Return the outcome of a graph in an attribute of a node."""
        scope = Scope(outer, dict(inputs))
        nodes = sorted_nodes(graph, outer.names() | set(inputs))
        self.add_initializers(graph, scope, frozen=True)
        return self.walk(nodes, scope, [o.name for o in graph.output])

    def walk(self, nodes: Sequence[onnx.NodeProto], scope: Scope, outputs: Sequence[str]) -> Outcome:
        """Import nodes and return the values of the outputs."""
        return walk(nodes, scope, outputs, self.node)

    # -- nodes

    def node(self, node: onnx.NodeProto, scope: Scope) -> list[Expr | None] | Fork:
        """Return the outputs of a node."""
        domain = default_domain(node.domain)
        version = scope.frame.versions.get(domain, 0)
        inputs: list[Expr | None] = []
        try:
            inputs = [scope.lookup(i) if i else None for i in node.input]
            function = self.library.local(node)
            if function is not None:
                return self.called(function, node, inputs, scope)
            if domain == "":
                values = self.symbolic_values(node, version, inputs)
                if values is not None:
                    return [self.in_ranges(v) for v in values]
            part = None
            require_elements(domain, node.op_type, version, inputs)
            if domain == "":
                folded, part = self.partly_known.fold(node, version, inputs)
                if folded is not None:
                    return [self.in_ranges(folded)]
            results = self.converted(node, domain, version, inputs, scope)
            if domain == "" and not isinstance(results, Fork):
                results = fold_constants(node, version, inputs, results)
                if part is not None and results[0] is not None:
                    self.partly_known.put(results[0], part)
        except Exception as error:
            raise self.explained(error, node, version, inputs) from error
        if not isinstance(results, Fork):
            results = place(node_name(node), results, inputs)
            self.conversions.append(Conversion(node, inputs, results))
        return results

    def converted(
        self, node: onnx.NodeProto, domain: str, version: int, inputs: list[Expr | None], scope: Scope
    ) -> list[Expr | None] | Fork:
        made = families.find(domain, node.op_type, version)
        if made is None:
            return self.called(self.body(node, version, inputs), node, inputs, scope)
        attributes = Attributes(node, self.lists)
        ignored = set(attributes) - made.attributes
        if ignored:
            raise ModelError(f"the attribute {', '.join(sorted(ignored))} is not supported")
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        missing = made.missing(inputs)
        if missing:
            raise ModelError(f"the node leaves out {', '.join(missing)}, which the operator cannot be without")
        context = Context(self, node, version, scope)
        results = applied(made, context, inputs, made.keywords(attributes))
        if isinstance(results, Fork):
            return results
        results = [results] if isinstance(results, Expr) else list(results)
        results = [None if r is None else self.pinned_in_ranges(context, typed(r)) for r in results]
        for result in results:
            if result is not None:
                _require_possible(typed(result).checked_type_)
        return results

    def in_ranges(self, value: Expr) -> Expr:
        """Return a value over sizes, as simple as the ranges of sizes make it that the caller gives."""
        array, ranges = known_value(value) if is_symbolic(value) else None, self.inputs.ranges
        if array is None or not ranges:
            return value
        return sizes(np.frompyfunc(lambda v: dims.in_ranges(v, ranges), 1, 1)(array), value.checked_type_.dtype)

    def pinned_in_ranges(self, context: Context, tensor: Expr) -> Expr:
        """Return a tensor whose shape is as simple as those ranges make it, whoever looks at it."""
        ranges, ty = self.inputs.ranges, tensor.checked_type_
        if not ranges or not isinstance(ty, TensorType) or is_symbolic(tensor):
            return self.in_ranges(tensor)
        return pinned(context, tensor, [dims.in_ranges(d, ranges) if dims.choices(d) else d for d in ty.shape])

    def body(self, node: onnx.NodeProto, version: int, inputs: Sequence[Expr | None]) -> Body:
        """Return the function that ONNX defines an operator by."""
        body = self.library.of_types(node, version, lambda: [type_proto(i) for i in inputs])
        if body is None:
            types = ", ".join("none" if i is None else str(typed(i).checked_type_) for i in inputs)
            raise UnsupportedOperatorError(f"it has no converter, and ONNX no function body for ({types})")
        if self.library.depends_on_types(node, version):
            # Which nodes there are was not known when the model was checked.
            check_model(body.function.node, imported_versions(body.function), self.library)
        return body

    def called(
        self, body: Body, node: onnx.NodeProto, inputs: Sequence[Expr | None], scope: Scope
    ) -> list[Expr | None] | Fork:
        """Return the outputs of a call: the nodes of the function are imported in a scope of their own."""
        frame = scope.frame
        if body.key in frame.calls:
            raise ModelError(f"the function {body.name} calls itself")
        graph = instance(body, node)
        values = dict(zip(body.function.input, inputs, strict=False))
        versions = {**frame.versions, **imported_versions(body.function)}
        inner = Scope(values=values, frame=Frame(versions, (*frame.calls, body.key)))
        outcome = self.walk(sorted_nodes(graph, ()), inner, [o.name for o in graph.output])
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome

    def explained(
        self, error: Exception, node: onnx.NodeProto, version: int, inputs: Sequence[Expr | None]
    ) -> VMKitError:
        """Return the error of a converter with the node that it is about."""
        types = ", ".join("none" if i is None else type_text(typed(i).checked_type_) for i in inputs)
        kind = UnsupportedOperatorError if isinstance(error, UnsupportedOperatorError) else ModelError
        reason = str(error) if isinstance(error, VMKitError) else f"{type(error).__name__}: {error}"
        return kind(f"node {node_name(node)!r} ({node.op_type}, opset {version}) of ({types}): {reason}")

    def known(self, expr: Expr) -> np.ndarray | None:
        """Return the value of an expression if it is known; a parameter that is asked for has its initial value."""
        if isinstance(expr, Var) and expr in self.param_values:
            return self.param_values[expr]
        return known_value(expr)

    def symbolic_values(self, node: onnx.NodeProto, version: int, inputs: Sequence[Expr | None]) -> list[Expr] | None:
        if not any(is_symbolic(i) for i in inputs if i is not None):
            return None
        values = [None if i is None else self.known(i) for i in inputs]
        if any(v is None for v, i in zip(values, inputs, strict=True) if i is not None):
            return None
        return fold_symbolic(node, version, values, [None if i is None else i.checked_type.dtype for i in inputs])


def _within(symbol: tirx.Var, least: int, most: int, value: Expr) -> Expr:
    """Return a value that is computed only where a dimension is in its range; the run fails otherwise."""
    holds = dims.select(tirx.all(symbol >= least, symbol <= most), 1, 0)
    reason = f"the dimension {symbol.name} is not in the range {least} to {most} for which the model was compiled"
    return typed(Condition(sizes(holds, "bool"), holds, symbol.name).guard(value, reason))


def _require_possible(ty: Type) -> None:
    """Raise ModelError for a tensor that no memory could hold."""
    if isinstance(ty, TensorType):
        count = dims.product([d for d in ty.shape if isinstance(d, int)])
        if isinstance(count, int) and count > _MOST_ELEMENTS:
            raise ModelError(f"it gives a {ty}, which no memory can hold")
