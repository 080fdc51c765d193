"""Schedules of kernels: one rule for each kind of kernel, on CPUs and on GPUs."""
