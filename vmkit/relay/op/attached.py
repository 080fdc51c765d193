"""Functions that scripts attach to operators, for the passes that ask for them.

They are attributes in TVM's own ``Op`` registry, under Relay's keys: what ``tvm.ir.register_op_attr`` or
``Op.set_attr`` puts there, a pass finds, and what is put there here, ``Op.get_attr`` gives. Each function below may be
used as a decorator. Of functions attached to one operator under one key, that of the highest level is taken; a second
of the same level is refused by TVM.

>>> from vmkit import relay
>>> @relay.op.register_legalize("erf", level=1)
... def unchanged(attrs, inputs, types):
...     return None
>>> relay.op.get("erf").has_attr("FTVMLegalize")
True
>>> relay.op.get("erf").reset_attr("FTVMLegalize")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tvm.ir import Op
from tvm.ir.op import register_op_attr

from .registry import entry

__all__ = [
    "ALTER_OP_LAYOUT",
    "CONVERT_OP_LAYOUT",
    "FAKE_QUANTIZATION_TO_INTEGER",
    "INFER_CORRECT_LAYOUT",
    "LEGALIZE",
    "OPTIONAL_FAKE_QUANTIZATION_TO_INTEGER",
    "PRIMAL_GRADIENT",
    "QNN_CANONICALIZE",
    "QNN_LEGALIZE",
    "Attached",
    "attach",
    "attached",
    "register_alter_op_layout",
    "register_convert_op_layout",
    "register_fake_quantization_to_integer",
    "register_gradient",
    "register_infer_correct_layout",
    "register_legalize",
    "register_optional_fake_quantization_to_integer",
    "register_qnn_canonicalize",
    "register_qnn_legalize",
]

LEGALIZE = "FTVMLegalize"
ALTER_OP_LAYOUT = "FTVMAlterOpLayout"
CONVERT_OP_LAYOUT = "FTVMConvertOpLayout"
INFER_CORRECT_LAYOUT = "FInferCorrectLayout"
PRIMAL_GRADIENT = "FPrimalGradient"
QNN_LEGALIZE = "FTVMQnnLegalize"
QNN_CANONICALIZE = "FTVMQnnCanonicalize"
FAKE_QUANTIZATION_TO_INTEGER = "FTVMFakeQuantizationToInteger"
OPTIONAL_FAKE_QUANTIZATION_TO_INTEGER = "FTVMOptionalFakeQuantizationToInteger"

Attached: TypeAlias = Callable[..., Any]


def attached(op: Op, key: str) -> Attached | None:
    """Return the function that was attached to an operator under a key, or None."""
    return op.get_attr(key) if op.has_attr(key) else None


def attach(op_name: str, key: str, function: Attached | None, level: int) -> Attached:
    """Attach a function to an operator under a key, and return it; without a function, return a decorator.

    Raises
    ------
    TypeCheckError
        When there is no such operator.
    RuntimeError
        When a function of the same level is attached already.
    """
    entry(op_name)  # knows close names where there is no such operator

    def put(given: Attached) -> Attached:
        register_op_attr(op_name, key, given, level)
        return given

    return put if function is None else put(function)


def register_legalize(op_name: str, legal_op: Attached | None = None, level: int = 10) -> Attached:
    """Attach what ``Legalize`` puts in the place of calls of an operator.

    Parameters
    ----------
    op_name : str
        The operator.
    legal_op : callable, optional
        ``f(attrs, inputs, types) -> Call or None``, with the types of the inputs and, last, of the result. None leaves
        the call as it is.
    level : int
        The priority.
    """
    return attach(op_name, LEGALIZE, legal_op, level)


def register_alter_op_layout(op_name: str, alter_layout: Attached | None = None, level: int = 10) -> Attached:
    """Attach what ``AlterOpLayout`` puts in the place of calls of an operator.

    Parameters
    ----------
    op_name : str
        The operator.
    alter_layout : callable, optional
        ``f(attrs, inputs, tinfos, out_type) -> Call or None``: `tinfos` are TE placeholders with the shapes and data
        types of the inputs. The call has as many inputs, in layouts that its attributes name. None leaves the call as
        it is.
    level : int
        The priority.
    """
    return attach(op_name, ALTER_OP_LAYOUT, alter_layout, level)


def register_convert_op_layout(op_name: str, convert_layout: Attached | None = None, level: int = 10) -> Attached:
    """Attach what ``ConvertLayout`` puts in the place of calls of an operator, instead of what it does by itself.

    Parameters
    ----------
    op_name : str
        The operator.
    convert_layout : callable, optional
        ``f(attrs, inputs, tinfos, desired_layouts) -> Call or None``, as for :func:`register_alter_op_layout`;
        `desired_layouts` is what ConvertLayout was given for the operator.
    level : int
        The priority.
    """
    return attach(op_name, CONVERT_OP_LAYOUT, convert_layout, level)


def register_infer_correct_layout(op_name: str, infer_layout: Attached | None = None, level: int = 10) -> Attached:
    """Attach what says which layouts an operator goes on with, instead of what its entry says.

    Parameters
    ----------
    op_name : str
        The operator.
    infer_layout : callable, optional
        ``f(attrs, new_in_layouts, old_in_layouts, old_in_types) -> InferCorrectLayoutOutput``: the layouts that the
        operator takes and gives, where its inputs have `new_in_layouts` now. These are None where the question is about
        the program as it was written.
    level : int
        The priority.
    """
    return attach(op_name, INFER_CORRECT_LAYOUT, infer_layout, level)


def register_gradient(op_name: str, fgradient: Attached | None = None, level: int = 10) -> Attached:
    """Attach the gradient of an operator, for ``relay.transform.gradient``; those that come with vmkit have level 10.

    Parameters
    ----------
    op_name : str
        The operator.
    fgradient : callable, optional
        ``f(call, grad) -> [Expr]``: `call` is a typed call of the operator, `grad` the gradient of the program's result
        with regard to the call's. It returns one for each argument of the call, of the argument's type; that of a tuple
        is a tuple.
    level : int
        The priority.
    """
    return attach(op_name, PRIMAL_GRADIENT, fgradient, level)


def register_qnn_legalize(op_name: str, legal_op: Attached | None = None, level: int = 10) -> Attached:
    """Attach what ``relay.qnn.transform.Legalize`` puts in the place of calls of a quantised operator.

    Parameters
    ----------
    op_name, legal_op, level
        As for :func:`register_legalize`.
    """
    return attach(op_name, QNN_LEGALIZE, legal_op, level)


def register_qnn_canonicalize(op_name: str, legal_op: Attached | None = None, level: int = 10) -> Attached:
    """Attach what a quantised operator stands for, instead of what its entry says.

    ``relay.qnn.transform.CanonicalizeOps`` asks for it, and so does the compiler.

    Parameters
    ----------
    op_name, legal_op, level
        As for :func:`register_legalize`. Where `legal_op` returns None, the entry says what the operator stands for.
    """
    return attach(op_name, QNN_CANONICALIZE, legal_op, level)


def register_fake_quantization_to_integer(op_name: str, func: Attached | None = None, level: int = 10) -> Attached:
    """Attach how ``FakeQuantizationToInteger`` computes an operator with integers.

    Parameters
    ----------
    op_name : str
        The operator.
    func : callable, optional
        ``f(expr, type_map) -> [expr, affine type]``: `expr` is a call whose arguments are integers already, and
        `type_map` has their affine types. It has one for `expr` itself, too: that of the result which the program
        quantises to in the end.
    level : int
        The priority.
    """
    return attach(op_name, FAKE_QUANTIZATION_TO_INTEGER, func, level)


def register_optional_fake_quantization_to_integer(
    op_name: str, func: Attached | None = None, level: int = 10
) -> Attached:
    """Attach how ``FakeQuantizationToInteger`` computes an operator where its `optional_qnn_ops` names it.

    Parameters
    ----------
    op_name, func, level
        As for :func:`register_fake_quantization_to_integer`.
    """
    return attach(op_name, OPTIONAL_FAKE_QUANTIZATION_TO_INTEGER, func, level)
