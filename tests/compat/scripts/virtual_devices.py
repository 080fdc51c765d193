"""Virtual devices are made from a device, a target and a kind of memory."""

import pytest
import tvm

from vmkit.errors import ModelError

VirtualDevice = tvm.target.VirtualDevice

first = VirtualDevice(tvm.device("cuda", 1), memory_scope="shared")
assert isinstance(first, VirtualDevice)
assert (first.device_type_int, first.virtual_device_id, first.memory_scope) == (2, 1, "shared")
assert VirtualDevice(tvm.cpu(), tvm.target.Target("llvm")).device_type == 1
assert VirtualDevice(target="llvm").device_type == 1
assert not VirtualDevice().is_constrained
with pytest.raises(ModelError, match="on cuda cannot have target llvm"):
    VirtualDevice(tvm.device("cuda"), "llvm")
