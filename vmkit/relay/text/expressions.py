"""Parse expressions.

Sequences of bindings are parsed in a loop, so the depth of the parser grows with the nesting of the text only.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import GlobalVar

from ..ir import Call, Constructor, Expr, Function, If, Let, Op, RelayExpr, Tuple, TupleGetItem, Var
from ..op.attrs import Attrs
from ..op.registry import REGISTRY
from .functions import FunctionParser
from .lexer import Token, describe_token

__all__ = ["ExpressionParser"]

# Operators are sequences of tokens: the sign, the Relay operator, and how tightly it binds.
_OPERATORS: dict[tuple[str, ...], tuple[str, int]] = {
    ("*",): ("multiply", 12),
    ("/",): ("divide", 12),
    ("+",): ("add", 10),
    ("-",): ("subtract", 10),
    ("<",): ("less", 8),
    ("<", "="): ("less_equal", 8),
    (">",): ("greater", 8),
    (">", "="): ("greater_equal", 8),
    ("=", "="): ("equal", 7),
    ("!", "="): ("not_equal", 7),
}


class ExpressionParser(FunctionParser):
    """Parses expressions."""

    # -- sequences

    def expression(self) -> RelayExpr:
        """Parse bindings and the expression that they are bound for.

        ``let %x = a; b`` and ``a; b`` give Let; ``%0 = a; b`` makes ``%0`` stand for the node `a` itself, which is
        shared by all its uses.
        """
        return self._sequence(is_value=False)

    def _sequence(self, *, is_value: bool) -> RelayExpr:
        """Parse bindings and an expression; `is_value` says that a semicolon after it belongs to an outer binding."""
        with self.nested(), self.scopes.locals.scope():
            lets: list[tuple[int, Var, Any]] = []
            while True:
                token = self.next
                if token.kind == "free_var":
                    self._free_var()
                elif token.kind == "graph" and self.ahead(1).kind == "=" and self.ahead(2).kind != "=":
                    self._graph_binding()
                elif token.kind == "let":
                    lets.append(self._let_binding())
                else:
                    value = self.binary()
                    span = self.span_from(token.start)
                    if is_value or not self.accept(";"):
                        break
                    lets.append((token.start, Var("", None, span), value))
            body = value
            for start, variable, bound in reversed(lets):
                body = Let(variable, bound, body, self.span_from(start))
            return body

    def _free_var(self) -> None:
        self.expect("free_var")
        name = self.expect("local", "a local variable")
        span = self.span_from(name.start)
        self.scopes.free[name.value] = Var(name.value, self.annotation(), span)
        self.expect(";")

    def _graph_binding(self) -> None:
        token = self.take()
        self.expect("=")
        self.scopes.graph[token.value] = self.binary()
        self.expect(";")

    def _let_binding(self) -> tuple[int, Var, RelayExpr]:
        start = self.expect("let").start
        variable = self.variable()
        # A function's value may refer to the variable itself.
        self.scopes.locals.bind(variable.name_hint, variable)
        self.expect("=")
        # Relay printed a Let that is the value of another one without brackets.
        value = self._sequence(is_value=True) if self.next.kind == "let" else self.binary()
        self.expect(";")
        return start, variable, value

    def block(self) -> RelayExpr:
        """Parse ``{ expression }``."""
        self.expect("{")
        body = self.expression()
        self.expect("}")
        return body

    # -- operators and calls

    def binary(self) -> RelayExpr:
        """Parse operands joined by operators, all of which associate to the left."""
        operands = [self._operand()]
        waiting: list[tuple[str, int]] = []

        def reduce() -> None:
            name, _ = waiting.pop()
            (right, _, end), (left, start, _) = operands.pop(), operands.pop()
            operands.append((Call(Op.get(name), [left, right], span=self.source.span(start, end)), start, end))

        while True:
            operator = self._operator()
            if operator is None:
                break
            while waiting and waiting[-1][1] >= operator[1]:
                reduce()
            waiting.append(operator)
            operands.append(self._operand())
        while waiting:
            reduce()
        return operands[0][0]

    def _operand(self) -> tuple[RelayExpr, int, int]:
        """Parse an operand; return it with where it begins and ends."""
        start = self.next.start
        value = self.postfix()
        return value, start, self.tokens[self.at - 1].end

    def _operator(self) -> tuple[str, int] | None:
        first, second = self.next.kind, self.ahead(1).kind
        for signs in ((first, second), (first,)):
            if signs in _OPERATORS:
                self.at += len(signs)
                return _OPERATORS[signs]
        return None

    def postfix(self) -> RelayExpr:
        """Parse an atom and the calls and projections that follow it."""
        start = self.next
        value = self.atom()
        while True:
            if self.next.kind == "(":
                value = self._call(start, value)
            elif self.next.kind == ".":
                value = self._projected(start, value)
            else:
                break
        if isinstance(value, Op | Function | Expr | GlobalVar):
            return self._applied(start, value)
        self.fail(start, f"expected an expression, found {type(value).__name__}")

    def projection(self) -> RelayExpr:
        """Parse an atom and the projections that follow it."""
        start = self.next
        value = self.atom()
        while self.next.kind == ".":
            value = self._projected(start, value)
        return self._applied(start, value)

    def _applied(self, start: Token, value: RelayExpr) -> RelayExpr:
        """Return a value; a constructor without fields is a value only when it is called."""
        if isinstance(value, Constructor) and len(value.inputs) == 0:
            return Call(value, [], span=self.span_from(start.start))
        return value

    def _projected(self, start: Token, value: RelayExpr) -> TupleGetItem:
        self.expect(".")
        index = self.expect("number", "the index of a field")
        if not isinstance(index.value.value, int) or not 0 <= index.value.value < 1 << 31:
            self.fail(index, "expected the index of a field")
        return TupleGetItem(value, index.value.value, self.span_from(start.start))

    def _call(self, start: Token, callee: RelayExpr) -> Call:
        self.expect("(")
        arguments: list[Any] = []
        attrs: Any = None
        given: dict[str, Any] = {}
        while self.next.kind != ")":
            if self.at_attribute():
                given = self.attributes()
                break
            if self.next.kind == "meta" and self.ahead(1).kind == ")":
                value = self.meta.read(self.next)
                if isinstance(value, Attrs):
                    attrs = value
                    self.take()
                    break
            arguments.append(self._argument())
            if not self.accept(","):
                break
        self.expect(")", "',' or ')'")
        if attrs is None:
            is_operator = isinstance(callee, Op)
            attrs = (
                self.operator_attrs(REGISTRY[callee.name], given, start.start)
                if is_operator
                else self.keyed_attrs(given, start.start)
            )
        elif isinstance(callee, Op):
            self._check_meta_attrs(start, callee, attrs)
        return Call(callee, arguments, attrs, span=self.span_from(start.start))

    def _argument(self) -> RelayExpr:
        """Parse an argument of a call; a name alone, as most are, takes the short way."""
        token = self.next
        if token.kind in ("graph", "local") and self.ahead(1).kind in (",", ")"):
            self.take()
            return self.graph_variable(token) if token.kind == "graph" else self.local(token)
        return self.expression()

    def _check_meta_attrs(self, start: Token, callee: Op, attrs: Attrs) -> None:
        expected = REGISTRY[callee.name].attrs
        if expected is None or not isinstance(attrs, expected):
            wanted = expected.type_key if expected is not None else "no attributes"
            self.fail(start, f"operator {callee.name} takes {wanted}, got {attrs.type_key}")

    # -- atoms

    def atom(self) -> RelayExpr:
        """Parse an expression without operators around it."""
        token = self.next
        match token.kind:
            case "number":
                self.take()
                return self.constant(token, token.value.value, token.value.dtype)
            case "bool":
                self.take()
                return self.constant(token, token.value, "bool")
            case "local":
                return self.local(self.take())
            case "graph":
                return self.graph_variable(self.take())
            case "global":
                return self.global_var(self.take())
            case "ident":
                return self.named_value()
            case "meta":
                return self.meta.find(self.take(), (Expr, Function), "an expression")
            case "fn":
                self.take()
                return self.function(token.start)
            case "if":
                return self._if()
            case "(":
                return self._parenthesised()
            case "{":
                return self.block()
            case "match":
                return self.match()
            case "ref" | "ref_read" | "ref_write":
                return self.reference_operation()
        self.fail(token, f"expected an expression, found {describe_token(token)}")

    def _parenthesised(self) -> RelayExpr:
        start = self.expect("(").start
        if self.accept(")"):
            return Tuple([], self.span_from(start))
        first = self.expression()
        if self.accept(")"):
            return first
        fields = [first]
        while self.accept(","):
            if self.next.kind == ")":
                break
            fields.append(self.expression())
        self.expect(")", "',' or ')'")
        return Tuple(fields, self.span_from(start))

    def _if(self) -> If:
        start = self.expect("if").start
        self.expect("(")
        condition = self.expression()
        self.expect(")")
        true_branch = self.block()
        self.expect("else")
        return If(condition, true_branch, self.block(), self.span_from(start))
