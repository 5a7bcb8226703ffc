"""Plans read from source, and what is made of them. Layer: core."""
