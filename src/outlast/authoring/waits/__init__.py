"""Waiting in a body: for signals, at gates, for approvals. Layer: authoring."""
