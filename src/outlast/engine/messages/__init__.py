"""What runs tell each other, and what is told to them from outside. Layer: engine."""
