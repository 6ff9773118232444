"""The federation file: it survives being written, its digest covers all of it, mistakes are one line."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.federation import second_edition  # noqa: F401  registers algorithms
from unalike.errors import UserError
from unalike.federation.plan import FILE, Plan

KEY = "ab" * 32
GOOD = {"name": "heart", "parties": ["a", "b", "c"], "server": KEY, "address": "localhost:1"}


def plan(**changes):
    return Plan.from_mapping({**GOOD, **changes})


OTHERS = {
    "name": "lung",
    "parties": ["a", "b"],
    "server": "cd" * 32,
    "train": {"rounds": 7},
    "label": "outcome",
    "ignore": ["id"],
    "missing": "drop",
    "test": 0.3,
    "quorum": 2,
    "deadline": 60,
    "figures": "none",
    "most_bytes": 2**20,
    "measure": False,
    "public": "cd" * 32,
    "types": "cp:category born:date",
}
OF_IDS = {"id": ["who"], "id_case": "keep", "id_strip": False, "least_common": 7, "most_ids": 500}
COLUMNS = {"train": {"algorithm": "vertical", "model": "logistic"}, "label": "outcome"}
DERIVED = ("sends", "code", *OF_IDS)
"""What the algorithm decides: a plan that says otherwise is refused."""


@pytest.mark.parametrize("key", [each.name for each in dataclasses.fields(Plan) if each.name not in DERIVED])
def test_the_digest_covers_everything_but_the_address(key):
    if key == "address":
        assert plan(address="elsewhere:2").digest == plan().digest
    else:
        assert plan(**{key: OTHERS[key]}).digest != plan().digest


@pytest.mark.parametrize("key", OF_IDS)
def test_the_digest_covers_how_people_are_matched(key, tmp_path):
    other = plan(**{**COLUMNS, "id": ["patient"], key: OF_IDS[key]})
    assert other.digest != plan(**COLUMNS, id=["patient"]).digest
    other.write(tmp_path)
    assert Plan.read(tmp_path) == other
    assert Plan.read(tmp_path).digest == other.digest


def test_a_plan_without_ids_says_nothing_of_them(tmp_path):
    assert not set(OF_IDS) & set(plan().to_dict())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({**COLUMNS}, "Say which column tells who a row is of: --id COLUMN"),
        ({"id": ["who"], "label": "outcome"}, "nobody is matched"),
        ({**COLUMNS, "id": ["who"], "label": ""}, "say which column it is with --label"),
        ({**COLUMNS, "id": ["who", "who"]}, "each once"),
        ({**COLUMNS, "id": ["who"], "id_case": "upper"}, "Unknown id_case"),
        ({**COLUMNS, "id": ["who"], "id_strip": "yes"}, "id_strip cannot be 'yes'"),
        ({**COLUMNS, "id": ["who"], "least_common": 1}, "least_common must be"),
        ({**COLUMNS, "id": ["who"], "most_ids": 10**8}, "at most 4,000,000"),
        ({**COLUMNS, "id": ["who"], "public": "cd" * 32}, "no public rows in common"),
        ({**COLUMNS, "id": "who"}, "id must be a list of names"),
    ],
)
def test_what_makes_no_sense_of_matching_is_refused(changes, said):
    with pytest.raises(UserError, match=said):
        plan(**changes)


@pytest.mark.parametrize(
    "train", [{"lr": 0.5}, {"algorithm": "fedprox(mu=0.2)"}, {"seed": 3}, {"channel": "clip(1.0)"}]
)
def test_the_digest_covers_all_of_the_training(train):
    assert plan(train=train).digest != plan().digest


def test_a_plan_says_what_its_algorithm_sends_and_which_code_it_is(tmp_path):
    assert (plan().sends, plan().code) == ("updates", "")
    own = plan(train={"algorithm": "site-mean-rows"})
    assert own.sends == "mean rows"
    assert len(own.code) == 16
    own.write(tmp_path)
    text = (tmp_path / FILE).read_text()
    assert 'sends = "mean rows"' in text
    assert Plan.read(tmp_path).digest == own.digest
    for changed, reason in [
        (text.replace("mean rows", "updates"), "site sends updates, but site-mean-rows sends mean rows"),
        (text.replace(own.code, "0" * 16), "the same --plugin file"),
    ]:
        (tmp_path / FILE).write_text(changed)
        with pytest.raises(UserError, match=reason):
            Plan.read(tmp_path)


def test_defaults_are_written_out(tmp_path):
    plan().write(tmp_path)
    assert "rounds = " in (tmp_path / FILE).read_text()
    assert Plan.read(tmp_path).digest == plan().digest
    assert plan(train=plan().train).digest == plan().digest


@given(st.text(max_size=20), st.lists(st.text(max_size=8), max_size=3))
@settings(max_examples=60, deadline=None)
def test_a_plan_survives_its_file(tmp_path_factory, label, ignore):
    folder = tmp_path_factory.mktemp("plan")
    made = plan(**{**OTHERS, "label": label, "ignore": ignore})
    made.write(folder)
    again = Plan.read(folder)
    assert again == made
    assert again.digest == made.digest


BAD = [
    ("name", ["", "two words", "a/b", "../x", "server", "anybody", "x" * 41, "1a", 5, "a\n", None]),
    ("parties", [[], ["a"], ["b", "a"], ["a", "a"], ["a", "../b"], ["a", 5], "ab", 5, ["a", "server"]]),
    ("server", ["", "zz" * 32, KEY[:-2], KEY.upper(), 5]),
    ("address", [5, None]),
    ("quorum", [-1, 4, 1.5, "2", True]),
    ("deadline", [0, 1e9, math.nan, math.inf, "60", True]),
    ("test", [0, 0.6, -1, math.nan, "0.2"]),
    ("missing", ["ignore", 5, ["drop"]]),
    ("figures", ["some", None]),
    ("most_bytes", [0, -1, 2**40, "1", 1e6, math.nan]),
    ("label", [5]),
    ("public", [5, "ab", "zz" * 32, KEY.upper()]),
    ("sends", [5, "rows", "nothing"]),
    ("code", [5, "0123456789abcdef"]),
    ("measure", [1, "yes"]),
    ("ignore", ["id", [5]]),
    (
        "train",
        [
            5,
            "x",
            ["a"],
            {"rounds": 0},
            {"lr": "x"},
            {"colour": 1},
            {"dataset": "heart"},
            {"engine": "flower"},
            {"parties": 3},
            {"public": 0.1},
            {"newcomers": 0.1},
            {"test_by": "labels"},
            {"algorithm": "nothing"},
            {"channel": "nonsense"},
        ],
    ),
]


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD for value in values])
def test_a_bad_value_is_one_line(key, value):
    with pytest.raises(UserError) as caught:
        plan(**{key: value})
    assert "\n" not in str(caught.value)
    assert "argument" not in str(caught.value)  # not a complaint of Python's


def test_a_bad_file_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"has no federation\.toml"):
        Plan.read(tmp_path)
    for content, why in [
        (b"name = ", "is not a TOML file"),
        (b"\xff", "Cannot read"),
        (b"", "not complete"),
        (b"nmae = 1", "nmae"),
    ]:
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(UserError, match=why):
            Plan.read(tmp_path)


def test_who_is_who():
    assert [plan().number(name) for name in "abc"] == [0, 1, 2]
    with pytest.raises(UserError, match="d"):
        plan().number("d")
    assert plan().needed(2) == 2
    assert plan(quorum=2).needed(3) == 2
    assert plan(quorum=2).needed(1) == 1


@pytest.mark.parametrize("channel", ["masked", "clip(1.0)+masked(64)", "encrypted"])
@pytest.mark.parametrize(
    ("parties", "sample", "least"),
    [(3, 1.0, 3), (4, 1.0, 3), (5, 1.0, 4), (6, 1.0, 4), (7, 1.0, 5), (9, 1.0, 6), (10, 1.0, 7), (10, 0.5, 4)],
)
def test_hidden_sums_need_a_quorum_that_is_safe(parties, sample, least, channel):
    """With fewer consents, a server and fewer than a third of those it asks could get two sums of one exchange."""
    names, train = [f"s{number}" for number in range(parties)], {"channel": channel, "sample": sample}
    for quorum in range(parties + 1):
        if 0 < quorum < least:
            with pytest.raises(UserError, match=f"quorum of {quorum} is too small .* a quorum of {least} or more"):
                plan(parties=names, quorum=quorum, train=train)
            plan(parties=names, quorum=quorum, train={"sample": sample})  # nothing is hidden
        else:
            assert plan(parties=names, quorum=quorum, train=train).quorum == quorum


@pytest.mark.parametrize("channel", ["masked", "encrypted"])
def test_hidden_sums_need_three_sites(channel):
    for parties, sample in ((["a", "b"], 1.0), (["a", "b", "c"], 0.6), (["a", "b", "c", "d"], 0.25)):
        with pytest.raises(UserError, match=r"needs three or more, [12] are asked"):
            plan(parties=parties, train={"channel": channel, "sample": sample})


def test_the_plan_says_kinds_of_columns(tmp_path):
    own = plan(types="cp:category 'chest pain':ordinal(none<some)")
    own.write(tmp_path)
    assert Plan.read(tmp_path) == own
    assert own.sites("tables").types == own.types
    assert "types" not in plan().to_dict()  # a plan of a time before them keeps its digest
    wrong = {"cp:categry": "Did you mean 'category'", "cp": "Cannot read types", 5: "types cannot be 5"}
    for types, said in wrong.items():
        with pytest.raises(UserError, match=said):
            plan(types=types)


def test_missing_values_are_kept_for_trees_alone():
    with pytest.raises(UserError, match=r"missing=keep is for trees, but the model is mlp.*Use missing=indicate"):
        plan(missing="keep")
    trees = {"model": "trees", "algorithm": "histogram"}
    assert plan(missing="keep", train=trees).digest != plan(missing="drop", train=trees).digest
