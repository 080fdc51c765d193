"""Running an executable on a device, under the interface that Relay's virtual machine had."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm.runtime import Device, Tensor
from tvm.runtime.module import BenchmarkResult

from ..bytecode import checked_parameters
from ..errors import InputError, VMError, suggest
from ..executable.executable import Executable
from ..relax.alignment import ELEMENTS, element_bytes
from ..stack import MACHINE_STACK_BYTES, DeepThread
from ..target.devices import device as one_device
from ..target.devices import devices as all_devices
from ..values import images  # noqa: F401 - registers what a program calls to decode an image
from ..values.conversion import (
    ADT,
    Release,
    from_runtime,
    holds_adt,
    holds_strings,
    to_numpy,
    to_runtime,
)
from ..values.host_memory import ALIGNMENT, Scratch, readable
from ..values.signature import AnySpec, Signature, Spec, TensorSpec, TupleSpec
from ..values.texts import Texts, open_call
from .failures import explain_failure, useful_line
from .stack_guard import guard_this_thread
from .start import started
from .threads import PoolTooSmall, call_with_threads, checked_threads, default_threads

__all__ = ["VirtualMachine"]

_MISSING = object()


@dataclass
class _Entry:
    """A function of the executable, ready to be called."""

    function: Any
    signature: Signature
    arity: int
    is_direct: bool = False
    """Whether arrays and tensors go to the function as they are, which checks itself what the signature declares."""
    stored: list[Any] | None = None
    """Inputs that stay set: the checked values, and the same as the runtime takes them."""
    runtime: list[Any] = field(default_factory=list)
    alignments: tuple[int, ...] = ()
    """What its kernels expect of the addresses of its inputs, in bytes."""
    restored: Spec | None = None
    """What it returns, if a tensor in that is of a type that is stored as another."""
    scratch: tuple[Scratch, ...] = ()
    """Memory for copies of arrays that are not aligned, by input."""


class VirtualMachine:
    """Runs the functions of an executable.

    Results are TVM tensors, tuples of them, and :class:`~vmkit.ADT` values; ``numpy.from_dlpack(result)`` reads one
    without a copy. An aligned numpy array is not copied on its way in either, so a result that is the
    input itself shares the caller's memory.

    One machine may be called from several threads: TVM's VM is one stack of frames, so the calls take turns. For
    calls at the same time make one machine per thread from the same executable.

    Parameters
    ----------
    exe
        The executable, or a runtime module or ``relax.VMExecutable``, whose functions then are checked by the VM alone.
    device
        ``"cpu"``, ``"cuda:1"``, a TVM device, or a list with at most one of each kind; the CPU is always added.
    memory_cfg
        ``"pooled"`` (the default), ``"naive"``, or a dict from device to one of them.
    check_inputs
        Whether every call compares its inputs with the signature. Without the check, wrong inputs that the program
        itself does not check can crash the process.
    num_threads
        How many threads the kernels of a call may use, the caller's included. By default what ``TVM_NUM_THREADS``
        says, else one for each core that this process may use, and not more than the ``-num-cores`` that the program
        was compiled for. More than there are processors only if it is asked for here. With 1, kernels run in the
        caller's thread and no other is started or woken. Calls at the same time, of whatever machine, divide the
        processors among them.

    Attributes
    ----------
    num_threads : int
        The most threads that a call uses.

    Examples
    --------
    >>> import vmkit
    >>> from vmkit import relay
    >>> x = relay.var("x", shape=(relay.Any(),))
    >>> vm = VirtualMachine(vmkit.compile(relay.Function([x], relay.add(x, x)), target="llvm"))
    >>> vm.run([1.0, 2.0]).numpy()
    array([2., 4.], dtype=float32)
    """

    def __init__(
        self,
        exe: Executable | tvm.runtime.Module | tvm.runtime.Executable,
        device: Any = "cpu",
        memory_cfg: str | Mapping[Any, str] | None = None,
        *,
        check_inputs: bool = True,
        num_threads: int | None = None,
    ) -> None:
        self.executable = exe if isinstance(exe, Executable) else Executable.from_module(exe)
        self.devices: list[Device] = all_devices(device)
        self.check_inputs = check_inputs
        self.num_threads = (
            default_threads(self.executable.target) if num_threads is None else checked_threads(num_threads)
        )
        self.module = started(self.executable, self.devices, memory_cfg)
        self._device = self.devices[0]
        self._on_cpu = self._device == tvm.cpu()
        self._checks = self.executable.info.checks
        # The texts of the program's constants, if it has strings at all.
        texts = self.executable.info.texts
        self._texts = None if texts is None else Texts.of(texts)
        self._lock = threading.RLock()
        self._outputs: Any = _MISSING
        self._deep: DeepThread | None = None
        if self.executable.needs_deep_stack:
            self._deep = _deep_thread(self.executable)
        self._entries = {name: self._entry(name) for name in self.executable.globals}
        self._main = self._entries.get("main")

    def _entry(self, name: str) -> _Entry:
        signature = self.executable.signatures[name]
        scratch = tuple(Scratch() for _ in signature.inputs)
        direct = self._on_cpu and signature.is_flat and not any(spec.is_restored for spec in signature.inputs)
        direct = direct and (not self.check_inputs or self._is_checked(name, signature))
        alignments = tuple(self._alignment(spec) for spec in signature.inputs)
        return _Entry(
            self.module[name],
            signature,
            len(signature.inputs),
            direct,
            alignments=alignments,
            restored=_restored_result(signature),
            scratch=scratch,
        )

    def _alignment(self, spec: Spec) -> int:
        if self.executable.info.alignment == ELEMENTS and isinstance(spec, TensorSpec):
            return element_bytes(spec.dtype)
        return ALIGNMENT

    def _is_checked(self, name: str, signature: Signature) -> bool:
        """Tell whether a function checks by itself all that its signature declares."""
        program = self.executable.program
        checked = checked_parameters(program, program.function(name))
        return signature.is_implied_by([checked.get(position) for position in range(len(signature.inputs))])

    def __del__(self) -> None:
        # TVM's VM keeps its last result: it has to go where the stack is deep enough to drop a long list.
        deep = self.__dict__.get("_deep")
        if deep is not None:
            owned = list(self.__dict__.values())
            self.__dict__.clear()
            deep.release(owned)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Return what ``main`` returns for these inputs, or for those that were set before if none are given."""
        return self._call(self._main or self._find("main"), args, kwargs)

    __call__ = run

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """Return what the function `func_name` returns; inputs as for :meth:`run`."""
        return self._call(self._find(func_name), args, kwargs)

    def _call(self, entry: _Entry, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if self._texts is not None:
            with open_call(self._texts):
                return self._converted_call(entry, args, kwargs)
        return self._converted_call(entry, args, kwargs)

    def _converted_call(self, entry: _Entry, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if kwargs or len(args) != entry.arity:
            if not args and not kwargs:
                return self._execute(entry, self._stored(entry))
            args = entry.signature.bind(args, kwargs)
        if entry.is_direct and self._deep is None:
            values = readable(args, entry.alignments, entry.scratch)
            if values is not None:
                return self._execute(entry, values, args)
        return self._execute(entry, [to_runtime(value, self._device) for value in self._staged(entry, args)])

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set all inputs of a function; they stay set. Arrays are copied, tensors on the device are not."""
        entry = self._find(func_name)
        entry.stored = self._staged(entry, entry.signature.bind(args, kwargs))
        entry.runtime = [self._kept(value) for value in entry.stored]

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set one input: ``set_one_input("main", "x", value)``, ``("main", 0, value)`` or ``("main", x=value)``."""
        entry = self._find(func_name)
        names = entry.signature.names
        if len(args) == 2 and not kwargs:
            tag, value = args
        elif len(kwargs) == 1 and not args:
            tag, value = next(iter(kwargs.items()))
        else:
            raise InputError("set_one_input takes one input: a name or an index and a value, or name=value")
        index = tag if isinstance(tag, int) else self.get_input_index(tag, func_name)
        if not 0 <= index < len(names):
            raise InputError(f"{func_name} has no input {tag!r}, expected {_one_of(names)}{suggest(str(tag), names)}")
        spec = entry.signature.inputs[index]
        refused: dict[str, str] = {}
        staged = spec.stage(value, spec.name, refused)
        Signature(func_name, (spec,)).check([staged], refused)
        if entry.stored is None:
            entry.stored, entry.runtime = [_MISSING] * len(names), [_MISSING] * len(names)
        entry.stored[index] = staged
        entry.runtime[index] = self._kept(staged)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Call a function and keep its result for :meth:`get_outputs`."""
        self._outputs = self.invoke(func_name, *args, **kwargs)

    def get_outputs(self) -> list[Any]:
        """Return the result of the last :meth:`invoke_stateful`: the fields of a tuple, or a list of one."""
        if self._outputs is _MISSING:
            raise VMError("there are no outputs yet, call invoke_stateful first")
        return list(self._outputs) if isinstance(self._outputs, tuple) else [self._outputs]

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Return the position of an input, or -1 if there is none of that name."""
        names = self._find(func_name).signature.names
        return names.index(input_name) if input_name in names else -1

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any] | None, output_args: Sequence[Tensor]
    ) -> None:
        """Call a function and copy its results into the caller's tensors.

        Parameters
        ----------
        input_args
            Inputs by name; None for those that were set before.
        output_args
            One tensor per output, of its dtype and shape.
        """
        result = self.invoke(func_name, **(input_args or {}))
        outputs = list(result) if isinstance(result, tuple) else [result]
        _check_outputs(outputs, output_args)
        for output, target in zip(outputs, output_args, strict=True):
            output.copyto(target)

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Call a function value that a program returned. Its arguments are not checked against a signature."""
        if self._texts is not None:
            with open_call(self._texts):
                return self._called_closure(closure, args)
        return self._called_closure(closure, args)

    def _called_closure(self, closure: Any, args: Sequence[Any]) -> Any:
        refused: dict[str, str] = {}
        signature = Signature("closure", tuple(AnySpec(f"arg{index}") for index in range(len(args))))
        staged = [one.stage(arg, one.name, refused) for arg, one in zip(args, signature.inputs, strict=True)]
        signature.check(staged, refused)
        values = [closure, *(to_runtime(value, self._device) for value in staged)]
        return self._execute(_Entry(self.module["invoke_closure"], signature, len(values)), values)

    def benchmark(
        self,
        device: Any,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Return the seconds that a call takes, as `repeat` means of `number` calls each.

        With `end_to_end` each call also converts and copies its inputs and copies its results to numpy.
        """
        entry = self._find(func_name)
        if end_to_end:
            return BenchmarkResult(self._time_calls(entry, args, kwargs, repeat, number))
        timer = self.module.time_evaluator(
            func_name,
            one_device(device),
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms or 0,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )
        with nullcontext() if self._texts is None else open_call(self._texts):
            values = self._prepare(entry, args, kwargs) if args or kwargs else self._stored(entry)
            try:
                return self._run(timer, values)
            except Exception as error:
                raise self._explained(entry, error) from error

    def _time_calls(
        self, entry: _Entry, args: tuple[Any, ...], kwargs: dict[str, Any], repeat: int, number: int
    ) -> list[float]:
        means = []
        for _ in range(repeat):
            begin = time.perf_counter()
            for _ in range(number):
                to_numpy(self._call(entry, args, kwargs))
            means.append((time.perf_counter() - begin) / number)
        return means

    def _find(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            close = suggest(name, self._entries) if isinstance(name, str) else ""
            raise InputError(f"Cannot find function {name} in the executable{close}; it has {_one_of(self._entries)}")
        return entry

    def _prepare(self, entry: _Entry, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a call as checked runtime values."""
        bound = entry.signature.bind(args, kwargs)
        return [to_runtime(value, self._device) for value in self._staged(entry, bound)]

    def _kept(self, staged: Any) -> Any:
        """Return a staged value for the runtime, to be kept: with no memory of the caller's, and safe to drop."""
        if holds_strings(staged):
            return _MISSING  # what stands for a text is known in a call alone
        value = to_runtime(staged, self._device, share=False)
        return ADT.from_runtime(value, self._release) if isinstance(staged, ADT) else value

    def _staged(self, entry: _Entry, bound: Sequence[Any]) -> list[Any]:
        refused: dict[str, str] = {}
        specs = entry.signature.inputs
        staged = [spec.stage(value, spec.name, refused) for value, spec in zip(bound, specs, strict=True)]
        if self.check_inputs or refused:
            entry.signature.check(staged, refused)
        if self._deep is None and any(holds_adt(value) for value in staged):
            self._deep = _deep_thread(self.executable)
        return staged

    def _stored(self, entry: _Entry) -> list[Any]:
        if entry.stored is None:
            if entry.arity == 0:
                return []
            raise InputError(f"Input has not been set for function {entry.signature.name}: {entry.signature}")
        stored = list(entry.stored)
        missing = [name for name, value in zip(entry.signature.names, stored, strict=True) if value is _MISSING]
        if missing:
            raise InputError(
                "The number of provided parameters doesn't match the number of arguments: "
                f"{', '.join(missing)} not set for {entry.signature}"
            )
        if self.check_inputs:
            entry.signature.check(stored)
        pairs = zip(stored, entry.runtime, strict=True)
        values = [to_runtime(staged, self._device) if kept is _MISSING else kept for staged, kept in pairs]
        return [value.runtime if isinstance(value, ADT) else value for value in values]

    def _execute(self, entry: _Entry, values: list[Any], unchecked: Sequence[Any] | None = None) -> Any:
        """Return the result of a call; `unchecked` are its inputs where only the function itself has checked them."""
        try:
            if self._deep is None:
                # As _run does it, without the cost of one more call.
                with self._lock:
                    result = call_with_threads(self.num_threads, entry.function, values)
            else:
                result = self._run(entry.function, values)
        except PoolTooSmall:
            self._deep = _deep_thread(self.executable)
            return self._execute(entry, values, unchecked)
        except Exception as error:
            if unchecked is not None and self.check_inputs:
                entry.signature.check(unchecked)
            raise self._explained(entry, error) from error
        if entry.restored is not None:
            return entry.restored.from_runtime(result, self._release)
        if type(result) is Tensor:
            return result
        return from_runtime(result, self._release)

    @property
    def _release(self) -> Release | None:
        return self._deep.release if self._deep is not None else None

    def _run(self, function: Any, values: list[Any]) -> Any:
        if self._deep is None:
            return self._locked(function, values)
        if self._texts is not None:
            # The call's texts are a variable of this thread.
            return self._deep.call(copy_context().run, self._locked_and_dropped, function, values)
        return self._deep.call(self._locked_and_dropped, function, values)

    def _explained(self, entry: _Entry, error: Exception) -> VMError:
        reason = explain_failure(str(error), self._checks) or useful_line(error)
        return VMError(f"{entry.signature.name} failed: {reason}")

    def _locked(self, function: Any, values: list[Any]) -> Any:
        with self._lock:
            return call_with_threads(self.num_threads, function, values)

    def _locked_and_dropped(self, function: Any, values: list[Any]) -> Any:
        # The deep thread takes the lock itself: a function called by the program may call the machine again.
        try:
            return self._locked(function, values)
        finally:
            # Long lists are dropped here, where the stack is deep enough to drop them.
            values.clear()


def _restored_result(signature: Signature) -> Spec | None:
    """Return what a function returns if a tensor in it is of a type that is stored as another."""
    result = TupleSpec("", signature.outputs) if signature.result_is_tuple else (*signature.outputs, AnySpec(""))[0]
    return result if result.is_restored else None


def _deep_thread(executable: Executable) -> DeepThread:
    """Return a thread for calls of `executable`, on which runaway recursion is an error."""
    thread = DeepThread(executable.info.stack_bytes or MACHINE_STACK_BYTES)
    thread.call(guard_this_thread, thread.stack_bytes)
    return thread


def _check_outputs(outputs: Sequence[Any], targets: Sequence[Any]) -> None:
    if len(outputs) != len(targets):
        raise InputError(
            "Number of outside output tensors should be equal to model outputs number: "
            f"{len(targets)} given, {len(outputs)} returned"
        )
    for index, (output, target) in enumerate(zip(outputs, targets, strict=True)):
        if not isinstance(target, Tensor) or not isinstance(output, Tensor):
            raise InputError(f"output {index}: expected a tensor to copy to and one to copy from, got {type(target)}")
        inside, outside = tuple(output.shape), tuple(target.shape)
        if str(output.dtype) != str(target.dtype):
            what = "Data types mismatching for internal and external output tensors"
            raise InputError(f"{what}: output {index} is {output.dtype}, the tensor given is {target.dtype}")
        if int(np.prod(inside)) != int(np.prod(outside)):
            what = "Element number mismatching of internal and external output tensors"
            raise InputError(f"{what}: output {index} has shape {inside}, the tensor given {outside}")
        if inside != outside:
            what = "Internal and external output tensor shapes are mismatched"
            raise InputError(f"{what}: output {index} has shape {inside}, the tensor given {outside}")


def _one_of(names: Any) -> str:
    return ", ".join(names) or "none"
