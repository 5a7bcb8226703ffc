"""The source of bodies: finding it, what its names mean, and the plan it gives. Layer: authoring."""
