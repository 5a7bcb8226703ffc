"""Waiting for somebody: signals, gates and approvals. Layer: core.

events     what the journal says of them
body       the waits of one body: what is open, what came before anybody waited, which decision opens what
approval   who may decide, and what came of it; pure
book       the waits that are open, as a journal tells
"""
