"""Passes over Relax modules between Relay and bytecode: memory, shapes, and kernels that are called together."""
