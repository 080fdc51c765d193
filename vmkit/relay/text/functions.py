"""Parse functions: ``[A](%x: A, attribute=1) -> A { body }``."""

from __future__ import annotations

from typing import Any

from ..ir import PARAM_DEVICES, RESULT_DEVICE, Function, RelayExpr, Var, VirtualDevice
from .attributes import Given
from .lexer import Token
from .matches import MatchParser

__all__ = ["FunctionParser"]

_VIRTUAL_DEVICE = "virtual_device"


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
            places: list[VirtualDevice] = []
            given: dict[str, Any] = {}
            while self.next.kind != ")":
                if self.at_attribute():
                    given = self.attributes()
                    break
                params.append(self._parameter(params, places))
                if not self.accept(","):
                    break
            self.expect(")", "',' or ')'")
            devices: dict[str, Any] = {}
            if any(not place.is_free for place in places):
                devices[PARAM_DEVICES] = places
            if _VIRTUAL_DEVICE in given:
                place = self._placement_of("a function's result", given.pop(_VIRTUAL_DEVICE))
                devices.update({} if place.is_free else {RESULT_DEVICE: place})
            result = None
            if self.next.kind == "-":
                self.arrow()
                result = self.type()
            with self.nested():
                body = self.block()
        attrs = {**self.function_attrs(given), **devices}
        return Function(params, body, result, type_params, attrs, self.span_from(start))

    def _placement(self, parameter: Token) -> VirtualDevice:
        """Parse ``{virtual_device=meta[VirtualDevice][0]}``, which tells where a parameter is."""
        start = self.expect("{")
        given = self.attributes()
        self.expect("}")
        device = given.pop(_VIRTUAL_DEVICE, None)
        if device is None or given:
            self.fail(start, f"expected {{{_VIRTUAL_DEVICE}=meta[VirtualDevice][...]}} after a parameter")
        return self._placement_of(f"parameter %{parameter.value}", device)

    def _placement_of(self, what: str, device: Given) -> VirtualDevice:
        if not isinstance(device.value, VirtualDevice):
            self.fail(device.value_at, f"expected a VirtualDevice of the metadata as the {_VIRTUAL_DEVICE} of {what}")
        return device.value

    def _parameter(self, params: list[Var], places: list[VirtualDevice]) -> Var:
        token = self.next
        self.expect("local", "a local variable")
        span = self.span_from(token.start)
        places.append(self._placement(token) if self.next.kind == "{" else VirtualDevice(-1, -1))
        variable = Var(token.value, self.annotation(), span)
        if any(p.name_hint == variable.name_hint for p in params):
            self.note(token, f"parameter %{variable.name_hint} is declared twice")
        return self.scopes.locals.bind(variable.name_hint, variable)
