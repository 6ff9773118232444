"""Nets that are chains of simple layers, as C that the system's compiler makes fast for this machine."""
