"""`outlast worker`: one process, or several that one looks after. Layer: cli."""
