"""Cryptography in small pieces: secret sharing, masks that cancel, exact homomorphic sums, exact noise.

Nothing here knows about parties' data or about any protocol; ``secure`` and other packages build on it. Libraries
are imported when they are first needed, so that ``unalike`` runs without them.
"""
