"""The options of the kinds of targets, as the installed TVM registers them.

A command line's ``--help`` and its completion are there before TVM could be imported, so its registry is recorded
here; a test compares the two.
"""

from __future__ import annotations

__all__ = ["OPTIONS", "PARSERS"]

PARSERS = {"str": str, "int": int, "bool": int, "Array<str>": str}
"""What reads a word as a value of a type."""

_EVERY = {
    "Array<str>": "keys libs",
    "int": "from_device target_device_type",
    "str": "device model tag",
}

# By kind, the options of each type that not every kind has.
_OWN: dict[str, dict[str, str]] = {
    "c": {
        "int": "constants-byte-alignment workspace-byte-alignment",
        "str": "march mcpu",
    },
    "cuda": {
        "int": (
            "l2_cache_size_bytes max_num_threads max_shared_memory_per_block max_threads_per_block "
            "registers_per_block thread_warp_size"
        ),
        "str": "arch mcpu",
    },
    "hexagon": {
        "Array<str>": "llvm-options mattr",
        "int": "num-cores vtcm-capacity",
        "str": "mcpu mtriple",
    },
    "llvm": {
        "Array<str>": "cl-opt mattr",
        "bool": (
            "fast-math fast-math-arcp fast-math-contract fast-math-ninf fast-math-nnan fast-math-nsz fast-math-reassoc"
        ),
        "int": "num-cores opt-level vector-width",
        "str": "jit mabi mcpu mfloat-abi mtriple",
    },
    "metal": {
        "int": ("max_function_args max_num_threads max_shared_memory_per_block max_threads_per_block thread_warp_size"),
    },
    "nvptx": {
        "int": "max_num_threads thread_warp_size",
        "str": "mcpu mtriple",
    },
    "opencl": {
        "int": (
            "image_base_address_alignment max_function_args max_num_threads max_shared_memory_per_block "
            "max_threads_per_block texture_depth_limit texture_spatial_limit thread_warp_size"
        ),
    },
    "rocm": {
        "Array<str>": "mattr",
        "int": "max_num_threads max_shared_memory_per_block max_threads_per_block thread_warp_size",
        "str": "mcpu mtriple",
    },
    "trn": {
        "int": "max_psum_size_per_partition max_sbuf_size_per_partition num-cores partition_size",
    },
    "vulkan": {
        "Array<str>": "mattr",
        "bool": (
            "supports_16bit_buffer supports_8bit_buffer supports_cooperative_matrix "
            "supports_dedicated_allocation supports_float16 supports_float32 supports_float64 "
            "supports_int16 supports_int32 supports_int64 supports_int8 supports_integer_dot_product "
            "supports_push_descriptor supports_storage_buffer_storage_class"
        ),
        "int": (
            "driver_version max_block_size_x max_block_size_y max_block_size_z max_num_threads "
            "max_per_stage_descriptor_storage_buffer max_push_constants_size "
            "max_shared_memory_per_block max_spirv_version max_storage_buffer_range "
            "max_threads_per_block max_uniform_buffer_range supported_subgroup_operations "
            "thread_warp_size vulkan_api_version"
        ),
        "str": "device_name device_type driver_name",
    },
    "webgpu": {
        "bool": "supports_subgroups",
        "int": "max_num_threads max_shared_memory_per_block thread_warp_size",
    },
}

OPTIONS: dict[str, dict[str, str]] = {
    kind: {name: type_ for types in (_EVERY, own) for type_, names in types.items() for name in names.split()}
    for kind, own in _OWN.items()
}
"""By kind: its options, and the type of each as TVM calls it: ``str``, ``int``, ``bool`` or ``Array<str>``."""
