"""Where candidates run: in the worker's own process, or on a device that an RPC tracker lends."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import tvm
from tvm.runtime import Device, Executable, Module, Tensor
from tvm.target import Target

from .._dataclasses import dataclass
from ..errors import OptionError
from ..executable.linker import linker_for
from ..target import llvm

__all__ = ["DEFAULT_TIMING", "Here", "Place", "Remote", "Running", "Timing", "Tracker", "place_of", "require_devices"]

Tracker = tuple[str, int, str]
"""Host and port of an RPC tracker, and the key of the devices to run on."""

_ANSWER = 10  # seconds that a tracker may take to answer
_SESSION = 120  # seconds after which a device ends what was started on it


@dataclass(frozen=True)
class Timing:
    """How a candidate is timed: the least time of a call, over batches of calls.

    Parameters
    ----------
    number : int
        How many calls a batch has at least.
    repeat : int
        How many batches there are.
    batch : float
        The seconds that a batch takes at least, so that the clock and the call weigh little.
    """

    number: int = 1
    repeat: int = 5
    batch: float = 0.002


DEFAULT_TIMING = Timing()


class Running(Protocol):
    """A library of kernels that can be called."""

    device: Device

    def call(self, name: str, operands: Sequence[Tensor | int]) -> None:
        """Run a kernel once."""

    def seconds(self, name: str, operands: Sequence[Tensor | int], timing: Timing = DEFAULT_TIMING) -> float:
        """Return the least time of a call, over some batches of them."""


class Place(Protocol):
    """Where libraries run."""

    def loaded(self, built: Executable, target: Target) -> contextlib.AbstractContextManager[Running]:
        """Return a library of kernels, as it was compiled for a target, to be called inside."""


def place_of(tracker: Tracker | None) -> Place:
    """Return the place of a request: a device of a tracker, else this process."""
    return Here() if tracker is None else Remote(tracker)


def require_devices(tracker: Tracker) -> None:
    """Raise OptionError where there is no such tracker, or no device that it could lend."""
    host, port, key = tracker
    try:
        # The tracker's own client tries for a minute.
        socket.create_connection((host, port), timeout=_ANSWER).close()
    except OSError as error:
        raise OptionError(f"tracker: there is no tracker at {host}:{port}: {error}") from error
    from tvm import rpc

    served = rpc.connect_tracker(host, port).summary()["server_info"]
    keys = sorted({str(each["key"]).removeprefix("server:") for each in served})
    if key not in keys:
        raise OptionError(
            f"tracker: {host}:{port} has no device with the key {key!r}; there are: {', '.join(keys) or 'none'}"
        )


class Here:
    """This process, and the GPU of its machine for targets that are one."""

    @contextlib.contextmanager
    def loaded(self, built: Executable, target: Target) -> Iterator[Running]:
        yield _Own(built, tvm.device(target.kind.name) if "gpu" in target.keys else tvm.cpu())


class _Own:
    def __init__(self, built: Executable, device: Device) -> None:
        self._built, self.device = built, device

    def call(self, name: str, operands: Sequence[Tensor | int]) -> None:
        self._built[name](*operands)

    def seconds(self, name: str, operands: Sequence[Tensor | int], timing: Timing = DEFAULT_TIMING) -> float:
        run = self._built[name]
        return _least_seconds(lambda: run(*operands), self.device, timing)


def _least_seconds(run: Callable[[], None], device: Device, timing: Timing) -> float:
    """Return the least time of a call, over some batches of them that the device has done."""
    count, best = timing.number, float("inf")
    repeats = 0
    while repeats < timing.repeat:
        start = time.perf_counter()
        for _ in range(count):
            run()
        device.sync()
        took = time.perf_counter() - start
        if took < timing.batch and count < 1_000_000:
            count = max(count * 2, int(count * timing.batch / max(took, 1e-7)) + 1)
            continue
        best, repeats = min(best, took / count), repeats + 1
    return best


class Remote:
    """A device of a tracker; each library gets a process of its own there, which ends with it."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    @contextlib.contextmanager
    def loaded(self, built: Executable, target: Target) -> Iterator[Running]:
        from tvm import rpc

        host, port, key = self._tracker
        session = rpc.connect_tracker(host, port).request(key, session_timeout=_SESSION)
        with tempfile.TemporaryDirectory() as folder:
            link = linker_for(str(target.attrs.get("mtriple", "")) or llvm.default_triple())
            # What nothing links here is linked by the device's own compiler.
            library = Path(folder) / ("kernels.tar" if link is None else "kernels.so")
            built.export_library(str(library), **({} if link is None else {"fcompile": link}))
            session.upload(str(library))
            yield _Lent(session.load_module(library.name), session.cpu())


class _Lent:
    def __init__(self, module: Module, device: Device) -> None:
        self._module, self.device = module, device

    def call(self, name: str, operands: Sequence[Tensor | int]) -> None:
        self._module[name](*operands)

    def seconds(self, name: str, operands: Sequence[Tensor | int], timing: Timing = DEFAULT_TIMING) -> float:
        timed = self._module.time_evaluator(
            name,
            self.device,
            number=timing.number,
            repeat=timing.repeat,
            min_repeat_ms=round(timing.batch * 1000),
        )
        return float(timed(*operands).min)
