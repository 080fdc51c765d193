"""Running an executable on a device, under the interface that Relay's virtual machine had."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import tvm
from tvm.runtime import Device, Tensor
from tvm.runtime.module import BenchmarkResult

from ..errors import InputError, VMError, suggest
from ..executable.executable import Executable
from ..target.devices import device as one_device
from ..target.devices import devices as all_devices
from ..target.devices import devices_for
from ..values import images  # noqa: F401 - registers what a program calls to decode an image
from ..values.conversion import to_numpy
from ..values.signature import AnySpec, Signature
from .calls import Call, Entry, call_of, entry_of
from .inputs import Inputs
from .instance import Instance, NeedsDeepThread
from .limits import Limits
from .outputs import GivenOutputs, Targets, copy_outputs
from .threads import PoolTooSmall, checked_threads, default_threads

if TYPE_CHECKING:
    import tvm_ffi

    from ..values.kinds.value import Given, Result

__all__ = ["VirtualMachine"]

T = TypeVar("T")


class _NotPicklable(VMError, TypeError):
    """As pickle has it, a TypeError."""


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
        ``"cpu"``, ``"cuda:1"``, a TVM device, or a list with at most one of each kind; the CPU is always added. A
        program that was compiled for several devices takes a list of all of them; its inputs go to the first, and
        it copies what another computes with.
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
    timeout
        How many seconds a call may take; VMError once it took longer. Looked at between kernels, in every iteration of
        a loop and at every level of a recursion, so that a kernel is not cut off. By default a call may take any
        time. On a GPU there is none.
    stack_bytes
        The stack of the thread on which a recursive program runs, in bytes: a deeper recursion is a VMError.
    max_memory
        The bytes that results and intermediate values may take at one time, those of earlier calls that are still there
        and of the last one included, inputs and weights not: a VMError before more is allocated. What has a size that
        only the run knows counts up to a quarter more. Counting takes some microseconds for each allocation. By default
        as much as there is.

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
        device: str | Device | Sequence[str | Device] = "cpu",
        memory_cfg: str | Mapping[Device | str, str] | None = None,
        *,
        check_inputs: bool = True,
        num_threads: int | None = None,
        timeout: float | None = None,
        stack_bytes: int | None = None,
        max_memory: int | None = None,
    ) -> None:
        self.executable = exe if isinstance(exe, Executable) else Executable.from_module(exe)
        wanted = self.executable.info.devices
        self.devices: list[Device] = all_devices(device) if wanted is None else devices_for(device, wanted)
        self.check_inputs = check_inputs
        self.num_threads = (
            default_threads(self.executable.number_of_cores) if num_threads is None else checked_threads(num_threads)
        )
        self._instance = Instance(
            self.executable,
            self.devices,
            memory_cfg,
            check_inputs,
            self.num_threads,
            Limits.of(timeout, stack_bytes, max_memory),
        )
        self._memory_cfg = memory_cfg
        self._given_outputs: dict[str, GivenOutputs | None] = {}
        self._outputs: list[Result] | None = None
        names = self.executable.globals
        self._choose_calls({name: entry_of(self.executable, name, self._instance) for name in names})

    @property
    def module(self) -> tvm.runtime.Module:
        """TVM's virtual machine, which has the functions by name."""
        return self._instance.module

    def _choose_calls(self, entries: Mapping[str, Entry]) -> None:
        self._calls: dict[str, Call] = {name: call_of(entry, self._instance) for name, entry in entries.items()}
        self._main = self._calls.get("main")

    def _go_deep(self) -> None:
        self._instance.go_deep()
        self._choose_calls({name: call.entry for name, call in self._calls.items()})

    def _deep_if_needed(self, action: Callable[[], T]) -> T:
        """Return what an action returns, which is tried again on a deep thread if it needs one."""
        try:
            return action()
        except (PoolTooSmall, NeedsDeepThread):
            self._go_deep()
        return action()

    def __reduce__(self) -> NoReturn:
        raise _NotPicklable(
            "a VirtualMachine cannot be pickled: it is memory and threads of this process; pickle machine.executable, "
            "and make a machine of it there"
        )

    def __del__(self) -> None:
        # TVM's VM keeps its last result: it has to go where the stack is deep enough to drop a long list.
        instance = self.__dict__.get("_instance")
        deep = instance.deep if instance is not None else None
        del instance
        if deep is not None:
            owned = list(self.__dict__.values())
            self.__dict__.clear()
            deep.release(owned)

    def run(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return what ``main`` returns for these inputs, or for those that were set before if none are given."""
        try:
            return (self._main or self._find("main")).call(args, kwargs)
        except (PoolTooSmall, NeedsDeepThread):
            self._go_deep()
        return self._find("main").call(args, kwargs)

    __call__ = run

    def cancel(self) -> None:
        """End the call that runs now, and those that wait for it, from another thread: each is a VMError there.

        A program ends at its next iteration or level of recursion; one that has none of them and no `timeout` runs to
        its end, which it comes to.
        """
        self._instance.cancel()
        for given in self._given_outputs.values():
            if given is not None:
                given.cancel()

    def invoke(self, func_name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Return what the function `func_name` returns; inputs as for :meth:`run`."""
        try:
            return self._find(func_name).call(args, kwargs)
        except (PoolTooSmall, NeedsDeepThread):
            self._go_deep()
        return self._find(func_name).call(args, kwargs)

    def set_input(self, func_name: str, /, *args: Any, **kwargs: Any) -> None:
        """Set all inputs of a function; they stay set. Arrays are copied, tensors on the device are not."""
        entry = self._find(func_name).entry
        bound = entry.signature.bind(args, kwargs)
        self._deep_if_needed(lambda: entry.inputs.set_all(bound))

    def set_one_input(self, func_name: str, /, *args: Any, **kwargs: Any) -> None:
        """Set one input: ``set_one_input("main", "x", value)``, ``("main", 0, value)`` or ``("main", x=value)``."""
        entry = self._find(func_name).entry
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
        self._deep_if_needed(lambda: entry.inputs.set_one(index, value))

    def invoke_stateful(self, func_name: str, /, *args: Any, **kwargs: Any) -> None:
        """Call a function and keep its result for :meth:`get_outputs`."""
        result = self.invoke(func_name, *args, **kwargs)
        self._outputs = list(result) if isinstance(result, tuple) else [result]

    def get_outputs(self) -> list[Any]:
        """Return the result of the last :meth:`invoke_stateful`: the fields of a tuple, or a list of one."""
        if self._outputs is None:
            raise VMError("there are no outputs yet, call invoke_stateful first")
        return list(self._outputs)

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Return the position of an input, or -1 if there is none of that name."""
        names = self._find(func_name).entry.signature.names
        return names.index(input_name) if input_name in names else -1

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any] | None, output_args: Sequence[Tensor]
    ) -> None:
        """Call a function that leaves its results in the caller's tensors.

        The program writes there itself, without a copy, what it allocates else, if the tensor begins at a multiple of
        64 bytes, as TVM's do, and shares no memory with an input. What it returns in another way, such as an input or a
        constant, is copied.

        Parameters
        ----------
        input_args
            Inputs by name; None for those that were set before.
        output_args
            One tensor per output, of its dtype and shape.

        Raises
        ------
        InputError
            If a tensor does not fit; what is in the others is not known then.
        """
        self.invoke_into(func_name, (), input_args or {}, output_args)

    def invoke_into(
        self, func_name: str, args: Sequence[Any], kwargs: Mapping[str, Any], targets: Targets
    ) -> tuple[Any, ...]:
        """Return the results of a function as a tuple, those for which there is a target in it.

        Parameters
        ----------
        args, kwargs
            Inputs by position and by name; without any, those that were set.
        targets
            As for :meth:`invoke_with_outputs`; None for a result that is wanted as it is.
        """
        result = self._invoked_into(func_name, args, kwargs, targets)
        copy_outputs(result, targets)
        results = result if isinstance(result, tuple) else (result,)
        return tuple([own if own is not None else each for own, each in zip(targets, results, strict=True)])

    def _invoked_into(self, func_name: str, args: Sequence[Any], kwargs: Mapping[str, Any], targets: Targets) -> Result:
        if func_name not in self._given_outputs:
            entry = self._find(func_name).entry
            self._given_outputs[func_name] = GivenOutputs.of(self.executable, entry, self._instance, self._memory_cfg)
        given = self._given_outputs[func_name]
        if given is not None and self._instance.deep is None:
            try:
                return given.call(args, kwargs, targets)
            except (PoolTooSmall, NeedsDeepThread):
                pass  # as any call on a deep thread, whose results are copied
        result: Result = VirtualMachine.invoke(self, func_name, *args, **kwargs)
        return result

    def invoke_closure(self, closure: tvm_ffi.Object, *args: Any) -> Any:
        """Call a function value that a program returned. Its arguments are not checked against a signature."""
        signature = Signature("closure", tuple(AnySpec(f"arg{index}") for index in range(len(args))))
        function = partial(self.module["invoke_closure"], closure)
        entry = Entry(function, signature, Inputs(signature, self._instance))
        return self._deep_if_needed(lambda: call_of(entry, self._instance).call(args, {}))

    def benchmark(
        self,
        device: str | Device,
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
        entry = self._find(func_name).entry
        if end_to_end:
            return BenchmarkResult(self._time_calls(func_name, args, kwargs, repeat, number))
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
        return self._deep_if_needed(lambda: self._timed(timer, entry, args, kwargs))

    def _timed(
        self, timer: tvm_ffi.Function, entry: Entry, args: tuple[Given, ...], kwargs: dict[str, Given]
    ) -> BenchmarkResult:
        with self._instance.open_texts():
            if args or kwargs:
                values = entry.inputs.converted(entry.signature.bind(args, kwargs))
            else:
                values = entry.inputs.values_set()
            try:
                return self._instance.run(timer, values)
            except PoolTooSmall:
                raise
            except Exception as error:
                raise self._instance.explained(entry.signature.name, error) from error

    def _time_calls(
        self, func_name: str, args: tuple[Given, ...], kwargs: dict[str, Given], repeat: int, number: int
    ) -> list[float]:
        means = []
        for _ in range(repeat):
            begin = time.perf_counter()
            for _ in range(number):
                to_numpy(self.invoke(func_name, *args, **kwargs))
            means.append((time.perf_counter() - begin) / number)
        return means

    def _find(self, name: str) -> Call:
        call = self._calls.get(name)
        if call is None:
            close = suggest(name, self._calls) if isinstance(name, str) else ""
            raise InputError(f"Cannot find function {name} in the executable{close}; it has {_one_of(self._calls)}")
        return call


def _one_of(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
