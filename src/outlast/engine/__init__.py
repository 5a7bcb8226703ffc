"""What does: workers, hot runs, the execution of steps, the one writer of a process, leases and recovery."""
