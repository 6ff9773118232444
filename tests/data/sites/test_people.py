"""Tables of the same people side by side: who is common, who has which columns, each coded alone."""

import csv

import numpy as np
import pytest

from unalike.data import DATASETS, load_dataset
from unalike.data.columns import Column
from unalike.data.gaps import indicated
from unalike.data.sites.ids import IdRule
from unalike.data.sites.people import People
from unalike.data.sites.side_by_side import PeopleRule, side_people
from unalike.errors import UserError
from unalike.partition import make_partition

KNOWN = {"amiens": range(0, 200), "basel": range(50, 260), "chur": range(20, 220)}
COMMON = range(50, 200)


def age(person):
    return 20 + (person * 37) % 61


def write(folder, known=KNOWN, label=("basel",), outcome=lambda person: "yn"[person % 2]):
    for site, people in known.items():
        with (folder / f"{site}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["who", "age", "kind", *(["ill"] if site in label else [])])
            for person in sorted(people, key=lambda one: (one * 7919) % 1009):
                own = age(person) + 100 * list(known).index(site)
                writer.writerow(
                    [f"P{person}", own, "xyz"[person % 3], *([outcome(person)] if site in label else [])]
                )


def people(folder, **more):
    return People(str(folder), **{"label": "ill", "id": ("who",), **more})


@pytest.fixture
def folder(tmp_path):
    write(tmp_path)
    return tmp_path


def test_every_row_is_one_person_at_all_sites(folder):
    data = people(folder).load()
    assert data.size + len(data.y_test) == len(COMMON)
    assert [name.split(".")[0] for name in data.features] == ["amiens"] * 4 + ["basel"] * 4 + ["chur"] * 4
    x, y = np.concatenate([data.x, data.x_test]), np.concatenate([data.y, data.y_test])
    own = [data.units.read(x)[:, place] for place in (0, 4, 8)]
    assert (own[1] - own[0] == 100).all()
    assert (own[2] - own[0] == 200).all()
    assert sorted(own[0].round().astype(int)) == sorted(age(person) for person in COMMON)
    assert (x[:, 1:4] == x[:, 5:8]).all()
    assert data.classes == ("n", "y")
    assert np.bincount(y).tolist() == [75, 75]


def test_columns_are_coded_by_common_training_people_alone(folder):
    data = people(folder).load()
    for place in (0, 4, 8):
        assert abs(data.x[:, place].mean()) < 1e-5
        assert data.x[:, place].std() == pytest.approx(1, abs=1e-5)


def test_the_natural_parties_have_their_own_columns(folder):
    data = people(folder).load()
    made = make_partition("natural", data, None, 0)
    assert made.names == data.holders.names == ("amiens", "basel", "chur")
    assert made.label_holder == data.holders.label_holder == 1
    assert [columns.tolist() for columns in made.columns] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert all((rows == np.arange(data.size)).all() for rows in made.rows)
    for text, parties in (("natural", 2), ("natural(minimum=3)", None)):
        with pytest.raises(UserError, match="each a party with all rows"):
            make_partition(text, data, parties, 0)


def test_people_whom_not_all_know_are_apart(folder):
    holders = people(folder).load().holders
    assert [len(rows) for rows in holders.apart] == [len(KNOWN[name]) - len(COMMON) for name in KNOWN]
    assert [rows.shape[1] for rows in holders.apart] == [4, 4, 4]
    assert len(holders.apart_y) == len(holders.apart[1])
    assert set(np.unique(holders.apart_y)) == {0, 1}


def test_rows_in_another_order_are_the_same_people_in_the_same_places(folder):
    before = people(folder).load()
    lines = (folder / "chur.csv").read_text().splitlines()
    (folder / "chur.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    after = people(folder).load()
    assert (after.y == before.y).all()
    assert (after.y_test == before.y_test).all()
    assert np.abs(after.x - before.x).max() < 1e-5  # means are sums of floats, whose order shows in the last bits
    assert np.abs(after.x_test - before.x_test).max() < 1e-5


def test_a_name_says_all_of_it(folder):
    text = f"people:{folder}(label=ill,id=who,id_case=keep)"
    assert load_dataset(text).holders.label_holder == 1
    assert DATASETS.build(text) == people(folder, id_case="keep")
    assert len(people(folder).fingerprint()) == 64
    assert people("").fingerprint() == ""


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ((), "no site has the column ill: say which with --label"),
        (("amiens", "chur"), "amiens and chur have the column ill, but one site has the labels"),
    ],
)
def test_one_site_has_the_label(tmp_path, label, said):
    write(tmp_path, label=label)
    with pytest.raises(UserError, match=said):
        people(tmp_path).load()


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            {"amiens": range(100), "basel": range(100, 220)},
            r"Of 100 and 120 ids, 0 are common\. Is the id written",
        ),
        (
            {"amiens": range(90), "basel": range(200)},
            r"Of 90 and 200 ids, 90 are common, fewer than least_common=100",
        ),
        ({"basel": range(200)}, "There is one table"),
    ],
)
def test_too_few_common_people_are_refused(tmp_path, known, said):
    write(tmp_path, known)
    with pytest.raises(UserError, match=said):
        people(tmp_path).load()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"id": ("whom",)}, r"amiens: Unknown id column 'whom'\. Did you mean 'who'"),
        ({"id": ()}, "The id is one column or several"),
        ({"id": ("ill",)}, "cannot be the id and the label"),
        ({"ignore": ("agee",)}, r"Unknown ignored column 'agee'\. Did you mean 'age'"),
        ({"types": "agee:category"}, "Unknown column in types or categories 'agee'"),
        ({"ignore": ("age", "kind")}, "nothing to learn from|No column"),
        ({"least_common": 1}, "least_common must be >= 2"),
        ({"test": 0.9}, "test must be above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(folder, more, said):
    with pytest.raises(UserError, match=said):
        people(folder, **more).load()


def test_a_label_that_is_the_same_of_all_common_people_is_refused(tmp_path):
    write(tmp_path, outcome=lambda person: "n" if person in COMMON else "y")
    with pytest.raises(UserError, match=r"basel: The label ill is 'n' in every row"):
        people(tmp_path).load()


def test_a_site_with_a_duplicate_is_named(folder):
    with (folder / "amiens.csv").open("a") as file:
        file.write("p3,40,x\n")
    with pytest.raises(UserError, match=r"amiens: 1 id occurs twice \(first in lines \d+ and 202\)"):
        people(folder).load()


def test_missing_values_follow_the_rule(folder):
    lines = (folder / "chur.csv").read_text().splitlines()
    holes = [f"{line.split(',')[0]},,x" if line.startswith("P10") else line for line in lines]
    gone = {int(line.split(",")[0][1:]) for line in lines if line.startswith("P10")} & set(COMMON)
    (folder / "chur.csv").write_text("\n".join(holes) + "\n")
    with pytest.raises(UserError, match="chur: column age: the value in line"):
        people(folder).load()
    dropped = people(folder, missing="drop").load()
    assert dropped.size + len(dropped.y_test) == len(COMMON) - len(gone)
    indicates = people(folder, missing="indicate").load()
    assert "chur.age_missing" in indicates.features
    keeps = people(folder, missing="keep").load()
    assert int(np.isnan(np.concatenate([keeps.x, keeps.x_test])[:, 8]).sum()) == len(gone)
    wide = indicated(keeps)
    assert wide.holders.columns[2].tolist() == [8, 9, 10, 11, 12]
    assert wide.features[12] == "chur.age_missing"


def test_a_data_set_of_several_tables_is_not_saved(folder, tmp_path):
    with pytest.raises(UserError, match="Keep these: they make it again"):
        people(folder).load().save(tmp_path / "kept")


def test_rows_that_were_not_matched_here_are_refused():
    rule = PeopleRule(IdRule(("who",)), "ill")
    columns = [Column.of("who", [f"{n}" for n in range(50)]), Column.of("age", [f"{age(n)}" for n in range(50)])]
    assert side_people(columns, np.arange(40), rule).x.shape == (40, 1)
    for matched in (np.array([3, 60]), np.array([3, 3]), np.array([-1, 2])):
        with pytest.raises(UserError, match="rows that were matched are not in this table"):
            side_people(columns, matched, rule)


def test_numbers_can_be_predicted(tmp_path):
    write(tmp_path, outcome=lambda person: f"{person / 7:.3f}")
    data = people(tmp_path, task="regression").load()
    assert data.task == "regression"
    assert len(data.holders.apart_y) == len(KNOWN["basel"]) - len(COMMON)
