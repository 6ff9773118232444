"""A sum of vectors as messages and pure steps: the same code in one process, between processes, over a network.

``party.start`` and ``party.step``, ``server.start`` and ``server.step`` take a state and bytes, and give a new
state and bytes; they do no input or output and keep nothing. docs/secure-measurement.md describes the protocol.
"""
