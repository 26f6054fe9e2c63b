"""Engines make the picture of a step. The configuration chooses an engine for each node type."""
