"""Graphs as workflows: how they are built in Python, checked against an app's functions, and run. Layer: authoring.

What a graph is, and which of its nodes comes next, is `outlast.core.graph`. Here `refs` and `builder` are what authors
write, `workflow` is what an app registers and starts, `matching` holds its nodes against the functions there are, and
`body` is what runs.

What always holds: a graph's run is a body like any other. It calls steps and awaits them, and knows no way round the
machine; so replay, retries, parking, cancel and all else are those of every run.
"""
