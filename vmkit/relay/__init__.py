"""Relay: a functional language for tensor programs, as a dialect of TVM's own IR.

The builders of operators are reached by their Relay names: ``relay.add``, ``relay.nn.conv2d`` and so on.
"""

from typing import TYPE_CHECKING
from typing import Any as _AnyValue

from .._later import LATER, named_later
from ..values.param_dict import load_param_dict, save_param_dict
from . import (
    analysis,
    build_module,
    expr_functor,
    image,
    loops,
    nn,
    op,
    random,
    scope_builder,
    type_functor,
    vision,
)
from .bind import bind
from .expr_functor import ExprFunctor, ExprMutator, ExprVisitor
from .ir import (
    AffineType,
    Any,
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    FuncType,
    GlobalTypeVar,
    GlobalVar,
    If,
    IncompleteType,
    Kind,
    Let,
    MapType,
    Match,
    OptionalType,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefType,
    RefWrite,
    SequenceType,
    TensorAffineType,
    TensorType,
    Tuple,
    TupleAffineType,
    TupleGetItem,
    TupleType,
    TupleWrapper,
    Type,
    TypeCall,
    TypeData,
    TypeRelation,
    TypeVar,
    UnrankedType,
    Var,
    VirtualDevice,
    assert_structural_equal,
    const,
    define_type,
    find_constructor,
    find_type,
    free_vars,
    scalar_type,
    structural_equal,
    structural_hash,
    type_definitions,
    var,
)
from .op import annotation, logsumexp, mean_std, mean_variance, reverse_reshape, segment_sum, std
from .op.registry import namespace
from .pattern_functor import PatternFunctor, PatternMutator, PatternVisitor
from .scope_builder import ScopeBuilder
from .text import astext, fromtext, parse, parse_expr
from .type_functor import TypeFunctor, TypeMutator, TypeVisitor

__all__ = [
    "AffineType",
    "Any",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "If",
    "IncompleteType",
    "Kind",
    "Let",
    "MapType",
    "Match",
    "OptionalType",
    "Pattern",
    "PatternConstructor",
    "PatternFunctor",
    "PatternMutator",
    "PatternTuple",
    "PatternVar",
    "PatternVisitor",
    "PatternWildcard",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "ScopeBuilder",
    "SequenceType",
    "TensorAffineType",
    "TensorType",
    "Tuple",
    "TupleAffineType",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "TypeCall",
    "TypeData",
    "TypeFunctor",
    "TypeMutator",
    "TypeRelation",
    "TypeVar",
    "TypeVisitor",
    "UnrankedType",
    "Var",
    "VirtualDevice",
    "analysis",
    "annotation",
    "assert_structural_equal",
    "astext",
    "bind",
    "build_module",
    "const",
    "create_executor",
    "data_dep_optimization",
    "dataflow_pattern",
    "define_type",
    "expr_functor",
    "find_constructor",
    "find_type",
    "free_vars",
    "fromtext",
    "frontend",
    "image",
    "import_from_std",
    "load_json",
    "load_param_dict",
    "logsumexp",
    "loops",
    "mean_std",
    "mean_variance",
    "nn",
    "op",
    "parse",
    "parse_expr",
    "prelude",
    "qnn",
    "quantize",
    "random",
    "reverse_reshape",
    "save_json",
    "save_param_dict",
    "scalar_type",
    "scope_builder",
    "segment_sum",
    "std",
    "structural_equal",
    "structural_hash",
    "testing",
    "transform",
    "type_definitions",
    "type_functor",
    "var",
    "vision",
]

if TYPE_CHECKING:
    from ..executor import create_executor
    from . import data_dep_optimization, dataflow_pattern, frontend, prelude, qnn, quantize, testing, transform
    from .json import load_json, save_json
    from .library import import_from_std


_operator, _operator_names = namespace("")
_later, _ = named_later(__name__)


def __getattr__(name: str) -> _AnyValue:
    return _later(name) if name in LATER[__name__] else _operator(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_operator_names()])
