"""What authors of workflows import: steps, workflows, the context in a body, values and their codec."""
