"""Relay as a program in Python, which reads and runs like one: control flow is Python's, each operator is compiled.

>>> from vmkit import relay
>>> data = relay.var("data", "float32")
>>> double = relay.Function([data], relay.add(data, data))
>>> import ast
>>> print(ast.unparse(to_python(double)).partition("def ")[2])  # doctest: +NORMALIZE_WHITESPACE
x_1(data_1):
    x_2 = add_1(data_1, data_1)
    return x_2
_py_out = x_1
>>> run_as_python(double)(run_as_python(relay.const(2.0))).numpy().item()
4.0
"""

from .program import OUTPUT, run_as_python, to_python

__all__ = ["OUTPUT", "run_as_python", "to_python"]
