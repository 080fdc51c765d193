"""Tuning records for a processor that is not at hand: seconds that are computed from the machine code of kernels.

``python -m benchmarks.estimated records.json`` makes them. What is counted and what is not is said in :mod:`.cycles`.
"""
