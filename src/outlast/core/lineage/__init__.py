"""How runs descend from one another: children from parents, forks from what they were copied from. Layer: core."""
