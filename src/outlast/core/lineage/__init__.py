"""How runs descend from one another: children from their parents, forks from what they were copied from. Layer: core."""
