"""Print modules and expressions as Relay text v0.0.5, character for character as Relay printed them.

A call, tuple, projection or If that is used, other than once at the end of a scope, becomes a graph binding
``%N = ...;`` in the innermost scope that encloses its uses; a program is a graph, and so its text has each node once.
Chains of calls and of Lets are walked without recursion; nested scopes are recursion, on a deep stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from tvm.ir import GlobalVar, Op, Span

from ...errors import ModelError
from ...stack import on_deep_stack
from ..ir import (
    Call,
    Constant,
    Constructor,
    Function,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Type,
    TypeData,
    Var,
    type_definitions,
)
from ..ir.types import type_text
from .metadata import MetaSection
from .numbers import scalar_text
from .parser import VERSION
from .printed_attributes import AttributePrinter
from .printed_names import PrintedNames
from .printed_scopes import ScopePlan

__all__ = ["astext", "node_text"]

_ALWAYS_INLINE = (GlobalVar, Constant, Constructor, Op, Var)
_WITH_TYPE = (Constant, Call, Var, Function, Tuple, TupleGetItem)


def astext(node: Any, show_meta_data: bool = True, *, show_spans: bool = True) -> str:
    """Return the text of a module or an expression, header included.

    Parameters
    ----------
    node : tvm.IRModule, Expr or Function
        What to print.
    show_meta_data : bool
        Whether to end the text with the metadata, such as tensors; without it the text may not be readable back.
    show_spans : bool
        Whether the comments that tell types also tell where a node came from.
    """
    text, meta = on_deep_stack(_Printer(show_spans).final, node)
    return f'#[version = "{VERSION}"]\n{text}{meta.text(show_meta_data)}'


def node_text(node: Any) -> str:
    """Return the text of an expression without header and metadata: what ``str`` shows."""
    return on_deep_stack(_Printer(True).final, node)[0]


class _Printer:
    def __init__(self, show_spans: bool) -> None:
        self.show_spans = show_spans
        self.meta = MetaSection()
        self.names = PrintedNames()
        self.attributes = AttributePrinter(self.meta, self.names.dim)
        self.plan = ScopePlan(Tuple([]))
        self.temporaries = 0
        self.texts: dict[Any, str] = {}
        self.declared: dict[Any, str] = {}
        self.hoisted: set[Any] = set()
        # The finished lines of each open scope, innermost last.
        self.scopes: list[list[str]] = []
        self.visitors: dict[type, Callable[[Any], str]] = {
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

    def final(self, node: Any) -> tuple[str, MetaSection]:
        if isinstance(node, tvm.IRModule):
            return self.module(node), self.meta
        self.start(node)
        return self.scope(node), self.meta

    def start(self, node: Any) -> None:
        """Begin a global function or a lone expression."""
        self.plan = ScopePlan(node)
        self.texts, self.declared, self.hoisted = {}, {}, set()
        self.names.start_function()

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
        params = f"[{', '.join(p.name_hint for p in data.type_vars)}]" if len(data.type_vars) else ""
        constructors = []
        for constructor in data.constructors:
            fields = ", ".join(self.type(ty) for ty in constructor.inputs)
            constructors.append(f"{constructor.name_hint}({fields})," if fields else f"{constructor.name_hint},")
        lines = "\n".join(constructors)
        return f"type {data.header.name_hint}{params} {_indented('{', lines, '}')}\n"

    # -- scopes and sharing

    def scope(self, node: Any) -> str:
        """Return an expression with the bindings it needs before it."""
        self.scopes.append([])
        text = self.print(node, at_end=True)
        return "\n".join([*self.scopes.pop(), text])

    @contextmanager
    def at_home(self, node: Any) -> Iterator[None]:
        """Step out to the scope that a node is bound in."""
        depth = self.plan.depths[node]
        inner = self.scopes[depth:]
        del self.scopes[depth:]
        yield
        self.scopes += inner

    def body(self, node: Any) -> str:
        return _indented("{", self.scope(node), "}")

    def print(self, node: Any, at_end: bool = False) -> str:
        """Return what stands for an expression at a place: its text, its name or its number.

        `at_end` says that the place is the end of a scope, where an expression used once is written out.
        """
        if node in self.hoisted:
            return self.texts[node]
        if isinstance(node, Var):
            text = self.visit(node)
            if node in self.declared:
                # No binder came before the first use: the variable is free.
                self.scopes[-1].append(f"free_var {self.declared.pop(node)};")
            return text
        is_inline = isinstance(node, _ALWAYS_INLINE) or (at_end and self.plan.uses[node] <= 1)
        text = self.visit(node)
        if not is_inline and isinstance(node, Let):
            text = _indented("(", text, ")")
        text += self.info(node)
        if is_inline:
            return text
        name = f"%{self.temporaries}"
        self.temporaries += 1
        self.scopes[self.plan.depths[node] - 1].append(f"{name} = {text};")
        self.hoisted.add(node)
        self.texts[node] = name
        return name

    def visit(self, node: Any) -> str:
        """Return the text of an expression; the calls, tuples and projections below it are visited in a loop."""
        texts = self.texts
        if node in texts:
            return texts[node]
        stack = [(node, False)]
        while stack:
            current, is_expanded = stack.pop()
            if current in texts:
                continue
            below = () if is_expanded else _dataflow(current)
            if below:
                stack.append((current, True))
                stack += [(child, False) for child in below if child not in texts]
            else:
                with self.at_home(current):
                    texts[current] = self.visitor(current)(current)
        return texts[node]

    def visitor(self, node: Any) -> Callable[[Any], str]:
        found = self.visitors.get(type(node))
        if found is None:
            raise ModelError(f"a {type(node).__name__} is not a Relay expression and has no text")
        return found

    def info(self, node: Any) -> str:
        """Return the comment that tells the type of a node, and its place in the source."""
        if not isinstance(node, _WITH_TYPE):
            return ""
        parts = []
        if node.checked_type_ is not None:
            parts.append(f" ty={self.type(node.checked_type_)}")
        if self.show_spans and isinstance(node.span, Span):
            parts.append(f" span={node.span.source_name.name}:{node.span.line}:{node.span.column}")
        return f" /*{''.join(parts)} */" if parts else ""

    def type(self, ty: Type) -> str:
        return type_text(ty, self.names.dim)

    # -- one kind of node each

    def declare(self, variable: Var) -> str:
        """Give a variable its name, and keep how it is declared until that is printed."""
        name = self.names.local(variable.name_hint)
        annotation = f": {self.type(variable.type_annotation)}" if variable.type_annotation is not None else ""
        self.declared[variable] = f"{name}{annotation}{self.info(variable)}"
        return name

    def binder(self, variable: Var) -> str:
        """Return a variable as it stands where it is bound."""
        self.texts[variable] = self.declare(variable)
        return self.declared.pop(variable)

    def constant(self, constant: Constant) -> str:
        return scalar_text(constant.data) or self.meta.reference(constant)

    def tuple(self, value: Tuple) -> str:
        fields = [self.print(f) for f in value.fields]
        return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"

    def call(self, call: Call) -> str:
        if isinstance(call.op, Constructor) and len(call.op.inputs) == 0:
            return call.op.name_hint
        inputs = [self.print(a) for a in call.args]
        inputs += self.attributes.call(call.attrs, isinstance(call.op, Op))
        return f"{self.print(call.op)}({', '.join(inputs)})"

    def branch(self, branch: If) -> str:
        condition = self.print(branch.cond)
        return f"if ({condition}) {self.body(branch.true_branch)} else {self.body(branch.false_branch)}"

    def match(self, match: Match) -> str:
        data = self.print(match.data)
        clauses = [f"{self.pattern(c.lhs)} => {self.body(c.rhs)}," for c in match.clauses]
        return _indented(f"match{'' if match.complete else '?'} ({data}) {{", "\n".join(clauses), "}")

    def pattern(self, pattern: Any) -> str:
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
        type_params = f"[{', '.join(p.name_hint for p in function.type_params)}]" if function.type_params else ""
        params = [self.binder(p) for p in function.params] + self.attributes.function(function.attrs)
        result = f"-> {self.type(function.ret_type)} " if function.ret_type is not None else ""
        return f"{prefix}{type_params}({', '.join(params)}) {result}{self.body(function.body)}"


def _dataflow(node: Any) -> list[Any]:
    """Return what is visited before a node, last first: the callee comes before the arguments."""
    if isinstance(node, Call):
        return [*reversed(node.args), node.op]
    if isinstance(node, Tuple):
        return list(reversed(node.fields))
    if isinstance(node, TupleGetItem):
        return [node.tuple_value]
    return []


def _indented(open_: str, text: str, close: str) -> str:
    inner = text.replace("\n", "\n  ")
    return f"{open_}\n  {inner}\n{close}"
