"""Commands that read the source of workflows. Layer: cli."""
