"""Attempts of steps, carried out in this process. Layer: engine."""
