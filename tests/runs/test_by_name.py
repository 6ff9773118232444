"""A run by the beginning of its key or of its folder's name."""

from pathlib import Path

import pytest

from unalike.errors import UserError
from unalike.runs.by_name import run_by_name

FOLDERS = [Path("runs", name) for name in ("heart-fedavg-ab12", "heart-fedavg-ab12cd", "digits-ditto-cd34")]


@pytest.mark.parametrize(
    ("text", "found"),
    [("cd3", 2), ("digits", 2), ("runs/digits-ditto-cd34", 2), ("ab12", 0), ("ab12c", 1)],
)
def test_a_beginning_or_the_whole_name(text, found):
    assert run_by_name(FOLDERS, text, Path("runs")) == FOLDERS[found]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("heart", "'heart' begins the name of 2 runs: heart-fedavg-ab12, heart-fedavg-ab12cd. Write more of it."),
        ("digitz-ditto-cd34", "Did you mean 'digits-ditto-cd34'?"),
        ("zz", "No run in runs has a name that begins with 'zz'. See: unalike runs list"),
    ],
)
def test_none_or_several(text, said):
    with pytest.raises(UserError) as caught:
        run_by_name(FOLDERS, text, Path("runs"))
    assert str(caught.value).endswith(said)
