"""Parse functions: ``[A](%x: A, attribute=1) -> A { body }``."""

from __future__ import annotations

import logging
from typing import Any

from ..ir import Function, RelayExpr, Var, VirtualDevice
from .attributes import Given
from .lexer import Token
from .matches import MatchParser

__all__ = ["FunctionParser"]

_VIRTUAL_DEVICE = "virtual_device"

_log = logging.getLogger(__name__)


class FunctionParser(MatchParser):
    """Parses functions, global and local ones."""

    def block(self) -> RelayExpr:
        """Parse ``{ expression }``."""
        raise NotImplementedError

    def function(self, start: int) -> Function:
        """Parse ``[A](%x: T, attribute=1) -> U { body }``."""
        with self.scopes.types.scope(), self.scopes.locals.scope():
            type_params = self.type_params()
            self.expect("(")
            params: list[Var] = []
            given: dict[str, Any] = {}
            while self.next.kind != ")":
                if self.at_attribute():
                    given = self.attributes()
                    break
                params.append(self._parameter(params))
                if not self.accept(","):
                    break
            self.expect(")", "',' or ')'")
            if _VIRTUAL_DEVICE in given:
                self._check_placement("a function's result", given.pop(_VIRTUAL_DEVICE))
            result = None
            if self.next.kind == "-":
                self.arrow()
                result = self.type()
            with self.nested():
                body = self.block()
        return Function(params, body, result, type_params, self.function_attrs(given), self.span_from(start))

    def _placement(self, parameter: Token) -> None:
        """Parse ``{virtual_device=meta[VirtualDevice][0]}``, which tells where Relay was to put a parameter."""
        start = self.expect("{")
        given = self.attributes()
        self.expect("}")
        device = given.pop(_VIRTUAL_DEVICE, None)
        if device is None or given:
            self.fail(start, f"expected {{{_VIRTUAL_DEVICE}=meta[VirtualDevice][...]}} after a parameter")
        self._check_placement(f"parameter %{parameter.value}", device)

    def _check_placement(self, what: str, device: Given) -> None:
        if not isinstance(device.value, VirtualDevice):
            self.fail(device.value_at, f"expected a VirtualDevice of the metadata as the {_VIRTUAL_DEVICE} of {what}")
        if device.value.is_constrained:
            line, column = self.source.position(device.value_at.start)
            _log.warning(
                "%s:%s:%s: the virtual device of %s is not used: a program is compiled for one device as a whole",
                self.source.name, line, column, what,
            )  # fmt: skip

    def _parameter(self, params: list[Var]) -> Var:
        token = self.next
        self.expect("local", "a local variable")
        span = self.span_from(token.start)
        if self.next.kind == "{":
            self._placement(token)
        variable = Var(token.value, self.annotation(), span)
        if any(p.name_hint == variable.name_hint for p in params):
            self.note(token, f"parameter %{variable.name_hint} is declared twice")
        return self.scopes.locals.bind(variable.name_hint, variable)
