"""The pretend device holds what it promises, or runs on it would prove nothing."""


def test_it_refuses_what_an_accelerator_refuses(pretend):
    said = pretend("refusals")
    arrays = {"numpy", "asarray"}
    for name, line in said.items():
        expected = (
            "can't convert pretend:0 device type tensor to numpy" if name in arrays else "at least two devices"
        )
        assert expected in line, f"{name}: {line}"


def test_it_computes_and_carries(pretend):
    assert pretend("allowances") == {
        "single number": [1, 2, 3],
        "moved": [1, 2, 3],
        "from numbers": [1, 2],
        "rows": [[0, 1, 2], [1, 1, 1]],
        "gradient": [0, 1, 2],
        "back": [0, 1, 2],
        "sum": 3,
    }


def test_it_has_random_numbers_of_its_own(pretend):
    found = pretend("streams")
    first, again, other = found["drawn"]
    assert first == again != other
    assert not found["moved"]
