"""``unalike federation``: training between real sites. `commands` has the flags, the other files what is done."""
