"""Versions of workflows, as the engine keeps and serves them. Layer: engine."""
