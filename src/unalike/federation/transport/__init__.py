"""What carries the bytes of a federation between its server and its sites."""
