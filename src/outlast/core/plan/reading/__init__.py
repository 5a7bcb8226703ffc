"""Reading a body: `reader` is the way in, `meaning` what it asks of the names it meets. Layer: core."""
