"""What remembers: one protocol (`store`), and a backend in each folder beside it."""
