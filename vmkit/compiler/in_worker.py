"""What a worker does that compiles for another process."""

from __future__ import annotations

from pathlib import Path

from ..errors import TargetError
from ..target import TargetPlan
from ..values.param_dict import load_param_dict
from .isolated import Request
from .vm_compiler import compile

__all__ = ["compile_to"]


def compile_to(request: Request, path: str) -> None:
    """Write the executable of a request to a file.

    Raises
    ------
    TargetError
        If it could not be loaded here.
    """
    with request.in_force():
        executable = compile(
            request.model.model(),
            TargetPlan.from_json(request.plan) if request.plan is not None else request.target,
            request.target_host,
            load_param_dict(request.params),
            shapes=request.shapes,
            cache=request.cache,
        )
    if problems := executable.built_for.problems_here():
        raise TargetError(
            "isolated=True gives back an executable that is loaded here, and this one is for another machine: "
            f"{'; '.join(problems)}; leave out isolated=True, or use the command vmkit compile"
        )
    executable.export(Path(path))
