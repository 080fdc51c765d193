"""``tvm.autotvm.task``: the kernels of a model that there is more than one way to schedule, as AutoTVM's tasks.

A task of AutoTVM was a template with arguments, and a space of configurations to search. Here it is a kernel as
schedule rules get it, and the decisions that its rule could take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvm.target import Target
from tvm.tirx.buffer import is_buffer_var

from ..errors import UnavailableError
from ..schedule.scheduling import scheduling
from ..target import canonical_target
from ..tuning import Kernel, kernels_of
from .gone import GONE_MODULES, gone, modules_below

if TYPE_CHECKING:
    import tvm

__all__ = ["Task", "args_to_workload", "create", "extract_from_multiple_program", "extract_from_program", "get_config"]


class Task:
    """A kernel to tune.

    Parameters
    ----------
    name : str
        What the compiler calls it.
    args : sequence
        What it takes: ``("TENSOR", shape, dtype)`` for a tensor, of which a size that is not known is a name.
    kernel, target : optional
        What schedule rules get; a task that is made by its name and arguments has none, and cannot be tuned.

    Attributes
    ----------
    workload : tuple
        The name and the arguments.
    kwargs : dict
        Nothing, as in AutoTVM.
    """

    def __init__(
        self, name: str, args: Sequence[Any], kernel: Kernel | None = None, target: Target | None = None
    ) -> None:
        self.name, self.args = name, args
        self.kwargs: dict[str, Any] = {}
        self._kernel, self._target = kernel, target

    @property
    def workload(self) -> tuple[Any, ...]:
        """The name and the arguments."""
        return (self.name, *self.args)

    @property
    def kernel(self) -> Kernel:
        """What schedule rules get."""
        if self._kernel is None:
            raise UnavailableError(
                f"the task {self.name!r} was made by its name, but kernels come of models: extract_from_program"
            )
        return self._kernel

    @property
    def target(self) -> Target:
        """What it is tuned for."""
        if self._target is None:
            raise UnavailableError(f"the task {self.name!r} was made by its name, and has no target")
        return self._target

    @property
    def config_space(self) -> list[Any] | None:
        """The decisions that its rule could take; None for a task that was made by its name."""
        if self._kernel is None:
            return None
        schedule = scheduling(self.target).prepared(self._kernel.function)
        assert schedule is not None  # one that a rule applies to
        return list(dict.fromkeys(self._kernel.rule.candidates(schedule, self.target)))

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def extract_from_program(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: str | Target,
    target_host: str | Target | None = None,
    ops: Iterable[Any] | None = None,
) -> list[Task]:
    """Return the kernels of a model that there is more than one way to schedule.

    Parameters
    ----------
    mod, params
        The model, and arrays to bind to parameters of ``main``.
    target, target_host
        What to compile for; see :func:`vmkit.target.canonical_target`.
    ops : iterable of Op, optional
        Operators, such as ``relay.op.get("nn.dense")``; only kernels are returned whose names have that of one, here
        ``dense``. By default all.
    """
    plan = canonical_target(target, target_host).primary
    named = None if ops is None else [str(getattr(op, "name", op)).rpartition(".")[2] for op in ops]
    kernels = kernels_of(mod, plan, params)
    return [_task(each, plan) for each in kernels if named is None or any(name in each.name for name in named)]


def extract_from_multiple_program(
    mods: Sequence[tvm.IRModule],
    params: Sequence[Mapping[str, Any] | None],
    target: str | Target,
    target_host: str | Target | None = None,
    ops: Iterable[Any] | None = None,
) -> list[Task]:
    """Return the kernels of several models, each kernel once; see :func:`extract_from_program`."""
    chosen = None if ops is None else list(ops)
    found: dict[Any, Task] = {}
    for mod, own in zip(mods, params, strict=True):
        for task in extract_from_program(mod, own, target, target_host, chosen):
            found.setdefault(task.kernel.workload, task)
    return list(found.values())


def _task(kernel: Kernel, target: Target) -> Task:
    tensors = [param.ty for param in kernel.function.params if is_buffer_var(param)]
    args = [("TENSOR", tuple(_size(size) for size in each.shape), str(each.dtype)) for each in tensors]
    return Task(kernel.name, args, kernel, target)


def _size(size: Any) -> int | str:  # noqa: ANN401 - of TIR
    return int(size) if hasattr(size, "value") else str(size)


_INSTEAD, _ = GONE_MODULES["tvm.autotvm.task.space"]
create, args_to_workload, get_config = (
    gone(f"tvm.autotvm.task.{name}", _INSTEAD) for name in ("create", "args_to_workload", "get_config")
)


__getattr__ = modules_below("tvm.autotvm.task", __all__, ("dispatcher", "relay_integration"))
