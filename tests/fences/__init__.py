"""Tests with every tensor between closed pages: ``python -m tests.fences`` runs pytest so, with what is given to it."""
