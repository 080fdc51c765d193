"""Relay as a program in Python, which reads and runs like one: control flow is Python's, each operator is compiled.

>>> from vmkit import relay
>>> x = relay.var("x", "float32")
>>> double = relay.Function([x], relay.add(x, x))
>>> import ast
>>> print(ast.unparse(to_python(double)).partition("def ")[2])  # doctest: +NORMALIZE_WHITESPACE
function_1(x_1):
    value_1 = add_1(x_1, x_1)
    return value_1
_py_out = function_1
>>> run_as_python(double)(run_as_python(relay.const(2.0))).numpy().item()
4.0
"""

from .program import OUTPUT, run_as_python, to_python

__all__ = ["OUTPUT", "run_as_python", "to_python"]
