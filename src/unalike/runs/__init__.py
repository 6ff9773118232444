"""A run: its spec, its rounds one after the other, and the folder that keeps them."""
