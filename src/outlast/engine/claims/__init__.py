"""What a worker takes: runs that are due, as many as it has places for, by their limits. Layer: engine."""
