"""What of the onnxruntime package has no counterpart here, and why. What stands in neither table is covered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .errors import NotImplemented

__all__ = ["REFUSED", "REFUSED_MEMBERS", "WITHOUT_EFFECT", "refused", "with_refused_members"]

C = TypeVar("C", bound=type)

_PLUGINS = "execution providers are no plug-ins here; vmkit compiles for the device that providers= names"
_PACKAGES = "model packages hold what onnxruntime compiled; keep an executable: SessionOptions.optimized_model_filepath"
_ADAPTERS = "adapters belong to models of onnxruntime-genai; feed what they hold as inputs"
_SPARSE = "vmkit computes with dense tensors"
_MEMORY = "vmkit's machine allocates by itself; SessionOptions.enable_cpu_mem_arena chooses how"
_CUDA = "TVM loads CUDA's libraries by itself"
_TUNING = "vmkit.tophub.tune measures what schedules could decide, and its records are used when a model is compiled"
_CONTEXT = (
    "there are no nodes of what another compiler made; keep an executable: SessionOptions.optimized_model_filepath"
)

REFUSED: dict[str, str] = {
    "AdapterFormat": _ADAPTERS,
    "LoraAdapter": _ADAPTERS,
    "ModelCompiler": "vmkit.compile(model).export(path) compiles to a file, which a session takes in place of a model",
    "ModelPackage": _PACKAGES,
    "ModelPackageComponentContext": _PACKAGES,
    "ModelPackageContext": _PACKAGES,
    "ModelPackageOptions": _PACKAGES,
    "ModelPackageWriteMode": _PACKAGES,
    "OrtArenaCfg": _MEMORY,
    "OrtCompileApiFlags": "they are options of ModelCompiler",
    "OrtDeviceMemoryType": _MEMORY,
    "OrtEpAssignedNode": _PLUGINS,
    "OrtEpAssignedSubgraph": _PLUGINS,
    "OrtEpContextData": _CONTEXT,
    "OrtEpContextDataBuffer": _CONTEXT,
    "OrtEpDevice": _PLUGINS,
    "OrtExecutionProviderDevicePolicy": _PLUGINS,
    "OrtExternalInitializerInfo": "it is an option of ModelCompiler",
    "OrtHardwareDevice": _PLUGINS,
    "OrtHardwareDeviceType": _PLUGINS,
    "OrtMemoryInfo": _MEMORY,
    "OrtMemoryInfoDeviceType": _MEMORY,
    "OrtSparseFormat": _SPARSE,
    "OrtSyncStream": "TVM's streams are those of tvm.runtime.Device",
    "SessionIOBinding": "it is the C++ side of IOBinding",
    "SparseTensor": _SPARSE,
    "create_and_register_allocator": _MEMORY,
    "create_and_register_allocator_v2": _MEMORY,
    "enable_telemetry_events": "vmkit collects nothing",
    "get_ep_devices": _PLUGINS,
    "preload_dlls": _CUDA,
    "print_debug_info": "get_build_info says what runs models here",
    "register_execution_provider_library": _PLUGINS,
    "set_default_logger_callback": "add a handler to logging.getLogger('vmkit')",
    "set_default_logger_verbosity": "logging.getLogger('vmkit') has one scale of levels: set_default_logger_severity",
    "set_seed": "random operators take the seed that the model gives them",
    "unregister_execution_provider_library": _PLUGINS,
    "datasets": "they are files of the onnxruntime package; `vmkit demo` brings a model of its own",
    "quantization": "vmkit compiles what the tool makes; quantise with the onnxruntime package itself",
    "tools": "they work on files of onnxruntime",
    "training": "a session computes; Relay differentiates: vmkit.relay.transform.gradient",
    "transformers": "vmkit fuses attention and the like when it compiles; models that the tool made are taken too",
}
"""Names of the package, each with the reason."""

REFUSED_MEMBERS: dict[str, dict[str, str]] = {
    "InferenceSession": {
        "get_input_epdevices": _PLUGINS,
        "get_input_memory_infos": _MEMORY,
        "get_output_memory_infos": _MEMORY,
        "get_provider_graph_assignment_info": "all nodes run on the first provider of get_providers()",
        "get_tuning_results": _TUNING,
        "release_captured_graph": "graphs of a GPU are not captured",
        "run_with_ortvaluevector": "run_with_ort_values takes OrtValues as a dict",
        "set_ep_dynamic_options": _PLUGINS,
        "set_tuning_results": _TUNING,
    },
    "SessionOptions": {
        "add_external_initializers_from_files_in_memory": "pass the arrays: add_external_initializers",
        "add_provider": "pass providers= to the session",
        "add_provider_for_devices": _PLUGINS,
        "clear_ep_context_data_read_func": _CONTEXT,
        "register_custom_ops_library": "kernels of onnxruntime cannot be called; write the operator in Relay",
        "set_ep_context_data_read_func": _CONTEXT,
        "set_load_cancellation_flag": "compiling cannot be cancelled; run it in a process",
        "set_provider_selection_policy": _PLUGINS,
        "set_provider_selection_policy_delegate": _PLUGINS,
    },
    "RunOptions": {"add_active_adapter": _ADAPTERS},
    "OrtValue": {"as_sparse_tensor": _SPARSE, "ort_value_from_sparse_tensor": _SPARSE},
    "IOBinding": {"get_outputs_as_ortvaluevector": "get_outputs gives the OrtValues as a list"},
}
"""Members of the classes that are covered, each with the reason."""

WITHOUT_EFFECT: dict[str, str] = {
    "enable_mem_pattern": "memory is planned when the model is compiled",
    "enable_mem_reuse": "memory is planned when the model is compiled",
    "execution_mode": "kernels run one after another, each on all threads",
    "execution_order": "the compiler orders the kernels",
    "inter_op_num_threads": "kernels run one after another, each on intra_op_num_threads",
    "log_verbosity_level": "log_severity_level says which messages are told",
    "logid": "messages are those of the logger vmkit.onnxruntime",
    "only_execute_path_to_fetches": "a program computes all of its outputs",
    "use_deterministic_compute": "programs compute the same each time anyway",
}
"""Options that are taken and change nothing, each with the reason, which is logged once where one is set."""


def refused(name: str, reason: str) -> NotImplemented:
    """Return the error for a name of onnxruntime that has no counterpart."""
    return NotImplemented(f"onnxruntime's {name} has no counterpart: {reason}")


def with_refused_members(cls: C) -> C:
    """Give a class those members of onnxruntime's that have no counterpart: each raises with the reason."""
    for name, reason in REFUSED_MEMBERS[cls.__name__].items():
        setattr(cls, name, _refusing(f"{cls.__name__}.{name}", reason))
    return cls


def _refusing(name: str, reason: str) -> Callable[..., None]:
    def refuse(*_args: object, **_options: object) -> None:
        raise refused(name, reason)

    refuse.__name__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Raise NotImplemented: {reason}."
    return refuse
