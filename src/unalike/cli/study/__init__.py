"""``unalike study``: grids of runs. `commands` has the flags, the other files what is shown."""
