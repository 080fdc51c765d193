"""The tuner: kernels of a model, candidates of their schedule rules, measured in processes of their own."""

from .extract import Kernel, kernels_of
from .places import Timing
from .progress import Progress
from .tune import Search, tune

__all__ = ["Kernel", "Progress", "Search", "Timing", "kernels_of", "tune"]
