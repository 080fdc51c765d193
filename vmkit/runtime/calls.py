"""The ways to call a function of a program. Which one is chosen once, when a machine is made, and not in each call.

- *Direct*: arrays and tensors go to the function as they are; it checks by itself what its signature declares.
- *Staged*: Python values become arrays, which are checked against the signature, and tensors on the device.
- *Deep*: staged, and run on a thread of its own with a deep stack, because the program recurses or its values nest.

For a program with strings, each of them runs within a table of the texts of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import tvm
from tvm.runtime import Tensor

from .._dataclasses import dataclass
from ..bytecode import CheckedTensor, checked_parameters, same_parts
from ..executable.executable import Executable
from ..values.conversion import from_runtime
from ..values.element_types import ELEMENTS, element_bytes, numpy_dtype, stored_type
from ..values.host_memory import ALIGNMENT, Scratch, readable
from ..values.signature import AnySpec, Signature, Spec, TensorSpec, TupleSpec
from ..values.texts import ProgramTexts, StringTensor, call_texts, current_texts, quick_text_tensor
from .inputs import Inputs
from .instance import Instance
from .limits import is_of_tvm
from .threads import PoolTooSmall, call_with_threads

if TYPE_CHECKING:
    from ..values.kinds.value import Given, Result, RuntimeValue

__all__ = ["Call", "Entry", "call_of", "entry_of"]


@dataclass(frozen=True)
class Entry:
    """A function of a program.

    Parameters
    ----------
    function
        TVM's function.
    signature, inputs
        What it takes.
    restored
        What it returns, if the runtime's form of that does not tell all of it.
    alignments
        Where it checks by itself all that its signature declares: what its kernels expect of the address of each input,
        in bytes. Otherwise None.
    """

    function: Callable[..., RuntimeValue]
    signature: Signature
    inputs: Inputs
    restored: Spec | None = None
    alignments: tuple[int, ...] | None = None


def entry_of(executable: Executable, name: str, instance: Instance) -> Entry:
    """Return a function of an executable by its name."""
    signature = executable.signatures[name]
    alignments = None
    if _is_direct(executable, name, instance):
        of_elements = executable.info.alignment == ELEMENTS
        alignments = tuple(_alignment(spec, of_elements) for spec in signature.inputs)
    result = TupleSpec("", signature.outputs) if signature.result_is_tuple else (*signature.outputs, AnySpec(""))[0]
    restored = None
    if result.is_restored:
        restored = result.knowing(same_parts(executable.program, executable.program.function(name)))
    return Entry(instance.module[name], signature, Inputs(signature, instance), restored, alignments)


def _is_direct(executable: Executable, name: str, instance: Instance) -> bool:
    """Tell whether a function takes tensors and arrays as they are, and checks by itself what is declared."""
    signature = executable.signatures[name]
    if instance.device != tvm.runtime.cpu() or not signature.is_flat:
        return False
    if any(spec.is_restored and not _is_text(spec) for spec in signature.inputs):
        return False
    if not instance.check_inputs:
        return True
    checked = checked_parameters(executable.program, executable.program.function(name))
    own = [_restored(checked.get(position), spec) for position, spec in enumerate(signature.inputs)]
    return signature.is_implied_by(own)


def _restored(checked: CheckedTensor | None, spec: Spec) -> CheckedTensor | None:
    """Return what was checked of a tensor that holds the digests of texts as what was checked of the texts."""
    if checked is None or checked.dtype != stored_type("string") or not _is_text(spec):
        return checked
    return replace(checked, dtype="string")


def _is_text(spec: Spec) -> bool:
    return isinstance(spec, TensorSpec) and spec.dtype == "string"


def _alignment(spec: Spec, of_elements: bool) -> int:
    return element_bytes(spec.dtype) if of_elements and isinstance(spec, TensorSpec) else ALIGNMENT


class Call(Protocol):
    """A way to call one function."""

    entry: Entry

    def call(self, args: Sequence[Given], kwargs: Mapping[str, Given]) -> Result:
        """Return what the function returns for these inputs, or for those that were set if none are given."""


def call_of(entry: Entry, instance: Instance) -> Call:
    """Return the way to call a function of a program as it is now."""
    if instance.deep is not None:
        kind: type[StagedCall] = DeepCall
    elif entry.alignments is None:
        kind = StagedCall
    else:
        kind = _TextCall if any(map(_is_text, entry.signature.inputs)) else DirectCall
    call = kind(entry, instance)
    return call if instance.texts is None else _CallWithTexts(call, instance.texts)


class StagedCall:
    """Calls a function with inputs of any form."""

    def __init__(self, entry: Entry, instance: Instance) -> None:
        self.entry = entry
        self._instance = instance
        self._function = entry.function
        self._signature = entry.signature
        self._arity = len(entry.signature.inputs)
        self._restored = entry.restored
        # A call must not pay for the way to these.
        self._lock = instance.lock
        self._num_threads = instance.num_threads

    def call(self, args: Sequence[Given], kwargs: Mapping[str, Given]) -> Result:
        if kwargs or len(args) != self._arity:
            if not args and not kwargs:
                return self.run(self.entry.inputs.values_set())
            args = self._signature.bind(args, kwargs)
        return self.run(self.entry.inputs.converted(args))

    def run(self, values: list[RuntimeValue] | list[Tensor], unchecked: Sequence[Given] | None = None) -> Result:
        """Return the result for values of the runtime.

        `unchecked` are the inputs where only the function itself checks them: should it fail, the signature says more.
        """
        try:
            with self._lock:
                result = call_with_threads(self._num_threads, self._function, values)
        except PoolTooSmall:
            raise
        except Exception as error:
            if not is_of_tvm(error):
                raise
            if unchecked is not None and self._instance.check_inputs:
                self.check(unchecked)
            raise self._instance.explained(self._signature.name, error) from error
        if self._restored is not None:
            return self._restored.from_runtime(result, self._instance.release)
        if type(result) is Tensor:
            return result
        return from_runtime(result, self._instance.release)

    def check(self, given: Sequence[Given]) -> None:
        """Check inputs that the function was called with; InputError says what does not match."""
        self._signature.check(given)


class DirectCall(StagedCall):
    """Calls a function, which checks its inputs itself, with tensors and arrays as they are; with others as staged."""

    def __init__(self, entry: Entry, instance: Instance) -> None:
        super().__init__(entry, instance)
        assert entry.alignments is not None
        self._alignments = entry.alignments
        # Its inputs are tensors, or it would not have alignments.
        self._dtypes = tuple(numpy_dtype(spec.dtype) for spec in self._signature.inputs if isinstance(spec, TensorSpec))
        # Memory for copies of arrays that are not aligned, by input.
        self._scratch = tuple(Scratch() for _ in entry.alignments)

    def call(self, args: Sequence[Given], kwargs: Mapping[str, Given]) -> Result:
        if kwargs or len(args) != self._arity:
            if not args and not kwargs:
                return self.run(self.entry.inputs.values_set())
            args = self._signature.bind(args, kwargs)
        values = readable(args, self._alignments, self._dtypes, self._scratch)
        if values is not None:
            return self.run(values, args)
        return self.run(self.entry.inputs.converted(args))


class _TextCall(DirectCall):
    """Calls a function as directly where its strings come in arrays of objects that are all str."""

    def __init__(self, entry: Entry, instance: Instance) -> None:
        super().__init__(entry, instance)
        self._texts = tuple(index for index, spec in enumerate(self._signature.inputs) if _is_text(spec))

    def call(self, args: Sequence[Given], kwargs: Mapping[str, Given]) -> Result:
        if not args and not kwargs:
            return self.run(self.entry.inputs.values_set())
        args = self._signature.bind(args, kwargs)
        stored = list(args)
        texts = call_texts()
        for index in self._texts:
            tensor = quick_text_tensor(args[index], texts)
            if tensor is None:
                return self.run(self.entry.inputs.converted(args))
            stored[index] = tensor
        values = readable(stored, self._alignments, self._dtypes, self._scratch)
        if values is not None:
            return self.run(values, args)
        return self.run(self.entry.inputs.converted(args))

    def check(self, given: Sequence[Given]) -> None:
        values = list(given)
        for index in self._texts:
            texts = values[index]
            if isinstance(texts, np.ndarray):  # of objects that were all str
                values[index] = StringTensor.over(texts.ravel().tolist(), texts.shape)
        super().check(values)


class DeepCall(StagedCall):
    """Calls a function on the instance's deep thread."""

    def run(self, values: list[RuntimeValue] | list[Tensor], unchecked: Sequence[Given] | None = None) -> Result:
        """Return the result for values of the runtime, which are dropped on the deep thread."""
        try:
            result = self._instance.run(self._function, values)
        except PoolTooSmall:
            raise
        except Exception as error:
            if not is_of_tvm(error):
                raise
            raise self._instance.explained(self._signature.name, error) from error
        if self._restored is not None:
            return self._restored.from_runtime(result, self._instance.release)
        return from_runtime(result, self._instance.release)


class _CallWithTexts:
    """Calls a function of a program that has strings."""

    def __init__(self, call: StagedCall, texts: ProgramTexts) -> None:
        self.entry = call.entry
        self._call = call
        self._texts = texts

    def call(self, args: Sequence[Given], kwargs: Mapping[str, Given]) -> Result:
        texts = self._texts
        token = current_texts.set(texts.open(texts))
        try:
            return self._call.call(args, kwargs)
        finally:
            current_texts.reset(token)
