"""Errors of programs reach a renderer of the user's, one diagnostic for each problem."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tvm

from vmkit import relay
from vmkit.errors import ParseError, TypeCheckError, VMKitError
from vmkit.relay.diagnostics import (
    Diagnostic,
    DiagnosticContext,
    DiagnosticLevel,
    DiagnosticRenderer,
    get_renderer,
    override_renderer,
)


@pytest.fixture
def shown() -> Iterator[list[Diagnostic]]:
    found: list[Diagnostic] = []
    override_renderer(lambda context: found.extend(context.diagnostics))
    yield found
    override_renderer(None)


def _ill_typed() -> tvm.IRModule:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(4,))
    return tvm.IRModule({"main": relay.Function([x, y], relay.Tuple([relay.add(x, y), relay.nn.dense(x, y)]))})


def test_each_type_error_is_one_diagnostic(shown: list[Diagnostic]) -> None:
    with pytest.raises(VMKitError, match="which the renderer has shown") as caught:
        relay.transform.InferType()(_ill_typed())
    assert type(caught.value) is VMKitError
    assert [each.level for each in shown] == [DiagnosticLevel.ERROR] * 2
    assert "add" in shown[0].message and "nn.dense" in shown[1].message


def test_an_error_of_a_text_is_shown_with_its_place(shown: list[Diagnostic]) -> None:
    with pytest.raises(VMKitError):
        relay.parse('#[version = "0.0.5"]\ndef @main(%x: int32) { %y }')
    assert len(shown) == 1 and "from_string:2:24" in shown[0].message


def test_without_a_renderer_the_error_says_it_all() -> None:
    with pytest.raises(TypeCheckError) as caught:
        relay.transform.InferType()(_ill_typed())
    assert "nn.dense" in str(caught.value)
    with pytest.raises(ParseError, match="expected an expression"):
        relay.parse_expr("%x + ")


def test_a_renderer_is_given_back() -> None:
    plain = get_renderer()
    override_renderer(lambda _: None)
    assert get_renderer() is not plain
    override_renderer(None)
    assert get_renderer() is plain


def test_notes_end_nothing_and_errors_do() -> None:
    texts: list[str] = []
    renderer = DiagnosticRenderer(lambda c: texts.extend(d.message for d in c.diagnostics))
    context = DiagnosticContext(tvm.IRModule({}), renderer)
    context.emit(Diagnostic(DiagnosticLevel.NOTE, None, "a note"))
    context.render()
    context.emit(Diagnostic(DiagnosticLevel.BUG, None, "a bug"))
    with pytest.raises(VMKitError):
        context.render()
    assert texts == ["a note", "a note", "a bug"]
