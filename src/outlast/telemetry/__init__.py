"""What reports: logs, traces, metrics. Nothing here can hurt a run."""
