"""Make a global function of each region that is annotated for a code generator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

import tvm

from ..._dataclasses import dataclass
from ...errors import ModelError
from ..analysis.annotated_regions import AnnotatedRegion
from ..analysis.infer_type import infer_module, typed
from ..ir import (
    Call,
    Constant,
    Function,
    GlobalVar,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    children,
    free_vars,
    post_order,
    rewrite,
    with_functions,
)
from ..ir.visit import rebuilt, same_nodes
from ..op.annotation import compiler_end
from .annotate_target import DEFAULT_COMPILER, annotation_of
from .merge_compiler_regions import annotated_regions
from .registry import ModuleTransform, is_changeable, on_functions, relay_pass

__all__ = ["PartitionGraph"]


@relay_pass(opt_level=0)
def PartitionGraph(mod_name: str = "default", bind_constants: bool = True) -> ModuleTransform:
    """Return the pass that makes global functions of the regions between annotations, and calls of them.

    A function takes each value that enters its region once, and returns what leaves it: one value, or a tuple. It has
    the attributes ``Compiler`` (the code generator), ``global_symbol``, ``Primitive`` and ``Inline``, and is called
    ``tvmgen_<mod_name>_<code generator>_<function>_<number>``. What is annotated as ``default`` stays where it is.

    Where there is a global function ``relay.ext.<code generator>.optimize``, it takes a module whose ``main`` is the
    function and returns it optimised.

    Parameters
    ----------
    mod_name : str
        A part of the names of the functions.
    bind_constants : bool
        Whether constants, and tuples of them, that enter a region become part of its function.

    Raises
    ------
    ModelError
        When a region uses a variable that does not enter it by an annotation, or uses what depends on it.
    """
    prefix = f"tvmgen_{mod_name}" if mod_name else "tvmgen"

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        mod = on_functions(typed(mod), lambda function: rewrite(function, {}, _without_defaults))
        functions: dict[GlobalVar, Any] = dict(mod.functions.items())
        names = {gvar.name_hint for gvar in functions}

        def cut(gvar: GlobalVar, function: Function) -> None:
            pattern = f"{prefix}_{{compiler}}_{gvar.name_hint}_{{number}}"
            partition = _Partition(function, pattern, bind_constants, names)
            functions[gvar] = partition.run()
            functions.update(partition.made)

        annotated = [(v, f) for v, f in mod.functions.items() if is_changeable(f) and _is_annotated(f)]
        for gvar, function in annotated:
            cut(gvar, function)
        return infer_module(with_functions(mod, functions)) if annotated else mod

    return on_module


def _is_annotated(function: Function) -> bool:
    return any(annotation_of(node) is not None for node in post_order(function))


def _without_defaults(node: RelayExpr, original: RelayExpr) -> RelayExpr:
    """Leave out annotations for the usual compiler, and let each field of a tuple leave its region by itself."""
    target = annotation_of(node)
    if target is None:
        return node
    value: Any = node.args[0]
    if target == DEFAULT_COMPILER:
        return value
    if _is(node, "compiler_end") and isinstance(value, Tuple):
        return Tuple([compiler_end(each, target) for each in value.fields], value.span)
    return node


def _is(node: RelayExpr, name: str) -> bool:
    return annotation_of(node) is not None and node.op.name == f"annotation.{name}"


@dataclass(eq=False)
class _Boundary:
    """What crosses the border of one region.

    Attributes
    ----------
    params : dict of Expr to Var
        The parameters of its function, by what the caller hands over.
    results : dict of Expr to Expr
        What the caller gets, by the expression inside.
    """

    params: dict[Any, Var] = field(default_factory=dict)
    results: dict[Any, Any] = field(default_factory=dict)


class _Partition:
    """The regions of one function become functions."""

    def __init__(self, function: Function, name: str, bind_constants: bool, taken: set[str]) -> None:
        self.function = function
        self.name = name
        self.bind_constants = bind_constants
        self.taken = taken
        self.regions = annotated_regions(function)
        self.boundaries = {region: _Boundary() for region in self.regions}
        self.done: dict[Any, Any] = {}
        self.made: dict[GlobalVar, Function] = {}

    def run(self) -> Function:
        """Return the function with calls in the place of regions; what they call is in :attr:`made`."""
        for node in self.in_order():
            self.done[node] = self.changed(node)
        result: Function = self.done[self.function]
        return result

    def in_order(self) -> Iterator[RelayExpr]:
        """Yield every expression once, after what it needs: for what leaves a region, all that enters that."""
        seen: set[Any] = set()
        stack: list[tuple[Any, bool]] = [(self.function, False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                yield node
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack += [(part, False) for part in reversed(self.needed(node))]

    def needed(self, node: RelayExpr) -> list[RelayExpr]:
        region = self.region_left_by(node)
        # The value itself comes first: so parameters stand in the order in which the program computes them.
        return children(node) if region is None else [node.op, *(end.args[0] for end in region.rets)]

    def region_left_by(self, node: RelayExpr) -> AnnotatedRegion | None:
        region = self.regions.get_region(node)
        return region if region is not None and _is(node, "compiler_end") else None

    def changed(self, node: RelayExpr) -> RelayExpr:
        region = self.regions.get_region(node)
        if any(part not in self.done for part in self.needed(node)):
            raise ModelError(
                f"a region for {region.target if region else annotation_of(node)!r} uses a value that depends on it; "
                "annotate it as several regions"
            )
        if region is not None and _is(node, "compiler_begin"):
            return self.entered(node, region)
        if region is not None and _is(node, "compiler_end"):
            return self.left(node, region)
        parts = children(node)
        new = [self.done[part] for part in parts]
        return node if same_nodes(parts, new) else rebuilt(node, new)

    def entered(self, begin: RelayExpr, region: AnnotatedRegion) -> RelayExpr:
        (inner,) = children(begin)[1:]
        if inner in region.nodes:  # it left the region to enter it again
            return self.done[children(inner)[1]]
        value = self.done[inner]
        params = self.boundaries[region].params
        if value not in params:
            ty = inner.checked_type
            params[value] = Var(f"{region.target}_{region.id}_i{len(params)}", ty)
        return params[value]

    def left(self, end: RelayExpr, region: AnnotatedRegion) -> RelayExpr:
        results = self.boundaries[region].results
        if not results:
            inside = list(dict.fromkeys(each.args[0] for each in region.rets))
            call = self.call_of(region, inside)
            single = len(inside) == 1
            results.update({each: call if single else TupleGetItem(call, i) for i, each in enumerate(inside)})
        return results[children(end)[1]]

    def call_of(self, region: AnnotatedRegion, inside: list[RelayExpr]) -> Call:
        """Make the function of a region, and return a call of it on what enters the region."""
        values = [self.done[each] for each in inside]
        types = [each.checked_type for each in inside]
        body = values[0] if len(values) == 1 else Tuple(values)
        params = self.boundaries[region].params
        bound = {p: value for value, p in params.items() if self.bind_constants and _is_constant(value)}
        name = re.sub(r"\W", "_", self.name.format(compiler=region.target, number=region.id), flags=re.ASCII)
        result = types[0] if len(types) == 1 else TupleType(types)
        function = Function([p for p in params.values() if p not in bound], rewrite(body, bound), result)
        free = free_vars(function)
        if free:
            used = ", ".join(f"%{v.name_hint}" for v in free)
            raise ModelError(f"a region for {region.target!r} uses {used} without compiler_begin")
        gvar = GlobalVar(self.fresh(name))
        self.made[gvar] = _for_compiler(_optimized(function, region.target), region.target, gvar.name_hint)
        return Call(gvar, [value for value, p in params.items() if p not in bound])

    def fresh(self, name: str) -> str:
        """Return a name that no function has: of another run of the pass, say."""
        unused, number = name, 0
        while unused in self.taken:
            number += 1
            unused = f"{name}_{number}"
        self.taken.add(unused)
        return unused


def _is_constant(expr: RelayExpr) -> bool:
    fields = expr.fields if isinstance(expr, Tuple) else [expr]
    return all(isinstance(each, Constant) for each in fields)


def _optimized(function: Function, compiler: str) -> Function:
    """Return a function as its code generator's own optimisation leaves it, if there is one."""
    hook = f"relay.ext.{compiler}.optimize"
    optimize = tvm.get_global_func(hook, allow_missing=True)
    if optimize is None:
        return function
    changed: Mapping[Any, Any] = optimize(infer_module(tvm.IRModule({"main": function})))
    result = changed["main"]
    if not isinstance(result, Function):
        raise ModelError(f"{hook} returned {type(result).__name__} for main, not a function")
    return result


def _for_compiler(function: Function, compiler: str, name: str) -> Function:
    one = tvm.tirx.IntImm("int32", 1)
    attrs = {"global_symbol": name, "Primitive": one, "Compiler": compiler, "Inline": one}
    made: Function = function.with_attr(attrs)
    return made
