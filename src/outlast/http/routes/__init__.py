"""What can be asked for: a module for each subject, and the table of all (`table.py`). Layer: http."""
