"""What ``import unalike`` offers: names for Tab, and nothing heavy before it is needed."""

import subprocess
import sys

import pytest

import unalike


def test_dir_shows_the_api_and_the_rooms():
    shown = dir(unalike)
    assert set(unalike.__all__) <= set(shown)
    assert {"algorithms", "data", "notebook", "runs"} <= set(shown)
    assert shown == sorted(shown)
    assert not [name for name in shown if name.startswith("_") and name != "__version__"]


def test_every_name_that_is_shown_is_there():
    assert all(getattr(unalike, name) is not None for name in dir(unalike))


@pytest.mark.parametrize("name", ["rum", "__wrapped__", "_repr_html_"])
def test_no_other_name_is_there(name):
    with pytest.raises(AttributeError, match=name):
        getattr(unalike, name)


def test_looking_around_loads_nothing_heavy():
    heavy = "{'torch', 'numpy', 'pandas', 'polars', 'matplotlib', 'sklearn', 'IPython'}"
    code = f"import sys, unalike; dir(unalike); sys.exit(', '.join({heavy} & sys.modules.keys()) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
