"""A program that is loaded: TVM's virtual machine, and what every call of it shares."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import tvm
from tvm.runtime import Device, Tensor

from ..errors import VMError
from ..executable.executable import Executable
from ..stack import MACHINE_STACK_BYTES, DeepThread
from ..values.conversion import Release, holds_adt
from ..values.texts import ProgramTexts, Texts, open_call
from .failures import explain_failure, useful_line
from .limits import CANCELLED, Limits, RunState, Stopper
from .polling import FLAG, STATE
from .stack_guard import guard_this_thread
from .start import started
from .threads import call_with_threads

if TYPE_CHECKING:
    from ..values.kinds.value import RuntimeValue, Staged

__all__ = ["Instance", "NeedsDeepThread"]

_WORDS = 1 << 13  # how many texts of calls a program keeps for the next ones


class NeedsDeepThread(Exception):
    """A call needs a thread of its own with a deep stack; nothing was called yet."""


class Instance:
    """TVM's virtual machine with an executable loaded.

    Parameters
    ----------
    executable, devices, memory_cfg
        See :func:`vmkit.runtime.start.started`.
    check_inputs
        Whether calls compare their inputs with the signature.
    num_threads
        The most threads that a call uses.
    limits
        What calls may take.
    """

    def __init__(
        self,
        executable: Executable,
        devices: Sequence[Device],
        memory_cfg: str | Mapping[Device | str, str] | None,
        check_inputs: bool,
        num_threads: int,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.module: tvm.runtime.Module = started(
            executable, devices, memory_cfg, self.limits, several_threads=num_threads > 1
        )
        self.devices = tuple(devices)
        self.device = devices[0]
        self.check_inputs = check_inputs
        self.num_threads = num_threads
        # TVM's VM is one stack of frames: calls take turns.
        self.lock = threading.RLock()
        # What ends its long kernel groups, if it has some, and runs of a program that can be ended anywhere.
        has_state, is_polled = map(self.module.implements_function, (STATE, FLAG))
        self.state = RunState(self.module[STATE](), self.lock) if has_state else None
        self.stopper = Stopper(self.module[FLAG](), self.limits.timeout, self.state) if is_polled else None
        self.deep: DeepThread | None = None
        # The texts of the program's constants and those that come again in its calls, if it has strings at all.
        constants = executable.info.texts
        self.texts: ProgramTexts | None = None
        if constants is not None:
            self.texts = ProgramTexts(constants, _WORDS, executable.info.text_numbers or "digests")
        self._checks = executable.info.checks
        self._stack_bytes = self.limits.stack_bytes or executable.info.stack_bytes or MACHINE_STACK_BYTES
        # A call that can be ended runs elsewhere, so that its caller can be interrupted.
        if executable.needs_deep_stack or self.stopper is not None:
            self.go_deep()

    def go_deep(self) -> None:
        """Have calls run on a thread of their own with a deep stack, on which runaway recursion is an error."""
        thread = DeepThread(self._stack_bytes)
        thread.call(guard_this_thread, thread.stack_bytes)
        self.deep = thread

    @property
    def release(self) -> Release | None:
        """What drops nested values where the stack is deep enough; None for calls on an ordinary one."""
        return self.deep.release if self.deep is not None else None

    def open_texts(self) -> AbstractContextManager[Texts | None]:
        """Return a context with the table of a call's texts, for a program that has strings."""
        return nullcontext() if self.texts is None else open_call(self.texts)

    def refuse_nested(self, values: Sequence[Staged]) -> None:
        """Raise :class:`NeedsDeepThread` if values may nest deeper than the stack on which they would be dropped."""
        if self.deep is None and any(holds_adt(value) for value in values):
            raise NeedsDeepThread

    def run(self, function: Callable[..., RuntimeValue], values: list[RuntimeValue] | list[Tensor]) -> RuntimeValue:
        """Return the result of a function of the program, with the kernels on the threads that calls may use."""
        if self.deep is None:
            return self._locked(function, values)
        if self.deep.is_lost:
            self.go_deep()
        if self.texts is not None:
            # The call's texts are a variable of this thread.
            return self._deep_call(self.deep, copy_context().run, self._locked_and_dropped, function, values)
        return self._deep_call(self.deep, self._locked_and_dropped, function, values)

    def _deep_call(self, deep: DeepThread, *job: Any) -> RuntimeValue:
        return deep.call(*job) if self.stopper is None else self.stopper.call(deep, *job)

    def _locked(self, function: Callable[..., RuntimeValue], values: list[RuntimeValue] | list[Tensor]) -> RuntimeValue:
        with self.lock:
            return call_with_threads(self.num_threads, function, values)

    def _locked_and_dropped(
        self, function: Callable[..., RuntimeValue], values: list[RuntimeValue] | list[Tensor]
    ) -> RuntimeValue:
        # The deep thread takes the lock itself: a function called by the program may call the machine again.
        try:
            return self._locked(function, values)
        finally:
            # Long lists are dropped here, where the stack is deep enough to drop them.
            values.clear()

    def cancel(self) -> None:
        """End the call that runs now, and those that wait, where the program looks whether to go on."""
        ends = self.stopper or self.state
        if ends is not None:
            ends.cancel()

    def explained(self, name: str, error: Exception) -> VMError:
        """Return the error of a function that failed, with the message of the check that did."""
        if useful_line(error) == CANCELLED:
            return VMError(CANCELLED)
        return VMError(f"{name} failed: {explain_failure(str(error), self._checks) or useful_line(error)}")
