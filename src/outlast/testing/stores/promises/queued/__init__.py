"""What a store promises of queued steps: tasks, their leases, and how they are shared out. Layer: testing."""
