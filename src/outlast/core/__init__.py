"""What decides: events, states, folds, the deterministic loop. No I/O, no clock, no randomness of its own."""
