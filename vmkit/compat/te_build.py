"""``te.create_schedule`` and ``tvm.build`` of what it makes: computations of TE, each operation as it was written.

What a schedule did to loops is done by ``tvm.s_tir.Schedule`` today, so that a schedule here is the default one alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import tvm
from tvm import te, tirx
from tvm.target import Target

from vmkit.errors import ModelError, OptionError, UnavailableError
from vmkit.target import canonical_target
from vmkit.target.plan import OneTarget

from .build_choices import Runtime

__all__ = ["OperatorModule", "Schedule", "build", "create_schedule"]

_INSTEAD = "tvm.s_tir.Schedule of te.create_prim_func([...]) schedules a computation"


class Schedule:
    """The default schedule of some operations of TE: nothing is split, reordered or computed elsewhere.

    Attributes
    ----------
    outputs : list of Operation
        What is computed, with all that it needs.
    """

    def __init__(self, outputs: Sequence[tvm.ir.Node]) -> None:
        self.outputs = list(outputs)

    def __getitem__(self, stage: object) -> NoReturn:
        """Raise UnavailableError: there are no stages."""
        raise UnavailableError(f"the stages of a schedule of TE are gone; {_INSTEAD}")

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise UnavailableError(f"the primitives of a schedule of TE are gone; {_INSTEAD}")

    cache_read = cache_write = create_group = normalize = rfactor = _refuse


def create_schedule(ops: tvm.ir.Node | Sequence[tvm.ir.Node]) -> Schedule:
    """Return the default schedule of one or several operations."""
    given = list(ops) if isinstance(ops, Sequence | tvm.ir.Array) else [ops]
    wrong = [type(each).__name__ for each in given if not isinstance(each, te.tensor.Operation)]
    if wrong or not given:
        raise ModelError(f"expected operations of TE, such as C.op, got {', '.join(wrong) or 'none'}")
    return Schedule(given)


class OperatorModule(tvm.runtime.Executable):
    """Operators that are built, with the functions of TIR that they were built from.

    Attributes
    ----------
    ir_module_by_target : dict of Target to IRModule
        The functions for each target.
    name : str
        What they are called together.
    """

    def __init__(self, mod: tvm.runtime.Module, name: str, ir_module_by_target: Mapping[Target, tvm.IRModule]) -> None:
        super().__init__(mod)
        self.name = name
        self.ir_module_by_target = dict(ir_module_by_target)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - what the function returns
        """Call the operator, where it is one."""
        ((_, functions),) = self.ir_module_by_target.items()
        if len(functions.functions) != 1:
            raise ModelError(f"{self.name} has several functions: call module[name]")
        ((gvar, _),) = functions.functions.items()
        return self[gvar.name_hint](*args, **kwargs)

    def get_source(self, fmt: str = "") -> str:
        """Return the code of the operators."""
        return str(self.mod.inspect_source(fmt))


_build_by_tvm = tvm.build


def build(
    inputs: Schedule | tirx.PrimFunc | tvm.IRModule,
    args: Sequence[Any] | OneTarget | None = None,
    target: OneTarget | None = None,
    target_host: OneTarget | None = None,
    runtime: Runtime | None = None,
    name: str | None = None,
    binds: Mapping[te.Tensor, Any] | None = None,
    **options: Any,
) -> Any:  # noqa: ANN401 - what today's tvm.build returns, for what it takes
    """Return operators built: computations of TE by their schedule, or functions of TIR.

    Parameters
    ----------
    inputs : Schedule, or PrimFunc or IRModule
        What is built. Today's ``tvm.build``, which takes no schedule, is called for all else.
    args : sequence of te.Tensor
        What the function takes, in its order.
    target, target_host : optional
        What for; by default the current target, or this machine.
    runtime : Runtime, optional
        Checked, and of no effect: :func:`~vmkit.compat.model_library_format.export_model_library_format` writes C.
    name : str, optional
        The function's; by default ``default_function``.
    """
    if not isinstance(inputs, Schedule):
        return _build_by_tvm(inputs, args if target is None else target, **options)
    if not isinstance(args, Sequence) or isinstance(args, str):
        raise ModelError("a schedule is built with the tensors that its function takes: build(schedule, [A, B, C])")
    if binds:
        raise OptionError("binds: buffers are made for tensors; tvm.tirx.decl_buffer in a function of TIR places them")
    if runtime is not None and not isinstance(runtime, Runtime):
        raise OptionError(f"runtime: expected a Runtime, got {type(runtime).__name__}")
    symbol = name or "default_function"
    plan = canonical_target(target or Target.current() or "llvm", target_host)
    function = te.create_prim_func(list(args)).with_attr("global_symbol", symbol)
    functions = tvm.IRModule({symbol: function})
    given = target if isinstance(target, Target) else plan.primary
    return OperatorModule(tvm.tirx.build(functions, plan.primary), symbol, {given: functions})
