"""Relay's ``random`` operators: pure functions from a key to numbers and the next key."""
