"""A built model on another machine, as the graph executor had it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm.runtime import Device

from vmkit.errors import InputError, UnavailableError
from vmkit.runtime.remote import RemoteMachine

from .graph_module import GraphModule
from .graph_values import Input

__all__ = ["RemoteGraphModule"]


class RemoteGraphModule(GraphModule):
    """A model that an RPC session loaded, which runs there; results stay there until they are asked for.

    Parameters
    ----------
    module : tvm.runtime.Module
        What ``session.load_module`` returned for the file of a built model, a shared library or a ``.tar``.
    devices : list of Device
        The session's.
    """

    _is_remote = True

    def __init__(self, module: tvm.runtime.Module | RemoteGraphModule, devices: Sequence[Device] = ()) -> None:
        # It is called as the machine of this process is.
        machine: Any = module.remote if isinstance(module, RemoteGraphModule) else RemoteMachine(module, devices)
        self.remote: RemoteMachine = machine
        super().__init__(machine)

    @property
    def _names(self) -> tuple[str, ...]:
        return self.remote.parameters("main")

    def _fitted(self, name: str, value: Input | None) -> object:
        return value

    def _set_missing(self) -> None:
        missing = [name for name in self._names if name not in self._inputs]
        if missing:
            raise InputError(f"what is on the other machine is not known here: set the inputs {', '.join(missing)}")

    def _set_known(self, params: Mapping[str, Any]) -> None:
        for name in (name for name in params if name in self._names):
            self._set(name, params[name])

    def get_num_outputs(self) -> int:
        """Return how many outputs the last run gave."""
        if self._outputs is None:
            raise InputError("how many outputs a model on another machine has is known when it has run: call run first")
        return len(self._outputs)

    def get_input_info(self) -> tuple[tvm_ffi.Map, tvm_ffi.Map]:
        """Refuse to tell what only the other machine knows."""
        raise UnavailableError("shapes are not known of a model on another machine: ask the one that relay.build gave")

    get_output_info = get_input_info
