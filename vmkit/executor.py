"""Relay's evaluator interface: an executor turns a module, or an expression over it, into something to call.

>>> from vmkit import relay
>>> x = relay.var("x", shape=(2,))
>>> executor = create_executor("vm", tvm.IRModule({"main": relay.Function([x], relay.add(x, x))}))
>>> executor.evaluate()([1.0, 2.0]).numpy()
array([2., 4.], dtype=float32)
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
import tvm
from tvm.runtime import Device, Tensor

from .compiler.vm_compiler import compile
from .errors import InputError, OptionError
from .executable.any_extents import of_any_extents
from .executable.executable import Executable
from .relay.ir import Constant, Expr, Function, GlobalVar, Let, RelayExpr, Tuple, Var, const, free_vars, with_functions
from .relay.params import bind_params
from .runtime.machine import VirtualMachine
from .target import canonical_target, device_name, device_type
from .target.devices import device as one_device
from .target.plan import Targets

__all__ = ["DebugExecutor", "Executor", "VMExecutor", "create_executor"]

V = TypeVar("V")
TargetLike: TypeAlias = Targets | None
"""What :func:`vmkit.target.canonical_target` takes: one target, or several, by device or in a list."""
DeviceLike: TypeAlias = str | Device | Sequence[str | Device]
Value: TypeAlias = np.ndarray | np.generic | Tensor | float | Constant
"""What :func:`vmkit.relay.const` makes a constant of."""
Values: TypeAlias = tuple[Value, ...] | list[Value]


class Executor(abc.ABC):
    """Base of the executors: binds arguments and decides what an expression means."""

    mod: tvm.IRModule

    @abc.abstractmethod
    def _make_executor(self, expr: Function | None = None) -> Callable[..., Any]:
        """Return a callable for ``main``, or for a function in its place."""

    def evaluate(self, expr: RelayExpr | None = None, binds: Mapping[Var, Value | Values] | None = None) -> Any:
        """Return what an expression evaluates to.

        Parameters
        ----------
        expr : relay.Function, GlobalVar or Expr, optional
            A function without free variables, or a global variable, gives a callable; so does None, for ``main``.
            Any other expression is run at once and its value returned.
        binds : mapping of Var to value, optional
            Values of free variables of `expr`.

        Returns
        -------
        callable or value
            The callable takes the function's arguments by position or name, as
            :meth:`vmkit.VirtualMachine.run` does, and also those of another data type or rank that can be converted
            without a loss, as Relay's executors did: see :meth:`vmkit.values.signature.Signature.fit`.
        """
        if binds:
            if expr is None:
                raise InputError("binds need an expression whose free variables they bind")
            for variable, value in binds.items():
                expr = Let(variable, _as_expr(value), expr)
        if expr is None:
            return self._make_executor()
        if isinstance(expr, Function):
            unbound = free_vars(expr)
            if unbound:
                names = ", ".join(f"%{v.name_hint}" for v in unbound)
                raise InputError(f"the function has free variables: {names}; bind them with binds")
            return self._make_executor(expr)
        if isinstance(expr, GlobalVar):
            return self._make_executor(self.mod[expr])
        return self._make_executor(Function([], expr))()


def _as_expr(value: Value | Values) -> Expr:
    """Return a Python value as an expression: tuples become tuples, everything else a constant."""
    if isinstance(value, tuple | list):
        return const(value) if _are_numbers(value) else Tuple([_as_expr(v) for v in value])
    return const(value)


def _are_numbers(values: Values) -> TypeGuard[Sequence[float]]:
    return all(isinstance(v, int | float | bool) for v in values)


class VMExecutor(Executor):
    """Compiles a module for the virtual machine when it is evaluated.

    Parameters
    ----------
    mod : tvm.IRModule
        The module; evaluating a function compiles a copy in which it is ``main``.
    device : Device, str or list of them
        Where to run.
    target : optional
        What to compile for; see :func:`vmkit.target.canonical_target`.

    Attributes
    ----------
    executable, vm : Executable, VirtualMachine
        What the last evaluation made; None before the first.
    """

    def __init__(self, mod: tvm.IRModule, device: DeviceLike = "cpu", target: TargetLike = None) -> None:
        if mod is None:
            raise RuntimeError("Must provide module to get VM executor.")
        self.mod = mod
        self.device = device
        self.target = target
        self.executable: Executable | None = None
        self.vm: VirtualMachine | None = None

    def _make_executor(self, expr: Function | None = None) -> Callable[..., Any]:
        mod = self.mod if expr is None else _with_main(self.mod, expr)
        self.executable = compile(mod, self.target)
        self.vm = VirtualMachine(of_any_extents(self.executable), self.device)
        run, signature = self.vm.run, self.executable.signature

        def call(*args: Any, **kwargs: Any) -> Any:
            return run(*signature.fit(signature.bind(args, kwargs)))

        return call


class DebugExecutor(VMExecutor):
    """The ``"debug"`` executor: Relay's interpreter, here the virtual machine itself. It takes constants as values."""

    def _make_executor(self, expr: Function | None = None) -> Callable[..., Any]:
        run = super()._make_executor(expr)

        def call(*args: Any, **kwargs: Any) -> Any:
            return run(*map(_value_of, args), **{name: _value_of(value) for name, value in kwargs.items()})

        return call


def _value_of(given: Tuple | Constant | V) -> V | Tensor | tuple[Any, ...]:
    if isinstance(given, Tuple):
        return tuple(map(_value_of, given.fields))
    return given.data if isinstance(given, Constant) else given


def _with_main(mod: tvm.IRModule, function: Function) -> tvm.IRModule:
    changed = with_functions(mod)
    changed["main"] = function
    return changed


_KINDS: dict[str, type[VMExecutor]] = {"vm": VMExecutor, "debug": DebugExecutor}
_GONE = {
    "graph": "the graph executor is gone from TVM; use kind='vm', which runs static models as well",
    "aot": "ahead-of-time C code is not an executor here; use kind='vm'",
}


def allow_static_executors(executor: type[VMExecutor]) -> None:
    """Let the kinds ``"graph"`` and ``"aot"``, which are gone, mean an executor of the caller's."""
    for kind in list(_GONE):
        del _GONE[kind]
        _KINDS[kind] = executor


def create_executor(
    kind: str = "debug",
    mod: tvm.IRModule | None = None,
    device: DeviceLike | None = None,
    target: TargetLike = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Executor:
    """Return an executor of a kind, with Relay's signature.

    Parameters
    ----------
    kind : {"debug", "vm"}
        Which executor.
    mod : tvm.IRModule, optional
        The module; an empty one by default.
    device : Device or str, optional
        Where to run; by default the device that `target` is for.
    target : optional
        What to compile for.
    params : mapping, optional
        Arrays bound to parameters of ``main`` by name.

    Raises
    ------
    OptionError
        For an unknown kind.
    """
    if kind not in _KINDS:
        reason = _GONE.get(kind, f"expected one of {', '.join(map(repr, _KINDS))}")
        raise OptionError(f"unknown execution strategy: {kind}; {reason}")
    mod = mod if mod is not None else tvm.IRModule({})
    if params:
        mod = bind_params(mod, params)
    plan = canonical_target(target)
    if device is None:
        device = device_name(device_type(plan.primary))
    elif isinstance(device, str | Device):
        device = one_device(device)
    return _KINDS[kind](mod, device, plan)
