from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import ir
from tvm.ir.expr import Call as Call
from tvm.ir.expr import Expr as Expr
from tvm.ir.expr import Var as Var

class Binding(ir.Node):
    var: Any

class VarBinding(Binding):
    value: Any
    def __init__(self, var: Any, value: Any, span: Any = None) -> None: ...

class MatchCast(Binding):
    value: Any
    ty: Any
    def __init__(self, var: Any, value: Any, ty: Any, span: Any = None) -> None: ...

class BindingBlock(ir.Node):
    bindings: Sequence[Binding]
    def __init__(self, bindings: Sequence[Binding], span: Any = None) -> None: ...

class DataflowBlock(BindingBlock): ...
class DataflowVar(Var): ...

class SeqExpr(Expr):
    blocks: Sequence[BindingBlock]
    body: Any
    def __init__(self, blocks: Sequence[BindingBlock], body: Any, span: Any = None) -> None: ...

class If(Expr):
    cond: Any
    true_branch: Any
    false_branch: Any
    def __init__(self, cond: Any, true_branch: Any, false_branch: Any, span: Any = None) -> None: ...

class Function(ir.BaseFunc):
    params: Any
    body: Any
    ret_ty: Any
    is_pure: bool
    def __init__(
        self,
        params: Any,
        body: Any,
        ret_ty: Any = None,
        is_pure: bool | None = True,
        attrs: Any = None,
        span: Any = None,
    ) -> None: ...
    @staticmethod
    def create_empty(params: Any, ret_ty: Any, is_pure: bool | None = True, attrs: Any = None) -> Function: ...

class BlockBuilder(tvm_ffi.Object):
    def __init__(self, mod: Any = None) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class ExecBuilder(tvm_ffi.Object):
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

Type = ir.Type

class TensorType(Type):
    shape: Any
    dtype: str
    ndim: int
    def __init__(
        self, shape: Any = None, dtype: Any = "float32", vdevice: Any = None, ndim: int = -1, span: Any = None
    ) -> None: ...

class ShapeType(Type):
    values: Any
    ndim: int
    def __init__(self, values: Any = None, ndim: int = -1, span: Any = None) -> None: ...

class TupleType(Type):
    fields: Any
    def __init__(self, fields: Any, span: Any = None) -> None: ...

class AnyType(Type):
    def __init__(self, span: Any = None) -> None: ...

def __getattr__(name: str) -> Any: ...
