"""What is wrong with a program as diagnostics, for a tool that shows them in its own way.

By default an error of a text or of types is an exception whose message says all. With :func:`override_renderer` a
function gets the diagnostics instead, one for each problem, and the exception says only that there were some.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from enum import IntEnum

import tvm
from tvm.ir import Span

from .._dataclasses import dataclass
from ..errors import ParseError, TypeCheckError, VMKitError

__all__ = [
    "Diagnostic",
    "DiagnosticContext",
    "DiagnosticLevel",
    "DiagnosticRenderer",
    "get_renderer",
    "override_renderer",
    "reported",
]

logger = logging.getLogger(__name__)


class DiagnosticLevel(IntEnum):
    """How bad a diagnostic is, numbered as in Relay; errors and bugs end what was asked for."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


@dataclass(frozen=True)
class Diagnostic:
    """One thing to say of a program.

    Attributes
    ----------
    level : DiagnosticLevel
        How bad it is.
    span : tvm.ir.Span or None
        Where it is; None where the message says so, or no place is known.
    message : str
        What it is.
    """

    level: DiagnosticLevel
    span: Span | None
    message: str


class DiagnosticRenderer:
    """Shows the diagnostics of a context.

    Parameters
    ----------
    render_func : callable
        Takes the :class:`DiagnosticContext`.
    """

    def __init__(self, render_func: Callable[[DiagnosticContext], object]) -> None:
        self.render_func = render_func

    def render(self, ctx: DiagnosticContext) -> None:
        """Show the diagnostics of a context."""
        self.render_func(ctx)


@dataclass
class DiagnosticContext:
    """Collects diagnostics of a module and has them shown.

    Attributes
    ----------
    module : tvm.IRModule
        The program.
    renderer : DiagnosticRenderer
        What shows them.
    diagnostics : list of Diagnostic
        Those emitted so far.

    Examples
    --------
    >>> seen = []
    >>> context = DiagnosticContext(tvm.IRModule({}), DiagnosticRenderer(lambda c: seen.extend(c.diagnostics)))
    >>> context.emit(Diagnostic(DiagnosticLevel.NOTE, None, "the program is empty"))
    >>> context.render()
    >>> seen[0].message
    'the program is empty'
    """

    module: tvm.IRModule
    renderer: DiagnosticRenderer
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def emit(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic."""
        self.diagnostics.append(diagnostic)

    def render(self) -> None:
        """Have the diagnostics shown.

        Raises
        ------
        VMKitError
            Afterwards, when one of them is an error or a bug.
        """
        self.renderer.render(self)
        if any(each.level <= DiagnosticLevel.ERROR for each in self.diagnostics):
            raise VMKitError("one or more error diagnostics were emitted, which the renderer has shown")


def _log(ctx: DiagnosticContext) -> None:
    levels = {DiagnosticLevel.WARNING: logging.WARNING, DiagnosticLevel.NOTE: logging.INFO}
    for each in ctx.diagnostics:
        place = "" if each.span is None else f"{each.span.source_name.name}:{each.span.line}:{each.span.column}: "
        logger.log(levels.get(each.level, logging.ERROR), "%s%s", place, each.message)


_default = DiagnosticRenderer(_log)
_override: DiagnosticRenderer | None = None


def get_renderer() -> DiagnosticRenderer:
    """Return the renderer: that of :func:`override_renderer`, or else one that logs."""
    return _override or _default


def override_renderer(render_func: Callable[[DiagnosticContext], object] | None) -> None:
    """Have a function show what is wrong with programs, from now on and in all threads; None ends that.

    Parameters
    ----------
    render_func : callable or None
        Takes the :class:`DiagnosticContext`.
    """
    global _override
    _override = None if render_func is None else DiagnosticRenderer(render_func)


@contextmanager
def reported(mod: tvm.IRModule | None = None) -> Iterator[None]:
    """Give errors of texts and of types that leave the block to the renderer, where one has been set.

    Raises
    ------
    VMKitError
        In place of the error, once it is shown; without a renderer of the user's the error goes on as it is.
    """
    try:
        yield
    except (ParseError, TypeCheckError) as error:
        if _override is None:
            raise
        problems = [Diagnostic(DiagnosticLevel.ERROR, None, text) for text in error.problems or (str(error),)]
        try:
            DiagnosticContext(mod or tvm.IRModule({}), _override, problems).render()
        except VMKitError as shown:
            raise shown from error
