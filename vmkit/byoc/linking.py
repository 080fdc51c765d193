"""From functions with the attribute ``Compiler`` to modules that an executable calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field

import tvm
from tvm.target import Target

from .._dataclasses import dataclass
from ..errors import CompileError
from ..relay import transform
from ..relay.ir import Call, Function, RelayExpr, post_order, rewrite
from ..relay.lower import External
from ..relay.transform.compiler_functions import without_composites
from .c_module import module_of_c
from .codegen import CODEGENS, Codegen, CSource, Graph, RuntimeModule, find, loader_name, runtime_name
from .region import Region

__all__ = ["Linked", "link_functions", "with_global_functions"]


_CPU = ("llvm", "c")


@dataclass(eq=False)
class Linked:
    """What code generators made of a module's functions.

    Attributes
    ----------
    externals : dict of str to External
        How each function is called, by its name in the module.
    modules : list of Module
        The runtime modules that the calls need.
    runtimes : dict of str to str
        The packed functions that the calls need beside those, each with the Python module that registers it.
    sources : dict of str to (Region, str)
        The C of the functions that have some, by their symbols, as :meth:`.CSource.source` returned it.
    """

    externals: dict[str, External] = field(default_factory=dict)
    modules: list[tvm.runtime.Module] = field(default_factory=list)
    runtimes: dict[str, str] = field(default_factory=dict)
    sources: dict[str, tuple[Region, str]] = field(default_factory=dict)


def with_global_functions(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose functions for code generators are all global; by themselves they may stand anywhere."""
    literal = (
        node
        for function in mod.functions.values()
        if isinstance(function, Function) and not function.attrs.get("Compiler")
        for node in post_order(function.body)
        if isinstance(node, Function) and node.attrs.get("Compiler")
    )
    outline = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols
    return outline()(transform.InferType()(mod)) if next(literal, None) is not None else mod


def link_functions(mod: tvm.IRModule, target: Target | None = None) -> Linked:
    """Return what code generators make of the functions of a typed module that have the attribute ``Compiler``.

    Parameters
    ----------
    mod : tvm.IRModule
        The module.
    target : tvm.target.Target, optional
        What the rest of it is compiled for; by default a CPU.

    Raises
    ------
    CompileError
        When there is no code generator of the name, or it cannot compile what it got.
    """
    functions = {
        gvar.name_hint: function
        for gvar, function in mod.functions.items()
        if isinstance(function, Function) and function.attrs.get("Compiler")
    }
    linked = Linked()
    by_compiler: dict[str, dict[str, Function]] = {}
    for name, function in functions.items():
        by_compiler.setdefault(str(function.attrs["Compiler"]), {})[name] = function
    if "main" in functions:
        raise CompileError("main itself is for another code generator; call that function from a main of its own")
    names: dict[str, str] = {}
    for name, function in functions.items():
        other = names.setdefault(_symbol(name, function), name)
        if other != name:
            raise CompileError(f"@{name} and @{other} have the same global_symbol {_symbol(name, function)!r}")
    plain = _in_operators(functions) if functions else {}
    for compiler, own in by_compiler.items():
        made = CODEGENS.get(compiler)
        is_on_cpu = isinstance(made, CSource) or (isinstance(made, RuntimeModule) and made.reads_cpu_alone)
        if is_on_cpu and target is not None and target.kind.name not in _CPU:
            what = "writes C" if isinstance(made, CSource) else "computes"
            raise CompileError(
                f"{compiler} {what} for a CPU, which cannot read the tensors of a program for {target.kind.name}"
            )
        _link(linked, compiler, own, plain)
    return linked


def _link(linked: Linked, compiler: str, functions: Mapping[str, Function], plain: Mapping[str, Function]) -> None:
    """Compile the functions of one code generator."""
    hook = f"relay.ext.{compiler}"
    relay_codegen = tvm.get_global_func(hook, allow_missing=True)
    if compiler not in CODEGENS and relay_codegen is not None:
        for name, function in functions.items():
            symbol = _symbol(name, function)
            module = relay_codegen(function)
            _require_function(module, symbol, hook, name)
            linked.modules.append(module)
            linked.externals[name] = External(symbol, plain[name])
        return
    made = find(compiler)
    sources, regions = [], []
    for name, function in functions.items():
        region = Region.of(_symbol(name, function), function)
        _require_taken(made, compiler, name, region)
        constants = tuple(region.constants.values())
        if isinstance(made, CSource):
            sources.append((region, made.source(region)))
            linked.externals[name] = External(region.symbol, plain[name], (), constants)
        elif isinstance(made, Graph):
            text = _graph_text(made, compiler, region)
            linked.externals[name] = External(runtime_name(compiler), plain[name], (text,), constants)
            linked.runtimes[runtime_name(compiler)] = type(made).__module__
        elif isinstance(made, RuntimeModule):
            regions.append(region)
            linked.externals[name] = External(region.symbol, plain[name], (), constants)
    linked.sources |= {region.symbol: (region, source) for region, source in sources}
    if sources:
        linked.modules.append(module_of_c(sources))
    if regions and isinstance(made, RuntimeModule):
        module = made.module(regions)
        for region, name in zip(regions, functions, strict=True):
            _require_function(module, region.symbol, compiler, name)
        linked.modules.append(module)
        linked.runtimes[loader_name(made.kind)] = made.runtime


def _graph_text(codegen: Graph, compiler: str, region: Region) -> str:
    described = {"graph": codegen.graph(region), "results": len(region.outputs)}
    try:
        return json.dumps(described)
    except (TypeError, ValueError) as error:
        raise CompileError(f"the graph that {compiler} made of @{region.symbol} is no JSON: {error}") from error


def _require_function(module: object, symbol: str, maker: str, name: str) -> None:
    """Raise CompileError where what a code generator returned is no module that has the function of a region."""
    if not isinstance(module, tvm.runtime.Module) or not module.implements_function(symbol, True):
        raise CompileError(f"{maker} returned {_text_of(module)} for @{name}, which has no function {symbol!r}")


def _require_taken(codegen: Codegen, compiler: str, name: str, region: Region) -> None:
    known = {*codegen.operators, *(str(row[0]) for row in codegen.patterns())}
    wrong = sorted({node.op for node in region.nodes} - known)
    if wrong:
        raise CompileError(
            f"@{name} is for {compiler}, which does not take {', '.join(wrong)}; it takes {', '.join(sorted(known))}"
        )


def _symbol(name: str, function: Function) -> str:
    return re.sub(r"\W", "_", str(function.attrs.get("global_symbol") or name), flags=re.ASCII)


def _text_of(module: object) -> str:
    return f"a module of kind {module.kind!r}" if isinstance(module, tvm.runtime.Module) else type(module).__name__


def _in_operators(functions: Mapping[str, Function]) -> dict[str, Function]:
    """Return what functions compute in operators that can be lowered: no composite functions, nothing quantised."""

    def flat(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        return without_composites(node, original) if isinstance(node, Call) else node

    bodies = {}
    for name, function in functions.items():
        made = rewrite(function, {}, flat)
        bodies[name] = Function(list(made.params), made.body, made.ret_type, list(made.type_params))
    passes = [transform.InferType(), transform.LiftCalledFunctions(), transform.SimplifyInference()]
    mod = tvm.transform.Sequential([*passes, transform.QnnCanonicalize()])(tvm.IRModule(bodies))
    return {gvar.name_hint: function for gvar, function in mod.functions.items()}
