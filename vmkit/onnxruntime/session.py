"""A model that is ready to run, as onnxruntime's scripts have it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from ..errors import VMKitError
from ..profiling.profiler import marked, profiled
from ..runtime.machine import VirtualMachine
from ..runtime.outputs import Targets, copy_outputs
from ..values.conversion import to_numpy
from .binding import IOBinding
from .coverage import with_refused_members
from .described import ModelMetadata, NodeArg
from .errors import ArgumentTypeError, as_kind, told_as_kinds
from .feeds import check_run, initializers_fed, output_places
from .options import RunOptions, SessionOptions
from .ort_value import OrtValue
from .programs import Built, export, read_source
from .providers import choose_provider
from .results import Owned
from .session_profile import SessionProfile

__all__ = ["InferenceSession"]


@with_refused_members
class InferenceSession:
    """Runs a model, with the names and rules of onnxruntime's class.

    What is compiled is kept on disk and loaded by the next session of the same model and options, which runs code in
    that file: see the entry ``vmkit.cache`` of :meth:`SessionOptions.add_session_config_entry`.

    Parameters
    ----------
    path_or_bytes
        An ONNX file or what one holds; or an executable that :meth:`vmkit.Executable.export` wrote (``.vmx``), whose
        loading runs the code in it. Other files that :func:`vmkit.compile` takes are compiled too.
    sess_options
        How to compile and run it.
    providers
        On what to run: ``["CPUExecutionProvider"]`` by default. The first that is here runs all of the model.
    provider_options
        A dict for each of `providers`; ``device_id`` has an effect.
    disabled_optimizers
        Names of passes that the compiler leaves out, as in ``PassContext(disabled_pass=...)``.
    enable_fallback
        Taken for onnxruntime's sake: nothing ever moves to another device by itself.

    Raises
    ------
    NoSuchFile, InvalidProtobuf, InvalidGraph, NotImplemented, Fail
        When the model is at fault.
    InvalidArgument, EPFail
        When an argument is.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx import TensorProto, helper
    >>> x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy")
    >>> graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    >>> session = InferenceSession(helper.make_model(graph).SerializeToString())
    >>> session.get_inputs()
    [NodeArg(name='x', type='tensor(float)', shape=['n'])]
    >>> session.run(None, {"x": np.float32([1, 2])})
    [array([-1., -2.], dtype=float32)]
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
        *,
        disabled_optimizers: Sequence[str] | None = None,
        enable_fallback: bool = True,
    ) -> None:
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise ArgumentTypeError(f"sess_options is a {type(sess_options).__name__}, expected a SessionOptions")
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._options.told()
        self._disabled = list(disabled_optimizers or ())
        with told_as_kinds():
            self._source = read_source(path_or_bytes)
        self.set_providers(providers, provider_options)
        if self._options.optimized_model_filepath:
            export(self._built.executable, self._options.optimized_model_filepath)

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
    ) -> None:
        """Compile the model for another device."""
        self._provider = choose_provider(providers, provider_options)
        options = self._options
        self._profile = (
            SessionProfile(options.profile_file_prefix, self._provider.name) if options.enable_profiling else None
        )
        # By the initializers that a feed has given: the machine of the program in which they are inputs.
        self._machines: dict[frozenset[str], tuple[VirtualMachine, Built]] = {}
        self._plain, self._built = self._machine(frozenset())
        self._names = tuple(arg.name for arg in self._built.inputs)
        self._required = frozenset(self._names)

    def _machine(self, fed: frozenset[str]) -> tuple[VirtualMachine, Built]:
        if fed not in self._machines:
            provider, options = self._provider, self._options
            with told_as_kinds():
                built = self._source.build(provider.target, options, self._disabled, fed)
                memory = "pooled" if options.enable_cpu_mem_arena else "naive"
                executable = marked(built.executable) if self._profile is not None else built.executable
                machine = VirtualMachine(executable, provider.device, memory, num_threads=options.num_threads)
            self._machines[fed] = machine, built
        return self._machines[fed]

    # -- what it is

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that every feed must have, optional values excepted."""
        return list(self._built.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs."""
        return list(self._built.outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the initializers that a feed may give another value, for which the model is compiled once more."""
        return list(self._built.overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model's file says of the model; of an executable, what the session that wrote it was told."""
        return self._built.metadata

    def get_session_options(self) -> SessionOptions:
        """Return the options."""
        return self._options

    def get_providers(self) -> list[str]:
        """Return the one provider that runs the model."""
        return [self._provider.name]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return what the provider was told."""
        return {self._provider.name: dict(self._provider.options)}

    def disable_fallback(self) -> None:
        """Do nothing: no session falls back to another device."""

    def enable_fallback(self) -> None:
        """Do nothing: no session falls back to another device."""

    # -- profiles

    def end_profiling(self) -> str:
        """Write the profile of the runs so far to a file, and return its name; no later run is profiled.

        The file is a Chrome trace, with an event of category ``Node`` for each kernel. Empty for a session whose
        ``enable_profiling`` was not set.
        """
        profile, self._profile = self._profile, None
        return "" if profile is None else profile.write()

    def get_profiling_start_time_ns(self) -> int:
        """Return when the profile began, in nanoseconds since 1970; 0 where there is none."""
        return 0 if self._profile is None else self._profile.start_time_ns

    def _run(self, machine: VirtualMachine, values: Sequence[Any], targets: Targets) -> tuple[Any, ...]:
        if self._profile is None and any(target is not None for target in targets):
            return machine.invoke_into("main", values, {}, targets)
        profile, results = self._profile, []
        if profile is None:
            results.append(machine.run(*values))
        else:
            begin = profile.now()
            profile.add(profiled(machine, "main", lambda: results.append(machine.run(*values))), begin)
        made = results[0] if machine.executable.signature.result_is_tuple else (results[0],)
        if targets:
            copy_outputs(made, targets)
        return tuple(made)

    # -- runs

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Return outputs, each with memory of its own.

        Parameters
        ----------
        output_names
            Which outputs, in which order; all of them if there are none.
        input_feed
            A value for each input by its name: an array, or what can be made one without a change; a list for a
            sequence, a dict for a map, None for an optional value that is missing; or an OrtValue.
        run_options
            How to run.

        Returns
        -------
        list
            Arrays of numpy; lists of them for sequences, dicts for maps, None for an optional value without one.

        Raises
        ------
        InvalidArgument
            With all that does not fit in the feed, or the output that there is not.
        Fail
            When the program fails.
        """
        places = output_places(output_names, self._built.outputs)
        results, values, machine = self._call(input_feed, run_options)
        owned = Owned(machine, values)
        return [owned.copied(to_numpy(results[place])) for place in places]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in another thread, which then calls ``callback(results, user_data, error)``.

        `error` is empty where the run did not fail; where it did, `results` is.
        """

        def run() -> None:
            try:
                results, problem = self.run(output_names, input_feed, run_options), ""
            except Exception as error:  # told to the callback, whatever it is
                results, problem = [], str(error) or type(error).__name__
            callback(results, user_data, problem)

        threading.Thread(target=run, name="vmkit.InferenceSession.run_async").start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Return outputs as values on the device, for inputs that are values; nothing is copied that need not be."""
        others = [name for name, value in input_dict_ort_values.items() if not isinstance(value, OrtValue)]
        if others:
            raise ArgumentTypeError(f"expected an OrtValue for {', '.join(others)}; run takes arrays")
        places = output_places(output_names, self._built.outputs)
        results, values, machine = self._call(input_dict_ort_values, run_options)
        owned = Owned(machine, values)
        return [OrtValue(owned.kept(results[place])) for place in places]

    def io_binding(self) -> IOBinding:
        """Return an IOBinding for this session."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run with what an IOBinding has inputs and outputs bound to."""
        targets = iobinding.targets()
        results, values, machine = self._call(iobinding.inputs, run_options, targets)
        iobinding.keep(results, targets, Owned(machine, values))

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: object, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Return :meth:`OrtValue.ortvalue_from_shape_and_type`."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def wait(self) -> None:
        """Wait until the device has computed what was begun."""
        self._plain.devices[0].sync()

    def _call(
        self, feed: Mapping[str, Any], run_options: RunOptions | None, targets: Targets = ()
    ) -> tuple[tuple[Any, ...], list[Any], VirtualMachine]:
        """Return all outputs, in their targets if they have some, the values that were fed, and the machine."""
        check_run(run_options)
        machine, names = self._plain, self._names
        if not isinstance(feed, dict) or feed.keys() != self._required:
            fed = initializers_fed(feed, self._built.inputs, self._built.overridable)
            if fed:
                # The inputs are in the order of the program that takes these initializers.
                machine, built = self._machine(fed)
                names = built.executable.signature.names
        values = [_given(feed.get(name)) for name in names]
        try:
            return self._run(machine, values, targets), values, machine
        except VMKitError as error:  # as told_as_kinds does, which costs more than a small program
            kind = as_kind(error)
            raise kind from (error if kind is not error else error.__cause__)


def _given(value: Any) -> Any:
    return value.value if isinstance(value, OrtValue) else value
