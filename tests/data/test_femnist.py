"""FEMNIST as LEAF writes it: every image with its writer, nothing but whole files."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from tests.data.images import real, refusal
from unalike.data import load_dataset


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    return tmp_path


def pixels(rows: int, seed: int):
    return np.random.default_rng(seed).integers(0, 256, (rows, 784), dtype=np.uint8)


def leaf(counts: dict[str, int], seed: int = 0):
    """A file's content: pixels divided by 255, label = row number + the seed."""
    data = {
        user: {"x": (pixels(n, seed + k) / 255).tolist(), "y": [(seed + row) % 62 for row in range(n)]}
        for k, (user, n) in enumerate(counts.items())
    }
    return {"users": list(counts), "num_samples": list(counts.values()), "user_data": data}


def write(folder, part: str, name: str, content) -> None:
    (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / part / name).write_text(content if isinstance(content, str) else json.dumps(content))


def write_all(folder) -> None:
    write(folder, "train", "all_data_0_niid_0_keep_0_train_9.json", leaf({"f1_b": 3, "f0_a": 2}, 10))
    write(folder, "train", "all_data_1_niid_0_keep_0_train_9.json", leaf({"f2_c": 4}, 20))
    write(folder, "test", "all_data_0_niid_0_keep_0_test_9.json", leaf({"f0_a": 1, "f9_z": 2}, 30))
    write(folder, "test", "all_data_1_niid_0_keep_0_test_9.json", leaf({"f2_c": 1}, 40))


@pytest.mark.parametrize("place", ["data/femnist/data", "femnist/data", "femnist"])
def test_images_labels_and_writers(folder, place):
    write_all(folder / place)
    data = load_dataset("femnist")
    assert data.x.shape == (9, 1, 28, 28)
    assert data.x.dtype == np.uint8
    expected = np.concatenate([pixels(3, 10), pixels(2, 11), pixels(4, 20)])
    np.testing.assert_array_equal(data.x.reshape(9, 784), expected)  # every byte, through JSON and back
    assert data.y.tolist() == [10, 11, 12, 10, 11, 20, 21, 22, 23]
    assert data.group is not None
    assert data.group_test is not None
    assert data.group.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert data.group_names == ("f1_b", "f0_a", "f2_c")
    assert data.group_test.tolist() == [1, -1, -1, 2]  # f9_z has no training images
    assert data.y_test.tolist() == [30, 30, 31, 40]
    assert len(data.classes) == 62
    assert (data.classes[9], data.classes[10], data.classes[36]) == ("9", "A", "a")
    assert data.scale == 255


def test_whole_numbers_are_pixels_too(folder):
    write_all(folder / "femnist")
    one = {"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [[1] * 392 + [0] * 392], "y": [61]}}}
    write(folder / "femnist", "train", "more.json", one)
    image = load_dataset("femnist").x[-1].reshape(-1)
    assert (image[:392] == 255).all()
    assert (image[392:] == 0).all()


def test_pixels_are_rounded_not_cut(folder):
    write_all(folder / "femnist")
    shades = [0.0019, 0.002, 0.5019, 0.5037] * 196  # times 255: 0.48, 0.51, 127.98, 128.44
    one = {"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": [shades], "y": [1]}}}
    write(folder / "femnist", "train", "more.json", one)
    assert load_dataset("femnist").x[-1].reshape(-1)[:4].tolist() == [0, 1, 128, 128]


def test_absent_data_say_how_to_get_them(folder):
    text = refusal("femnist")
    assert "FEMNIST is not in" in text
    assert "LEAF" in text


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_missing_half_is_named(folder, part):
    write_all(folder / "femnist")
    name = f"all_data_1_niid_0_keep_0_{part}_9.json"
    (folder / "femnist" / part / name).unlink()
    assert f"has no {name}" in refusal("femnist")


def test_an_empty_or_absent_folder_is_named(folder):
    (folder / "femnist/train").mkdir(parents=True)
    assert "train has no JSON file" in refusal("femnist")
    write(folder / "femnist", "train", "a.json", leaf({"a": 1}))
    assert "test has no JSON file" in refusal("femnist")


@pytest.mark.parametrize("kept", [0, 1, 100, 5000, -1])
def test_a_truncated_file_is_refused(folder, kept):
    write_all(folder / "femnist")
    text = json.dumps(leaf({"a": 3}))
    write(folder / "femnist", "train", "more.json", text[:kept])
    said = refusal("femnist")
    assert "more.json is cut short" in said


def change(path, value):
    def apply(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return apply


@pytest.mark.parametrize(
    ("apply", "said"),
    [
        (change(["num_samples"], [3, 1]), "'b' has 2 images and 2 labels, not 1"),
        (change(["num_samples"], [3]), "names 2 writers"),
        (change(["users"], ["a"]), "names 1 writers, but has data of 2"),
        (change(["users"], ["a", "a"]), "names 2 writers"),
        (change(["user_data", "b", "y"], [1]), "'b' has 2 images and 1 labels, not 2"),
        (change(["user_data", "b", "y"], [1, 62]), "a label of 'b' is not a whole number from 0 to 61"),
        (change(["user_data", "b", "y"], [1, -1]), "a label of 'b'"),
        (change(["user_data", "b", "y"], [1, 1.5]), "a label of 'b'"),
        (change(["user_data", "b", "x", 1], [0.5] * 783), "cut short"),
        (change(["user_data", "b", "x"], [[0.5] * 783] * 2), "an image of 'b' is not 784 numbers from 0 to 1"),
        (change(["user_data", "b", "x", 1, 7], 1.001), "an image of 'b'"),
        (change(["user_data", "b", "x", 1, 7], -0.001), "an image of 'b'"),
        (change(["user_data", "b", "x", 1, 7], float("nan")), "an image of 'b'"),
        (change(["user_data", "b", "x", 1, 7], "0.5"), "an image of 'b'"),
        (change(["user_data", "b"], None), "cut short or not a JSON file"),
        (
            lambda c: (c["num_samples"].__setitem__(1, 0), c["user_data"].update(b={"x": [], "y": []})),
            "has no images",
        ),
        (change(["user_data"], []), "names 2 writers, but has data of 0"),
    ],
)
def test_wrong_content_is_refused(folder, apply, said):
    write_all(folder / "femnist")
    content = leaf({"a": 3, "b": 2})
    apply(content)
    write(folder / "femnist", "train", "more.json", content)
    text = refusal("femnist")
    assert said in text
    assert "more.json" in text


@pytest.mark.parametrize("text", ["[]", "null", "{}", "[" * 100_000, "3", '{"users": [], "num_samples": 5}'])
def test_other_json_is_refused(folder, text):
    write_all(folder / "femnist")
    write(folder / "femnist", "train", "more.json", text)
    assert "more.json is cut short or not a JSON file" in refusal("femnist")


def test_a_writer_in_two_files_is_refused(folder):
    write_all(folder / "femnist")
    write(folder / "femnist", "train", "more.json", leaf({"f2_c": 1}))
    assert "has the writer 'f2_c'" in refusal("femnist")


def test_equal_pixels_share_memory(folder):
    write(folder / "femnist", "train", "a.json", leaf({f"w{k}": 20 for k in range(20)}))
    write(folder / "femnist", "test", "a.json", leaf({"w0": 1}))
    tracemalloc.start()
    data = load_dataset("femnist")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = (folder / "femnist/train/a.json").stat().st_size
    # The text twice (bytes and str), then once and 8 bytes a pixel; a float of its own for each takes 24 more.
    assert peak < 2 * size + 4 * data.x.size


def test_the_real_femnist():
    real("data/femnist/data/train", "femnist/data/train", "femnist/train")
    data = load_dataset("femnist")
    assert data.x.shape[1:] == (1, 28, 28)
    assert data.group is not None
    assert len(data.group_names) == data.group.max() + 1
