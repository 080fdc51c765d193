"""The families, found by themselves: a module here needs no registration."""
