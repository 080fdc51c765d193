"""Print modules and expressions as Relay text v0.0.5, character for character as Relay printed them.

A call, tuple, projection or If that is used, other than once at the end of a scope, becomes a graph binding
``%N = ...;`` in the innermost scope that encloses its uses; a program is a graph, and so its text has each node once.
Chains of calls and of Lets are walked without recursion; nested scopes are recursion, on a deep stack.
"""

from __future__ import annotations

import tvm
from tvm.ir import GlobalVar, Op

from ..._tvm.running import array_items
from ...errors import ModelError
from ...stack import on_deep_stack
from ..ir import (
    PARAM_DEVICES,
    Call,
    Constant,
    Constructor,
    Function,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TypeData,
    Var,
    VirtualDevice,
    type_definitions,
)
from ..ir.hooks import print_node, print_text
from .metadata import MetaSection
from .numbers import scalar_text
from .parser import VERSION
from .printed_attributes import AttributePrinter
from .printed_bindings import Annotate, BindingPrinter
from .printed_layout import indented, laid_out

__all__ = ["astext", "node_text"]


def astext(
    node: RelayExpr | tvm.IRModule,
    show_meta_data: bool = True,
    annotate: Annotate | None = None,
    *,
    show_spans: bool = True,
) -> str:
    """Return the text of a module or an expression, header included.

    Parameters
    ----------
    node : tvm.IRModule, Expr or Function
        What to print.
    show_meta_data : bool
        Whether to end the text with the metadata, such as tensors; without it the text may not be readable back.
    annotate : callable, optional
        Gives what is written behind an expression in the place of the comment on its type, such as ``/* ... */``;
        an empty string for nothing.
    show_spans : bool
        Whether the comments that tell types also tell where a node came from.
    """
    text, meta = on_deep_stack(_Printer(show_spans, show_meta_data, annotate).final, node)
    return f'#[version = "{VERSION}"]\n{text}{meta.text(show_meta_data)}'


def node_text(node: RelayExpr | tvm.IRModule) -> str:
    """Return the text of an expression without header and metadata: what ``str`` shows."""
    return on_deep_stack(_Printer(show_spans=True, show_meta_data=False).final, node)[0]


print_text.fill(astext)
print_node.fill(node_text)


class _Printer(BindingPrinter):
    def __init__(self, show_spans: bool, show_meta_data: bool, annotate: Annotate | None = None) -> None:
        super().__init__(show_spans, annotate)
        self.attributes = AttributePrinter(self.meta, self.names.symbol, show_meta_data)
        self.visitors = {
            Call: self.call,
            Constant: self.constant,
            Constructor: lambda e: e.name_hint,
            Function: lambda e: self.function("fn ", e),
            GlobalVar: lambda e: f"@{e.name_hint}",
            If: self.branch,
            Let: self.let,
            Match: self.match,
            Op: lambda e: e.name,
            RefCreate: lambda e: f"ref({self.print(e.value)})",
            RefRead: lambda e: f"ref_read({self.print(e.ref)})",
            RefWrite: lambda e: f"ref_write({self.print(e.ref)}, {self.print(e.value)})",
            Tuple: self.tuple,
            TupleGetItem: lambda e: f"{self.print(e.tuple_value)}.{e.index}",
            Var: self.declare,
        }

    def final(self, node: RelayExpr | tvm.IRModule) -> tuple[str, MetaSection]:
        if isinstance(node, tvm.IRModule):
            return laid_out(self.module(node)), self.meta
        self.start(node)
        return laid_out(self.scope(node)), self.meta

    def module(self, mod: tvm.IRModule) -> str:
        types = type_definitions(mod)
        definitions = [self.type_definition(types[name]) for name in sorted(types)]
        for gvar in sorted(mod.functions, key=lambda g: g.name_hint):
            function = mod[gvar]
            if not isinstance(function, Function):
                raise ModelError(f"@{gvar.name_hint} is a {type(function).__name__}; only Relay functions have a text")
            self.start(function)
            self.scopes = [[]]
            definitions.append(f"{self.function(f'def @{gvar.name_hint}', function)}\n")
        return "\n".join(definitions)

    def type_definition(self, data: TypeData) -> str:
        """Return a definition; as Relay did, also for an external type, which is one without constructors."""
        self.names.start_function()
        with self.names.type_params(data.type_vars) as names:
            params = f"[{', '.join(names)}]" if names else ""
            lines = "\n".join(self.constructor(c) for c in data.constructors)
        return f"type {data.header.name_hint}{params} {indented('{', lines, '}')}\n"

    def constructor(self, constructor: Constructor) -> str:
        fields = ", ".join(self.type(ty) for ty in constructor.inputs)
        return f"{constructor.name_hint}({fields})," if fields else f"{constructor.name_hint},"

    # -- one kind of node each

    def constant(self, constant: Constant) -> str:
        return scalar_text(constant.data) or self.meta.reference(constant)

    def tuple(self, value: Tuple) -> str:
        fields = [self.print(f) for f in array_items(value.fields)]
        return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"

    def call(self, call: Call) -> str:
        callee = call.op
        if type(callee) is Constructor and len(callee.inputs) == 0:
            return callee.name_hint
        inputs = [self.print(a) for a in array_items(call.args)]
        inputs += self.attributes.call(call.attrs, callee)
        return f"{self.print(callee)}({', '.join(inputs)})"

    def branch(self, branch: If) -> str:
        condition = self.print(branch.cond)
        return f"if ({condition}) {self.body(branch.true_branch)} else {self.body(branch.false_branch)}"

    def match(self, match: Match) -> str:
        data = self.print(match.data)
        clauses = [f"{self.pattern(c.lhs)} => {self.body(c.rhs)}," for c in match.clauses]
        return indented(f"match{'' if match.complete else '?'} ({data}) {{", "\n".join(clauses), "}")

    def pattern(self, pattern: Pattern) -> str:
        match pattern:
            case PatternVar():
                return self.binder(pattern.var)
            case PatternConstructor() if len(pattern.patterns) == 0:
                return pattern.constructor.name_hint
            case PatternConstructor() | PatternTuple():
                name = pattern.constructor.name_hint if isinstance(pattern, PatternConstructor) else ""
                return f"{name}({', '.join([self.pattern(p) for p in pattern.patterns])})"
        return "_"

    def let(self, let: Let) -> str:
        base, node = len(self.scopes), let
        while isinstance(node, Let):
            variable = self.binder(node.var)
            # A Let cannot stand bare as the value of another one.
            value = self.print(node.value, at_end=not isinstance(node.value, Let))
            self.scopes.append([f"let {variable} = {value};"])
            node = node.body
        last = self.print(node, at_end=True)
        lines = [line for scope in self.scopes[base:] for line in scope]
        del self.scopes[base:]
        return "\n".join([*lines, last])

    def function(self, prefix: str, function: Function) -> str:
        with self.names.type_params(function.type_params) as names:
            return self.function_below(f"{prefix}[{', '.join(names)}]" if names else prefix, function)

    def placed(self, binder: str, device: VirtualDevice) -> str:
        """Return a parameter with its device, which stands after the name."""
        if device.is_free:
            return binder
        name, colon, rest = binder.partition(":")
        return f"{name} {{virtual_device={self.attributes.value(device)}}}{colon}{rest}"

    def function_below(self, prefix: str, function: Function) -> str:
        devices = (function.attrs.get(PARAM_DEVICES) if function.attrs else None) or [None] * len(function.params)
        params = [
            self.binder(param) if device is None else self.placed(self.binder(param), device)
            for param, device in zip(function.params, devices, strict=True)
        ]
        params += self.attributes.function(function.attrs)
        result = f"-> {self.type(function.ret_type)} " if function.ret_type is not None else ""
        return f"{prefix}({', '.join(params)}) {result}{self.body(function.body)}"
