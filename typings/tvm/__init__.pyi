# What vmkit uses of TVM, which ships no types. Names that are not here are Any, and so are attributes of these classes.
from collections.abc import Callable
from typing import Any

from tvm import ir as ir
from tvm import relax as relax
from tvm import runtime as runtime
from tvm import s_tir as s_tir
from tvm import target as target
from tvm import te as te
from tvm import tirx as tirx
from tvm.ir import IRModule as IRModule
from tvm.ir import transform as transform
from tvm.runtime import Device

class DataType(str):
    type_code: int
    bits: int
    lanes: int
    def __init__(self, dtype: str) -> None: ...

def cpu(dev_id: int = 0) -> Device: ...
def cuda(dev_id: int = 0) -> Device: ...
def device(dev: str | Device, dev_id: int = 0) -> Device: ...
def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any]: ...
def __getattr__(name: str) -> Any: ...
