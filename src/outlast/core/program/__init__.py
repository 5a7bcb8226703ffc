"""Bodies as data that can be run: a closed language, made from source (`compiling`) and interpreted (`running`).
Layer: core.

It is what lets a run finish as it began when its code is gone: steps by name, literals, references, plain conditions
and loops, asyncio's ways of running things side by side. Nothing of it is ever given to Python as code.
"""
