"""Passes over Relax modules between Relay and bytecode: memory, shapes, and kernels that are called together."""

from .. import errors
from .._tvm import register_errors

register_errors(errors)
