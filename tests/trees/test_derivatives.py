from unalike.trees import derivatives


def test_memory_is_used_again_when_nobody_holds_it():
    def at(array):
        return array.__array_interface__["data"][0]

    first = derivatives._used_again((2, 1, 1000))
    place = at(first)
    one, two = first  # rows of it are still held
    del first
    second = derivatives._used_again((2, 1, 1000))
    assert at(second) != place
    del one, two
    assert at(derivatives._used_again((2, 1, 1000))) == place
