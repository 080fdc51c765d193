"""The inputs of one function: checked and converted for a call, or set once and kept for many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tvm_ffi

from ..errors import InputError
from ..values.conversion import ADT, holds_strings, to_runtime
from ..values.signature import Signature
from .instance import Instance

if TYPE_CHECKING:
    from ..values.kinds.value import Given, RuntimeValue, Staged

__all__ = ["Inputs"]


class Inputs:
    """What goes into a function.

    Parameters
    ----------
    signature
        What the function takes.
    instance
        The program that it is a function of.
    """

    def __init__(self, signature: Signature, instance: Instance) -> None:
        self._signature = signature
        self._instance = instance
        # Inputs that stay set: the checked values, and the same as the runtime takes them, if that is known already.
        self._set: list[Staged] = [None] * len(signature.inputs)
        self._kept: list[RuntimeValue | ADT] = [None] * len(signature.inputs)
        self._missing = signature.names

    @property
    def kept(self) -> list[RuntimeValue | ADT]:
        """The inputs that were set, as the runtime takes them."""
        return list(self._kept)

    def converted(self, bound: Sequence[Given]) -> list[RuntimeValue]:
        """Return values, one for each parameter, as the runtime takes them, once they are checked."""
        device = self._instance.device
        return [to_runtime(value, device) for value in self._staged(bound)]

    def _staged(self, bound: Sequence[Given]) -> list[Staged]:
        refused: dict[str, str] = {}
        pairs = zip(bound, self._signature.inputs, strict=True)
        staged = [spec.stage(value, spec.name, refused) for value, spec in pairs]
        if self._instance.check_inputs or refused:
            self._signature.check(staged, refused)
        self._instance.refuse_nested(staged)
        return staged

    def set_all(self, bound: Sequence[Given]) -> None:
        """Set every input. Arrays are copied, tensors on the device are not."""
        staged = self._staged(bound)
        self._kept = [self._to_keep(value) for value in staged]
        self._set, self._missing = staged, ()

    def set_one(self, index: int, value: Given) -> None:
        """Set the input at an index; the others stay as they are."""
        spec = self._signature.inputs[index]
        refused: dict[str, str] = {}
        staged = spec.stage(value, spec.name, refused)
        Signature(self._signature.name, (spec,)).check([staged], refused)
        self._instance.refuse_nested([staged])
        self._kept[index] = self._to_keep(staged)
        self._set[index] = staged
        self._missing = tuple(name for name in self._missing if name != spec.name)

    def _to_keep(self, staged: Staged) -> RuntimeValue | ADT:
        """Return a staged value for the runtime, to be kept: with no memory of the caller's, and safe to drop."""
        if holds_strings(staged):
            return None  # what stands for a text is known in a call alone
        value = to_runtime(staged, self._instance.device, share=False)
        if isinstance(staged, ADT) and isinstance(value, tvm_ffi.Array):
            return ADT.from_runtime(value, self._instance.release)
        return value

    def values_set(self) -> list[RuntimeValue]:
        """Return the inputs that were set, for a call.

        Raises
        ------
        InputError
            If one is missing, or they do not fit each other.
        """
        if self._missing:
            raise InputError(self._what_is_missing())
        if self._instance.check_inputs:
            self._signature.check(self._set)
        return [self._ready(staged, kept) for staged, kept in zip(self._set, self._kept, strict=True)]

    def _what_is_missing(self) -> str:
        signature = self._signature
        if self._missing == signature.names:
            return f"Input has not been set for function {signature.name}: {signature}"
        return (
            "The number of provided parameters doesn't match the number of arguments: "
            f"{', '.join(self._missing)} not set for {signature}"
        )

    def _ready(self, staged: Staged, kept: RuntimeValue | ADT) -> RuntimeValue:
        if kept is None:
            return to_runtime(staged, self._instance.device)
        return kept.runtime if isinstance(kept, ADT) else kept
