"""Frontends: models of other formats to Relay."""
