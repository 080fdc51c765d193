"""Kernels that are called by themselves: each has its workspace in its own function."""

from __future__ import annotations

from .kernels import Kernel
from .planning import plan_workspace
from .program import Call, Kind, Memory, Program, Tensor, item_bytes

__all__ = ["workspace_lines"]


def workspace_lines(kernel: Kernel) -> tuple[list[str], list[str]]:
    """Return the C that declares a kernel's own workspace, and the addresses of its buffers there."""
    own = tuple(
        Memory(size, item_bytes(str(buffer.ty.dtype)))
        for size, buffer in zip(kernel.workspace_sizes, kernel.workspace, strict=True)
    )
    tensors = [Tensor(Memory(0, 1, Kind.INPUT), "uint8", ()) for _ in kernel.params]
    plan = plan_workspace(Program([], body=[Call(kernel.name, tuple(tensors), own)]), {kernel.name: kernel})
    declared = f"  static union {{ int64_t aligned; uint8_t bytes[{plan.size}]; }} workspace;"
    return [declared] if plan.size else [], [f"(void*)(workspace.bytes + {plan.offsets[each]})" for each in own]
