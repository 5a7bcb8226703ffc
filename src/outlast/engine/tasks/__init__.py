"""Queued steps. Layer: engine.

An attempt of a step with `queue=` is a task: a row that is committed with the entry that records the attempt. Any
worker of the queue that knows the function claims it, under a lease of its own; the outcome goes to the run as a
message, in the transaction that deletes the row, and the run's owner puts it on record. What always holds: a task is
one attempt, fenced by its number; the run alone counts attempts and decides on the next one, by the same rules as for
steps that execute with it (PROTOCOL F26).
"""
