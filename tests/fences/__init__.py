"""Memory between closed pages: of single arrays, or of every tensor while ``python -m tests.fences`` runs tests."""
