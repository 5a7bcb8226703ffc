"""What runs wait for: listing it, and answering it. Layer: cli."""
