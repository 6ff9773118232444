import hashlib

import numpy as np

import unalike as package

CSV = "age,sex,city,outcome\n34,m,Bonn,yes\n51,f,Ulm,no\n29,f,Bonn,no\n62,m,Ulm,yes\n45,f,Bonn,yes\n38,m,Ulm,no\n"


def test_counts_are_the_data_sets(unalike):
    found = unalike("data", "heart", "--json").json
    data = package.load_dataset("heart")
    assert found["rows"] == data.size == sum(label["rows"] for label in found["labels"])
    assert [party["rows"] for party in found["natural_parties"]] == np.bincount(data.group).tolist()
    assert [party["name"] for party in found["natural_parties"]] == list(data.group_names)
    assert found["shape"] == [32]
    text = unalike("data", "heart").out
    assert "switzerland" in text
    assert "735" in text


def test_inferred_types_are_shown(unalike, tmp_path):
    (tmp_path / "patients.csv").write_text(CSV)
    found = unalike("data", "csv:patients.csv(label=outcome, party=city, test=0.34)", "--json").json
    types = {column["column"]: column["type"] for column in found["columns"]}
    assert types["age"] == "number"
    assert types["city"] == "category"
    assert {party["name"] for party in found["natural_parties"]} == {"Bonn", "Ulm"}
    assert "age" in unalike("data", "csv:patients.csv(label=outcome, test=0.34)").out


def test_types_are_shown_even_where_the_table_is_refused(unalike, tmp_path):
    (tmp_path / "gaps.csv").write_text(CSV.replace("51", ""))
    answer = unalike("data", "csv:gaps.csv(label=outcome)")
    assert answer.code == 2
    assert "age" in answer.out
    assert answer.err.count("\n") == 1
    assert "missing" in answer.err
    silent = unalike("data", "csv:gaps.csv(label=outcome)", "--json")
    assert (silent.code, silent.out) == (2, "")


def test_many_labels_are_cut(unalike):
    assert "No natural parties" in unalike("data", "digits").out


def test_mistakes(unalike):
    for text, remedy in (
        ("hart", "Did you mean 'heart'"),
        ("csv:absent.csv", "absent.csv"),
        ("digits(3)", "takes no"),
    ):
        answer = unalike("data", text)
        assert answer.code == 2
        assert remedy in answer.err
        assert answer.err.count("\n") == 1


def test_codes_are_asked_about_and_all_mistakes_told(unalike, tmp_path):
    """Of the label, of a column that is left out and of one whose kind was said, nothing is asked."""
    rows = [f"{n % 4 + 1},{n % 3},{n % 5},{n % 7},{n % 2 + 1}" for n in range(40)]
    (tmp_path / "codes.csv").write_text("\n".join(["cp,thal,ward,id,y", *rows]))
    said = unalike("data", "csv:codes.csv(party=ward, ignore=id, categories=(thal,))").out
    assert "cp: 4 whole numbers 1-4, taken as a quantity; categories=(cp,) if they are codes" in said
    assert said.count("whole numbers") == 1
    (tmp_path / "gaps.csv").write_text(CSV.replace("51,f", ",").replace("Bonn", "?"))
    answer = unalike("data", "csv:gaps.csv(label=outcome)")
    assert answer.code == 2
    lines = answer.err.splitlines()
    assert [line[:18] for line in lines] == ["Error: column age:", "Error: column sex:", "Error: column city"]


def test_files_are_got_and_looked_at(unalike, tmp_path, monkeypatch):
    from unalike.data.sources import SOURCES, PublicFiles, RemoteFile

    content = b"-1 3:1\n+1 4:1\n"
    (tmp_path / "mirror").mkdir()
    (tmp_path / "data").mkdir()
    for name in ("a9a", "a9a.t"):
        (tmp_path / "mirror" / name).write_bytes(content)
    files = tuple(RemoteFile(name, hashlib.sha256(content).hexdigest(), name) for name in ("a9a", "a9a.t"))
    monkeypatch.setitem(SOURCES, "adult", PublicFiles(("http://nowhere.invalid/",), files))
    folder = ("--data-dir", tmp_path / "data")
    first = unalike("data", "adult", "--get", "--from", f"file://{tmp_path}/mirror", *folder)
    assert first.code == 0
    assert "All files of adult are there. Next: unalike data adult" in first.out
    assert "a9a: 14 B in" in first.err
    assert (tmp_path / "data" / "a9a.t").read_bytes() == content
    assert unalike("data", "adult", "--get", *folder).err == ""


def test_getting_without_a_network_is_one_line(unalike, tmp_path, monkeypatch):
    monkeypatch.setenv("UNALIKE_MIRROR", "http://nowhere.invalid")
    found = unalike("data", "covtype", "--get", "--data-dir", tmp_path)
    assert (found.code, found.out, len(found.err.strip().splitlines())) == (2, "", 1)
    assert "no network, or no host nowhere.invalid" in found.err
    wrong = unalike("data", "heart", "--from", "http://nowhere.invalid")
    assert (wrong.code, "Add --get" in wrong.err) == (2, True)
