"""Local data of Hugging Face, read without asking any network."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unalike
from unalike.data.hugging_face import HuggingFace
from unalike.errors import UserError

os.environ["HF_HUB_OFFLINE"] = "1"  # for what this file itself asks of the library
library = pytest.importorskip("datasets")
library.disable_progress_bars()

RNG = np.random.default_rng(0)
ROWS = 20
PICTURES = [RNG.integers(0, 256, (8, 8, 3)).astype(np.uint8) for _ in range(ROWS)]
LABELS = [place % 2 for place in range(ROWS)]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everything that would leave this machine, which is also an error."""
    asked: list[Any] = []

    def refuse(*where: Any, **more: Any) -> Any:
        asked.append(where)
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return asked


def pictures() -> Any:
    features = {
        "image": library.Image(),
        "label": library.ClassLabel(names=["cat", "dog"]),
        "camera": library.Value("string"),
    }
    values = {"image": PICTURES, "label": LABELS, "camera": ["a", "b", "c", "d"] * 5}
    return library.Dataset.from_dict(values, features=library.Features(features))


def numbers() -> Any:
    values = {
        "age": [20.5 + place for place in range(ROWS)],
        "sex": ["f", "m", "m", "f"] * 5,
        "row": [[place, 1.0, 2.0] for place in range(ROWS)],
        "label": ["no", "yes"] * 10,
    }
    return library.Dataset.from_dict(values)


def load(path: Path, **more: Any) -> unalike.Dataset:
    return HuggingFace(str(path), **more).load()


def test_pictures_that_were_saved_to_disk(tmp_path: Path, no_network: list[Any]) -> None:
    pictures().save_to_disk(tmp_path / "saved")
    data = load(tmp_path / "saved", size=8, party="camera")
    assert (data.classes, data.group_names, data.shape) == (("cat", "dog"), ("a", "b", "c", "d"), (3, 8, 8))
    known = {each.tobytes(): label for each, label in zip(PICTURES, LABELS, strict=True)}
    for row, label in zip(data.x, data.y, strict=True):
        assert known[row.transpose(1, 2, 0).tobytes()] == label
    assert data.size + len(data.y_test) == ROWS
    assert not no_network


def test_a_split_called_test_is_the_test_set(tmp_path: Path, no_network: list[Any]) -> None:
    both = library.DatasetDict(train=pictures(), test=pictures().select(range(5)))
    both.save_to_disk(tmp_path / "both")
    data = load(tmp_path / "both", x="image", size=8, color="gray")
    assert (data.size, len(data.y_test), data.shape) == (ROWS, 5, (1, 8, 8))
    assert not no_network


@pytest.mark.parametrize("name", ["one.parquet", "data/train-00000-of-00001.parquet", "data-00000.arrow"])
def test_files(tmp_path: Path, name: str, no_network: list[Any]) -> None:
    (tmp_path / "data").mkdir()
    if name.endswith("arrow"):
        numbers().remove_columns("row").save_to_disk(tmp_path / "disk")
        (path,) = (tmp_path / "disk").glob("*.arrow")
    else:
        path = tmp_path / name
        numbers().remove_columns("row").to_parquet(path)
    data = load(tmp_path if name.startswith("data/") else path)
    assert (data.features, data.classes, data.size) == (("age", "sex_f", "sex_m"), ("no", "yes"), 16)
    assert not no_network


def test_rows_of_numbers(tmp_path: Path) -> None:
    numbers().save_to_disk(tmp_path / "saved")
    data = load(tmp_path / "saved", x="row", task="classification")
    assert (data.shape, data.size, data.classes) == ((3,), 16, ("no", "yes"))


def test_a_folder_of_pictures_keeps_its_parties(tmp_path: Path, no_network: list[Any]) -> None:
    from PIL import Image

    for place, values in enumerate(PICTURES):
        path = tmp_path / f"party {place % 2}" / f"class {place % 4 // 2}" / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(values).save(path)
    assert load(tmp_path, size=8).group_names == ("party 0", "party 1")
    flat = tmp_path / "flat"
    flat.mkdir()
    lines = ["file_name,label"]
    for place, values in enumerate(PICTURES):
        Image.fromarray(values).save(flat / f"{place}.png")
        lines.append(f"{place}.png,{'ab'[place % 2]}")
    (flat / "metadata.csv").write_text("\n".join(lines) + "\n")
    data = load(flat, size=8)
    assert (data.classes, data.size) == (("a", "b"), 16)
    assert not no_network


def test_the_fingerprint_is_of_the_files(tmp_path: Path) -> None:
    pictures().save_to_disk(tmp_path / "saved")
    own = HuggingFace(str(tmp_path / "saved"))
    first = own.fingerprint()
    (tmp_path / "saved" / "more").write_text("more")
    assert own.fingerprint() != first


def test_pictures_of_elsewhere_are_not_read(tmp_path: Path) -> None:
    """Data of a stranger may name any file of this machine, or a host."""
    import pyarrow.parquet
    from PIL import Image

    elsewhere = tmp_path / "private.png"
    Image.fromarray(PICTURES[0]).save(elsewhere)
    for path in (str(elsewhere), "http://example.org/1.png"):
        values = {"image": [{"bytes": None, "path": path}] * 4, "label": [0, 1, 0, 1]}
        features = library.Features({"image": library.Image(), "label": library.Value("int64")})
        made = library.Dataset.from_dict(values, features=features).data.table  # save_to_disk would take the bytes
        pyarrow.parquet.write_table(made.cast(features.arrow_schema), tmp_path / "strange.parquet")
        with pytest.raises(UserError, match=r"row 0 of .* has no picture in these data"):
            load(tmp_path / "strange.parquet")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"y": "lable"}, "Unknown column 'lable'. Did you mean 'label'"),
        ({"x": "picture"}, "Unknown column 'picture'"),
        ({"party": "hospital"}, "Unknown column 'hospital'"),
        ({"size": 1}, "size must be from 4"),
        ({"test": 1}, "test must be above 0"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    pictures().save_to_disk(tmp_path / "saved")
    with pytest.raises(UserError, match=message):
        load(tmp_path / "saved", **more)


def test_what_is_not_there_or_damaged_is_one_line(tmp_path: Path, no_network: list[Any]) -> None:
    with pytest.raises(UserError, match=r"There is no file or folder ylecun/mnist\. .*download=true asks a hub"):
        unalike.RunSpec(dataset="hf:ylecun/mnist")
    (tmp_path / "one.parquet").write_bytes(b"PAR1 not PAR1")
    with pytest.raises(UserError, match="Hugging Face's library cannot read these data") as caught:
        load(tmp_path / "one.parquet")
    assert "\n" not in str(caught.value)
    library.DatasetDict(other=pictures()).save_to_disk(tmp_path / "other")
    with pytest.raises(UserError, match="no split called train, but other"):
        load(tmp_path / "other")
    assert not no_network


def test_a_hub_is_asked_only_on_demand(no_network: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def hub(name: str) -> Any:
        from huggingface_hub import constants

        seen.append((name, constants.HF_HUB_OFFLINE))
        return library.DatasetDict(train=pictures())

    monkeypatch.setattr(library, "load_dataset", hub)
    assert HuggingFace("someone/cats", download=True).fingerprint() == ""
    assert load(Path("someone/cats"), download=True, size=8).size == 16
    from huggingface_hub import constants

    assert (seen, constants.HF_HUB_OFFLINE) == ([("someone/cats", False)], True)


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    pictures().to_parquet(tmp_path / "one.parquet")
    code = (
        "import sys; sys.modules['datasets'] = None\n"
        "from unalike.data.hugging_face import HuggingFace\n"
        f"HuggingFace({str(tmp_path / 'one.parquet')!r}).load()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'unalike[hf]'" in done.stderr.splitlines()[-1]


BLOCKED = """
import socket, sys
asked = []
def refuse(*where, **more):
    asked.append(where[:2])
    raise OSError("no network here")
socket.getaddrinfo = socket.socket.connect = refuse
from unalike.data.hugging_face import HuggingFace
data = HuggingFace(sys.argv[1], size=8).load()
print(data.size, asked)
"""


def test_the_library_is_told_before_it_is_imported(tmp_path: Path) -> None:
    """In a process of its own, where nobody else has imported it."""
    pictures().to_parquet(tmp_path / "one.parquet")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, str(tmp_path / "one.parquet")],
        capture_output=True,
        text=True,
        check=True,
        env=environment | {"HOME": str(tmp_path)},
    )
    assert done.stdout.split("\n")[0] == "16 []"
