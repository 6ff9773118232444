"""The C compiler of this machine: what it makes is kept, and loaded only where nobody else can have changed it."""
