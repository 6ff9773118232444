"""Algorithms that exchange knowledge in another form than the weights of one net."""
