"""The tuner: kernels of a model, candidates of their schedule rules, measured in processes of their own."""

from .tune import Progress, tune

__all__ = ["Progress", "tune"]
