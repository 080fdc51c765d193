"""Relay's ``nn`` operators, by family."""
