"""How the parties of an exchange are trained: one by one, as a stack, or by compiled kernels."""
