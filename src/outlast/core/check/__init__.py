"""What in a body may make a replay differ, or happen twice: found in its source, told with its line. Layer: core."""
