"""Whatever is done to the files of a finished run, reading gives what was written, or says what is damaged."""

import json
import re
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.cli.store import read_runs
from unalike.runs.folder import RunDirectory
from unalike.runs.record import checked_weights, read_run
from unalike.runs.results import read_record
from unalike.runs.seals import Broken
from unalike.runs.spec import RunSpec

SPEC = RunSpec(dataset="digits", model="mlp(4)", rounds=4)
FILES = ("rounds.jsonl", "result.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / SPEC.folder
    with RunDirectory.open(folder) as run:
        run.write_spec(SPEC.to_toml())
        for number in range(1, 5):
            party = {"worst": 0.1 * number, "each": [0.5, None]}
            counted = {"bytes_up": 8, "bytes_down": 16, "seconds": 0.25}
            run.append_round({"round": number, "accuracy": 0.1 + 0.1 * number, "parties": party, **counted})
        digest = run.save_weights({}, {"key": SPEC.key})
        figures = {"key": SPEC.key, "accuracy": 0.5, "rounds": 4, "traffic": {"up": {"delta": 8}}, "seconds": 1.0}
        run.write_result({**figures, "weights_file_sha256": digest})
    return folder


def flip(data, draw):
    place = draw(st.integers(0, len(data) - 1))
    return data[:place] + bytes([data[place] ^ draw(st.integers(1, 255))]) + data[place + 1 :]


def cut(data, draw):
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
    return data[:start] + data[end:]


def insert(data, draw):
    place = draw(st.integers(0, len(data)))
    return data[:place] + draw(st.binary(min_size=1, max_size=20)) + data[place:]


def change_number(data, draw):
    found = draw(st.sampled_from(list(re.finditer(rb"(?<=: )\d+(\.\d+)?", data))))
    return data[: found.start()] + draw(st.sampled_from([b"0.95", b"7", b"-1", b"null"])) + data[found.end() :]


def change_key(data, draw):
    found = draw(st.sampled_from(list(re.finditer(rb'"(\w+)":', data))))
    name = draw(st.sampled_from([b"x", b"round", b"accuracy", b"seal", b"seconds"]))
    return data[: found.start(1)] + name + data[found.end(1) :]


def delete_line(data, draw):
    lines = data.splitlines(keepends=True)
    del lines[draw(st.integers(0, len(lines) - 1))]
    return b"".join(lines)


def double_line(data, draw):
    lines = data.splitlines(keepends=True)
    place = draw(st.integers(0, len(lines) - 1))
    return b"".join([*lines[:place], lines[place], *lines[place:]])


def swap_lines(data, draw):
    lines = data.splitlines(keepends=True)
    one, other = draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def rewrite(data, draw):
    """As another program would: the same values, written in another way."""
    lines = data.splitlines() if data.startswith(b'{"round"') else [data]
    return b"".join(json.dumps(json.loads(line), sort_keys=True).encode() + b"\n" for line in lines)


EDITS = (flip, cut, insert, change_number, change_key, delete_line, double_line, swap_lines, rewrite)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(EDITS), st.sampled_from(FILES), st.data())
def test_nothing_else_than_what_was_written_is_read(whole, tmp_path_factory, edit, name, data):
    before = read_run(whole)
    folder = whole.parent.parent / "edited" / whole.name
    shutil.copytree(whole, folder, dirs_exist_ok=True)
    written = (whole / name).read_bytes()
    changed = edit(written, data.draw)
    (folder / name).write_bytes(changed)
    found = read_run(folder, weights=True)
    assert found.rounds == before.rounds[: len(found.rounds)]
    assert found.spec == before.spec
    if found.damage is None:
        assert found.result == before.result
    else:
        assert found.result is None
        assert changed != written
        assert name in found.damage
        assert "\n" not in found.damage
    record, (stored,) = read_record(folder), read_runs(folder.parent)
    assert record.state == ("finished" if found.result else "unfinished")
    assert stored.state == ("finished" if found.result else "damaged")
    assert (record.problem is None) == (stored.problem is None) == (found.damage is None)


def test_the_field_that_was_edited_is_named(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / whole.name)
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text(text.replace('"accuracy": 0.5', '"accuracy": 0.95'))
    assert read_run(folder).damage == (
        "result.json is not as it was written: accuracy is 0.95, but 0.5 in the last round."
    )


@pytest.mark.parametrize("accuracy", ["1e400", '"x"', "[1]", "null", "NaN", "9" * 5000, "{}", "[" * 10**5])
def test_any_edited_value_is_one_line(whole, tmp_path, accuracy):
    folder = shutil.copytree(whole, tmp_path / whole.name)
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text(text.replace('"accuracy": 0.5', f'"accuracy": {accuracy}'))
    found = read_run(folder)
    assert found.result is None
    assert found.damage.startswith("result.json is not as it was written")
    assert len(found.damage) < 150


@pytest.mark.parametrize("name", ["rounds.jsonl", "result.json", "spec.toml"])
def test_files_of_another_run_do_not_count(whole, tmp_path, name):
    folder = shutil.copytree(whole, tmp_path / whole.name)
    other = RunSpec(dataset="digits", model="mlp(4)", rounds=4, seed=1)
    with RunDirectory.open(tmp_path / "other") as run:
        run.write_spec(other.to_toml())
        for number in range(1, 5):
            run.append_round({"round": number})
        run.write_result({"key": other.key, "rounds": 4})
    assert read_run(tmp_path / "other").result is not None
    shutil.copy(tmp_path / "other" / name, folder / name)
    found = read_run(folder)
    assert found.result is None
    assert (name if name != "result.json" else "rounds.jsonl") in found.damage


def test_lines_that_are_missing_at_the_end_show_by_the_result(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / whole.name)
    lines = (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "rounds.jsonl").write_bytes(b"".join(lines[:3]))
    assert read_run(folder).damage == (
        "rounds.jsonl has 3 rounds, which are not the 4 that result.json was made of."
    )


def test_a_folder_of_before_the_seals_is_to_be_run_again(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / whole.name)
    found = read_run(whole)
    (folder / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found.rounds))
    (folder / "result.json").write_text(json.dumps(found.result))
    assert read_run(folder).damage == (
        "rounds.jsonl: line 1 has no seal: it was damaged, or written by hand or by an older version."
    )


@pytest.mark.parametrize("content", [None, b"", b"other"])
def test_weights_are_those_that_the_result_names(whole, tmp_path, content):
    folder = shutil.copytree(whole, tmp_path / whole.name)
    assert (
        checked_weights(folder, read_run(folder, weights=True).result)
        == (folder / "weights.safetensors").read_bytes()
    )
    (folder / "weights.safetensors").unlink()
    if content is not None:
        (folder / "weights.safetensors").write_bytes(content)
    assert read_run(folder).result is not None  # the figures are undamaged
    found = read_run(folder, weights=True)
    assert found.result is None
    assert found.damage.startswith("weights.safetensors is ")
    with pytest.raises(Broken, match=r"weights\.safetensors"):
        checked_weights(folder, read_run(folder).result)
