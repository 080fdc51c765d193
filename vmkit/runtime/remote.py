"""A program on another machine, called through TVM's RPC.

The program goes there as a shared library: ``executable.mod.export_library``, ``session.upload``,
``session.load_module``; :func:`send` does that, also for an executable out of a file. The
server needs TVM, not vmkit. A server runs whatever code it is sent and writes whatever files it is told to, for
everyone who reaches its port: it belongs in a network of people who trust each other.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.rpc.base import RPC_SESS_MASK
from tvm.runtime import Device, Tensor
from tvm.runtime.module import BenchmarkResult

from ..errors import InputError, VMError, suggest
from ..executable.executable import Executable
from ..values.kinds.spec import describe
from ..values.signature import AnySpec, Signature
from ..values.staging import staged_any
from .outputs import copy_outputs

__all__ = ["RemoteMachine", "send"]


class RemoteMachine:
    """Runs the functions of an executable that an RPC session loaded.

    Arguments are tensors of the session's devices, which stay where they are, or arrays, numbers and tuples, which are
    sent; numbers become int32 or float32. Results are tensors there: ``result.numpy()`` fetches one. What a function
    takes is checked there, by the program itself.

    Parameters
    ----------
    module : tvm.runtime.Module
        What ``session.load_module`` returned.
    device : Device or list of Device
        The session's device, such as ``session.cpu()``; the CPU is always added.
    memory_cfg : optional
        As for :class:`vmkit.VirtualMachine`.
    """

    def __init__(
        self,
        module: tvm.runtime.Module,
        device: Device | Sequence[Device],
        memory_cfg: str | dict[Device, str] | None = None,
    ) -> None:
        devices: list[Any] = list(device) if isinstance(device, list | tuple) else [device]
        if not all(isinstance(each, Device) and _session_of(each) for each in devices):
            raise InputError("the device of a module that an RPC session loaded is one of the session's: session.cpu()")
        self.device: Device = devices[0]
        self._machine = relax.VirtualMachine(module, devices, memory_cfg)
        self._set: dict[str, dict[str, Any]] = {}
        self._last: str | None = None

    @property
    def module(self) -> tvm.runtime.Module:
        """TVM's virtual machine on the other side."""
        return self._machine.module

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Return what ``main`` returns for these inputs, or for those that were set before if none are given."""
        return self.invoke("main", *args, **kwargs)

    __call__ = run

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """Return what the function `func_name` returns; inputs as for :meth:`run`."""
        self._call(func_name, self._values(func_name, args, kwargs))
        result = self._machine.get_outputs(func_name)
        return tuple(result) if isinstance(result, tuple | list) else result

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Call a function and leave its result there, for :meth:`get_outputs`."""
        self._call(func_name, self._values(func_name, args, kwargs))
        self._last = func_name

    def get_outputs(self) -> list[Any]:
        """Return the result of the last :meth:`invoke_stateful`: the fields of a tuple, or a list of one."""
        if self._last is None:
            raise VMError("there are no outputs yet, call invoke_stateful first")
        result = self._machine.get_outputs(self._last)
        return list(result) if isinstance(result, tuple | list) else [result]

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set all inputs of a function; they stay set."""
        names = self.parameters(func_name)
        self._set[func_name] = dict(zip(names, self._bound(func_name, args, kwargs), strict=True))

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set one input: ``set_one_input("main", "x", value)``, ``("main", 0, value)`` or ``("main", x=value)``."""
        if (len(args), len(kwargs)) not in ((2, 0), (0, 1)):
            raise InputError("set_one_input takes one input: a name or an index and a value, or name=value")
        tag, value = args if args else next(iter(kwargs.items()))
        names = self.parameters(func_name)
        if isinstance(tag, int) and 0 <= tag < len(names):
            tag = names[tag]
        if tag not in names:
            known = ", ".join(names) or "none"
            raise InputError(f"{func_name} has no input {tag!r}, expected {known}{suggest(str(tag), names)}")
        self._set.setdefault(func_name, {})[tag] = self._sent(value, tag)

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Return the position of an input, or -1 if there is none of that name."""
        names = self.parameters(func_name)
        return names.index(input_name) if input_name in names else -1

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any] | None, output_args: Sequence[Tensor]
    ) -> None:
        """Call a function and copy its results into tensors of the session's devices."""
        copy_outputs(self.invoke(func_name, **(input_args or {})), output_args)

    def benchmark(
        self,
        device: Device,
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
        """Return the seconds that a call takes there, as `repeat` means of `number` calls each.

        With `end_to_end` each call is timed here: inputs are sent and results fetched. `limit_zero_time_iterations` is
        of no use: TVM's machine has no limit of its own for calls that take no time.
        """
        if end_to_end:
            return BenchmarkResult([self._timed(number, func_name, args, kwargs) for _ in range(repeat)])
        timed = f"vmkit_timed_{func_name}"
        values = self._values(func_name, args, kwargs)
        self._machine.save_function(func_name, timed, *values, include_return=False)
        options = {
            **{"number": number, "repeat": repeat, "min_repeat_ms": min_repeat_ms or 0},
            **{"cooldown_interval_ms": cooldown_interval_ms, "repeats_to_cooldown": repeats_to_cooldown},
        }
        return self._machine.time_evaluator(timed, device, **options)()

    def _timed(self, number: int, func_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        begin = time.perf_counter()
        for _ in range(number):
            _fetched(self.invoke(func_name, *args, **kwargs))
        return (time.perf_counter() - begin) / number

    def _call(self, func_name: str, values: list[Any]) -> None:
        try:
            self._machine.set_input(func_name, *values)
            self._machine.invoke_stateful(func_name)
        except Exception as error:
            raise VMError(f"{func_name} failed on the other machine: {error}") from error

    def _values(self, func_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the values of a call, of those that were set if none are given."""
        if args or kwargs:
            return self._bound(func_name, args, kwargs)
        names, known = self.parameters(func_name), self._set.get(func_name, {})
        missing = [name for name in names if name not in known]
        if missing:
            raise InputError(f"Input has not been set for function {func_name}: {', '.join(missing)}")
        return [known[name] for name in names]

    def _bound(self, func_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        signature = Signature(func_name, tuple(AnySpec(name) for name in self.parameters(func_name)))
        pairs = zip(signature.names, signature.bind(args, kwargs), strict=True)
        return [self._sent(value, name) for name, value in pairs]

    def parameters(self, func_name: str = "main") -> tuple[str, ...]:
        """Return the names of what a function takes."""
        try:
            arity = self.module["get_function_arity"](func_name)
        except Exception as error:
            raise InputError(f"Cannot find function {func_name} in the executable on the other machine") from error
        return tuple(str(self.module["get_function_param_name"](func_name, at)) for at in range(arity))

    def _sent(self, value: Any, path: str) -> Any:
        """Return a value with every array of it on the other machine."""
        refused: dict[str, str] = {}
        sent = self._placed(staged_any(value, path, refused), path, refused)
        if refused:
            raise InputError("\n".join(f"{where}: {problem}" for where, problem in refused.items()))
        return sent

    def _placed(self, staged: Any, path: str, refused: dict[str, str]) -> Any:
        if isinstance(staged, tuple):
            return tuple([self._placed(each, f"{path}[{at}]", refused) for at, each in enumerate(staged)])
        if isinstance(staged, Tensor) and _session_of(staged.device) == _session_of(self.device):
            return staged
        if isinstance(staged, Tensor | np.ndarray):
            array = staged.numpy() if isinstance(staged, Tensor) else staged
            return tvm.runtime.tensor(array, self.device)
        refused.setdefault(path, f"{describe(staged)}, which cannot be sent: expected arrays, numbers, tuples of them")
        return staged


def send(executable: Executable, session: Any) -> tvm.runtime.Module:
    """Return the module of an executable on the other side of an RPC session, for :class:`RemoteMachine`.

    Parameters
    ----------
    executable : Executable
        The program; its kernels are linked here if they are not yet, by the linker of their target.
    session : tvm.rpc.RPCSession
        What ``tvm.rpc.connect`` returned, or a tracker lent.
    """
    # It takes all of TVM, which a program that runs here does not.
    from .._tvm import load_bytecode_there

    libraries = []
    with tempfile.TemporaryDirectory() as folder:
        for name, data in executable.library_files().items():
            path = Path(folder) / name
            path.write_bytes(data)
            session.upload(str(path))
            libraries.append(session.load_module(name))
    return load_bytecode_there(session, executable.code, libraries)


def _session_of(device: Device) -> int:
    """Return the number of the session that a device belongs to; 0 for one of this machine."""
    return int(device.dlpack_device_type()) // RPC_SESS_MASK


def _fetched(result: Any) -> Any:
    return tuple(map(_fetched, result)) if isinstance(result, tuple | list) else result.numpy()
