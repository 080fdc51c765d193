"""Programs on several devices, written short: CPU and GPU stand for devices, ``held`` and ``copy`` for long calls."""

from __future__ import annotations

import re

import tvm

from vmkit.relay.ir import VirtualDevice
from vmkit.relay.text.parser import read_module
from vmkit.relay.transform import InferType

DEVICES = {
    "CPU": VirtualDevice(1, 0),
    "GPU": VirtualDevice(2, 0),
    "A": VirtualDevice(1, 0, "a"),
    "B": VirtualDevice(1, 0, "b"),
}
_PLACE = {name: f"meta[VirtualDevice][{index}]" for index, name in enumerate(DEVICES)}
_NAMES = "|".join(DEVICES)
# %x{CPU} is a parameter there, ``at CPU`` the result of a function.
_SHORT = (
    (rf"\{{({_NAMES})\}}", lambda m: f" {{virtual_device={_PLACE[m[1]]}}}"),
    (rf"\bat ({_NAMES})\b", lambda m: f"virtual_device={_PLACE[m[1]]}"),
    (rf"\bon\(([^,()]*|[^()]*\([^()]*\)), ({_NAMES})\)", lambda m: f"on_device({m[1]}, virtual_device={_PLACE[m[2]]})"),
    (
        rf"\bfree\(([^,()]*), ({_NAMES})\)",
        lambda m: f"on_device({m[1]}, virtual_device={_PLACE[m[2]]}, constrain_body=False)",
    ),
    (
        rf"\bheld\(([^,()]*|[^()]*\([^()]*\)[^(),]*), ({_NAMES})\)",
        lambda m: f"on_device({m[1]}, virtual_device={_PLACE[m[2]]}, constrain_result=True)",
    ),
    (
        rf"\bcopy\(([^,()]*), ({_NAMES}), ({_NAMES})\)",
        lambda m: f"device_copy({m[1]}, src_virtual_device={_PLACE[m[2]]}, dst_virtual_device={_PLACE[m[3]]})",
    ),
    (r"\bT\b", lambda m: "Tensor[(5, 7), float32]"),
)


def placed_module(text: str) -> tvm.IRModule:
    """Return the typed module of a short text; one without a definition is the body of ``main`` over its parameters."""
    for short, long in _SHORT:
        text = re.sub(short, long, text)
    return InferType()(
        read_module(f'#[version = "0.0.5"]\n{text}', init_meta_table={"VirtualDevice": list(DEVICES.values())})
    )
