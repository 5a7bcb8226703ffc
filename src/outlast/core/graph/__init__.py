"""Graph workflows: nodes and edges as data. Layer: core.

Read in this order: `definition` (what a person writes), `text`, `yaml_text` and `reading` (from a file to that),
`references` (the language of its values), `node`, `scoping` and `compiling` (everything checked before a run exists),
`shape` and `walk` (which node comes next), `canonical` (what of a graph counts for its version).

What always holds: nothing here calls a function or knows one; a graph's runs are bodies like any other, which
`outlast.authoring.graph` makes of a compiled graph.
"""
