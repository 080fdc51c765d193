from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import tvm_ffi
from tvm.ir import IRModule

class PassInfo(tvm_ffi.Object):
    name: str
    opt_level: int
    required: Sequence[str]

class PassContext(tvm_ffi.Object):
    opt_level: int
    config: Mapping[str, Any]
    disabled_pass: Sequence[str]
    required_pass: Sequence[str]
    instruments: Sequence[Any]
    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Any = None,
        disabled_pass: Any = None,
        instruments: Any = None,
        config: Any = None,
    ) -> None: ...
    def __enter__(self) -> PassContext: ...
    def __exit__(self, *raised: Any) -> None: ...
    @staticmethod
    def current() -> PassContext: ...
    @staticmethod
    def list_configs() -> Mapping[str, Mapping[str, str]]: ...

class Pass(tvm_ffi.Object):
    @property
    def info(self) -> PassInfo: ...
    def __call__(self, mod: IRModule) -> IRModule: ...

class ModulePass(Pass): ...

class Sequential(Pass):
    def __init__(
        self, passes: Sequence[Pass] | None = None, opt_level: int = 0, name: str = "sequential", required: Any = None
    ) -> None: ...

@overload
def module_pass(
    pass_func: Callable[[IRModule, PassContext], IRModule],
    opt_level: int | None = None,
    name: str | None = None,
    required: Any = None,
    traceable: bool = False,
) -> ModulePass: ...
@overload
def module_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Any = None,
    traceable: bool = False,
) -> Callable[[Callable[[IRModule, PassContext], IRModule]], ModulePass]: ...
def __getattr__(name: str) -> Any: ...
