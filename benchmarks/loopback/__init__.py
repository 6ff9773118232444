"""A real federation on loopback, with clocks: every site and the server in a process of its own."""
