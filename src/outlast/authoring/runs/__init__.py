"""What a body does with other runs, and what undoes what its own did. Layer: authoring."""
