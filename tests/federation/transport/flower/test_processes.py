"""What looks after the processes of a federation must not end itself."""

import threading

from unalike.federation.transport.flower.processes import Keeper


def test_a_look_that_fails_is_told_once_and_not_the_last(caplog):
    looks, enough = [], threading.Event()

    def look():
        looks.append(len(looks))
        if len(looks) <= 3:
            raise OSError("No space left on device")
        enough.set()

    keeper = Keeper(look, every=0.001)
    keeper.start()
    assert enough.wait(10)
    keeper.close()
    assert caplog.text.count("No space left on device") == 1
