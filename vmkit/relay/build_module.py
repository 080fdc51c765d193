"""What Relay kept beside its build function."""

from .params import bind_params_by_name

__all__ = ["bind_params_by_name"]
