"""The texts that name parts: what is written is what is built, and nothing in a text is ever run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.part_text import parse, text_of
from unalike.registry import CompositionRegistry, Registry

THINGS: Registry[Any] = Registry("thing")


@THINGS.register("plain")
class Plain:
    """Nothing to set."""


@THINGS.register("mlp", paper="A paper")
class Net:
    """A net.

    More about it.
    """

    hidden: tuple[int, ...] = (32, 16)


@THINGS.register("mixed-up+")
class Mixed:
    """One of each kind."""

    rate: float
    steps: int = 3
    nesterov: bool = False
    norm: Literal["batch", "none"] = "none"
    limit: int | None = None
    label: str = ""
    sizes: tuple[float, ...] = ()


class Way:
    """What all of the following are."""


WAYS: Registry[Any] = Registry("way")


@WAYS.register("direct+")
class Direct(Way):
    """A way without parameters, the name of which is no word of Python's."""


@WAYS.register("slow")
class Slow(Way):
    """A way with parameters of its own."""

    speed: float = 1.0
    note: str = ""


@WAYS.register("by-way")
class ByWay(Way):
    """A way made of others."""

    base: Way = Slow(speed=2.0)
    least: Slow | None = None
    length: int = 3


LEAVES = st.just(Direct()) | st.builds(Slow, speed=st.floats(-1e9, 1e9), note=st.text())
SLOW = st.builds(Slow, speed=st.floats(-1e9, 1e9), note=st.text(alphabet="ab'\"\\,()[]{}=|+ \n"))
NESTED = st.recursive(
    LEAVES | SLOW,
    lambda inner: st.builds(ByWay, base=inner, least=st.none() | SLOW, length=st.integers()),
)

MIXED = st.builds(
    Mixed,
    rate=st.floats(allow_nan=False, allow_infinity=False),
    steps=st.integers(-(10**18), 10**18),
    nesterov=st.booleans(),
    norm=st.sampled_from(["batch", "none"]),
    limit=st.none() | st.integers(),
    label=st.text(alphabet=st.characters(codec="utf-8")),
    sizes=st.lists(st.floats(-1e9, 1e9)).map(tuple),
)


@given(MIXED | st.builds(Net, hidden=st.lists(st.integers()).map(tuple)))
def test_description_builds_the_same_part(part: Any) -> None:
    text = THINGS.describe(part)
    assert THINGS.build(text) == part
    assert THINGS.describe(THINGS.build(text)) == text


@given(NESTED)
def test_parts_in_parts_come_back_from_each_of_their_texts(part: Any) -> None:
    text = WAYS.describe(part)
    assert WAYS.build(text) == part
    assert WAYS.describe(WAYS.build(text)) == text
    assert WAYS.build(WAYS.told(part)) == part


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("by-way", ByWay()),
        ("by-way(direct+)", ByWay(Direct())),
        ("by-way(base=direct+)", ByWay(Direct())),
        ("by-way( base = 'direct+' , length=4)", ByWay(Direct(), length=4)),
        ("by-way(base=slow)", ByWay(Slow())),
        ("by-way(slow(3, note='a, (b'), slow, 4)", ByWay(Slow(3.0, "a, (b"), Slow(), 4)),
        ("by-way(base=by-way(base=by-way(direct+), length=4))", ByWay(ByWay(ByWay(Direct()), length=4))),
        ("by-way(least=None)", ByWay()),
        ("by-way(least=slow(2))", ByWay(least=Slow(2.0))),
    ],
)
def test_a_field_may_be_a_part(text: str, built: object) -> None:
    assert WAYS.build(text) == built


def test_texts_of_parts_in_parts() -> None:
    assert WAYS.describe(ByWay(Slow(3.0))) == "by-way(base=slow(speed=3.0, note=''), least=None, length=3)"
    assert WAYS.describe(ByWay(Direct())) == "by-way(base=direct+, least=None, length=3)"
    assert WAYS.told(ByWay()) == "by-way()"
    assert WAYS.told(ByWay(Slow())) == "by-way(base=slow())"
    assert WAYS.told(ByWay(ByWay(Slow(3.0)))) == "by-way(base=by-way(base=slow(speed=3.0)))"
    assert WAYS.brief(ByWay()) == "by-way"
    assert WAYS.brief(ByWay(Slow(3.0), length=4)) == "by-way(slow(3.0), length=4)"
    assert WAYS.build(WAYS.brief(ByWay(Slow(3.0), length=4))) == ByWay(Slow(3.0), length=4)


def test_members_are_all_parts_at_any_depth() -> None:
    assert WAYS.members(Direct()) == [Direct()]
    deep = ByWay(ByWay(Direct()), least=Slow())
    assert WAYS.members(deep) == [deep, deep.base, Direct(), Slow()]
    assert WAYS.terms(deep) == [deep]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("by-way(base=sloww)", "Unknown way 'sloww'. Did you mean 'slow'?"),
        ("by-way(base=by-way(base=slow(sped=1)))", "Unknown parameter of slow 'sped'. Did you mean 'speed'?"),
        ("by-way(base=slow(speed=fast))", "slow's speed must be a number, got 'fast'."),
        ("by-way(base=3)", "Cannot read the way '3'. Write name"),
        ("by-way(base=None)", "Unknown way 'None'. Known: by-way, direct+, slow."),
        ("by-way(base=)", "Cannot read the way ''. Write name"),
        ("by-way(base=[slow])", "Cannot read the way '[slow]'. Write name"),
        ("by-way(base=slow+slow)", "Unknown way 'slow+slow'."),
        ("by-way(base='slow)", "Cannot read the way"),
        ("by-way(least=direct+)", "by-way's least must be one of slow, got 'direct+'."),
        ("slow(speed=slow(1))", "Cannot read the way 'slow(speed=slow(1))'. Write name"),
        ("by-way(base=" * 1500 + "slow" + ")" * 1500, "Cannot read the way "),
    ],
)
def test_mistakes_in_a_part_in_a_part_are_named(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        WAYS.build(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_part_that_is_not_registered_has_no_text() -> None:
    with pytest.raises(UserError, match="Stranger is not a registered way"):
        WAYS.describe(ByWay(Stranger()))


@dataclass(frozen=True)
class Stranger(Way):
    """A way that nobody registered."""


@dataclass(frozen=True)
class Together:
    """Several things."""

    parts: tuple[Any, ...]


LISTS = CompositionRegistry("thing", lambda parts: parts[0] if len(parts) == 1 else Together(parts), sign="|")


@LISTS.register("parts")
class Parts:
    """Its field is called as that of a composition is, and is none."""

    parts: int = 3
    label: str = ""


@given(st.lists(st.builds(Parts, parts=st.integers(), label=st.text(alphabet="a|'\"\\()")), min_size=1))
def test_joined_parts_come_back_from_their_text(single: list[Any]) -> None:
    part = LISTS.build(LISTS.describe(Together(tuple(single))))
    assert part == (Together(tuple(single)) if len(single) > 1 else single[0])
    assert LISTS.terms(part) == LISTS.members(part) == single
    assert LISTS.build(LISTS.told(part)) == part
    assert LISTS.brief(part).count("parts") == len(single)


@pytest.mark.parametrize("text", ["parts||parts", "parts|", "|parts", "| ", "parts(3)| |parts"])
def test_nothing_beside_a_sign_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        LISTS.build(text)
    assert str(caught.value) == f"The thing {text!r} has an empty part. Write a name on both sides of |."


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("plain", Plain()),
        ("  plain()  ", Plain()),
        ("mlp", Net((32, 16))),
        ("mlp(8)", Net((8,))),
        ("mlp(8, 4,2)", Net((8, 4, 2))),
        ("mlp(hidden=[8, 4])", Net((8, 4))),
        ("mlp(hidden=(8, 4))", Net((8, 4))),
        ("mixed-up+(0.5)", Mixed(0.5)),
        ("mixed-up+(1, 2, true, batch)", Mixed(1.0, 2, True, "batch")),
        ("mixed-up+(rate=-1e-3, norm='batch', nesterov=False)", Mixed(-0.001, norm="batch")),
        ("mixed-up+(1, 4.0)", Mixed(1.0, 4)),
    ],
)
def test_text_is_read(text: str, built: object) -> None:
    assert THINGS.build(text) == built


def test_numbers_get_the_type_of_their_field() -> None:
    mixed = THINGS.build("mixed-up+(1, 4.0)")
    assert isinstance(mixed.rate, float)
    assert isinstance(mixed.steps, int)


def test_description_is_written_out() -> None:
    assert THINGS.describe(Plain()) == "plain"
    assert THINGS.describe(Net((8, 4))) == "mlp(8,4)"
    assert THINGS.describe(Net(())) == "mlp(hidden=())"
    assert THINGS.describe(Mixed(0.5, nesterov=True)) == (
        "mixed-up+(rate=0.5, steps=3, nesterov=true, norm='none', limit=None, label='', sizes=())"
    )
    with pytest.raises(UserError, match="str is not a registered thing"):
        THINGS.describe("plain")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        "mlp(",
        "mlp)",
        "mlp(8",
        "mlp(8))",
        "mlp(1)(2)",
        "mlp(1)+(2)",
        "1mlp",
        "mlp; plain",
        "mlp(*[1, 2])",
        "mlp(**{'hidden': 3})",
        "mixed-up+(rate=1, rate=2)",
        "mixed-up+(rate=1, 2)",
        "mlp({[]: 1})",
        "mlp(\0)",
        "mlp(" + "(" * 500 + ")" * 500 + ")",
        "mlp(" + "9" * 5000 + ")",
    ],
)
def test_unreadable_text_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"Cannot read the thing .* Write name"):
        THINGS.build(text)


@pytest.mark.parametrize(
    "code",
    [
        '__import__("os")',
        "open('{path}', 'w')",
        "(lambda: open('{path}', 'w'))()",
        "[open('{path}', 'w') for _ in (1,)]",
        "hidden=open('{path}', 'w')",
        "f\"{{open('{path}', 'w')}}\"",
        "().__class__.__base__.__subclasses__()",
        "10 ** 10 ** 10",
    ],
)
def test_code_in_a_text_is_never_run(code: str, tmp_path: Path) -> None:
    path = tmp_path / "written"
    with pytest.raises(UserError, match="Cannot read"):
        THINGS.build(f"mlp({code.format(path=path)})")
    assert not path.exists()


@given(st.text(), st.text())
def test_any_text_is_built_or_refused_in_one_line(name: str, inside: str) -> None:
    for text in (name, f"mlp({inside})", f"mixed-up+({inside})"):
        message = ""
        try:
            THINGS.build(text)
        except UserError as error:
            message = str(error)
        assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mpl", "Unknown thing 'mpl'. Did you mean 'mlp'?"),
        ("zzzzzz", "Unknown thing 'zzzzzz'. Known: mixed-up+, mlp, plain."),
        ("mixed-up+(rat=1)", "Unknown parameter of mixed-up+ 'rat'. Did you mean 'rate'?"),
        ("mixed-up+", "mixed-up+ needs rate. Write mixed-up+(rate=...)."),
        ("plain(1)", "plain takes no values, got 1."),
        ("mixed-up+(1, rate=2)", "mixed-up+ got rate twice."),
        ("mixed-up+(fast)", "mixed-up+'s rate must be a number, got 'fast'."),
        ("mixed-up+(true)", "mixed-up+'s rate must be a number, got True."),
        ("mixed-up+(1e999)", "mixed-up+'s rate must be a number, got inf."),
        ("mixed-up+(" + "9" * 400 + ")", "mixed-up+'s rate must be a number, got 999"),
        ("mixed-up+(1, 2.5)", "mixed-up+'s steps must be a whole number, got 2.5."),
        ("mixed-up+(1, " + "9" * 400 + ")", "mixed-up+'s steps must be a whole number, got 999"),
        ("mixed-up+(1, nesterov=1)", "mixed-up+'s nesterov must be true or false, got 1."),
        ("mixed-up+(1, norm=layer)", "mixed-up+'s norm must be one of batch, none, got 'layer'."),
        ("mixed-up+(1, limit=few)", "mixed-up+'s limit must be a whole number, got 'few'."),
        ("mixed-up+(1, label=3.5)", "mixed-up+'s label must be text, got 3.5."),
        ("mlp(8, wide)", "mlp's hidden must be a whole number, got 'wide'."),
    ],
)
def test_wrong_values_are_named(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        THINGS.build(text)
    assert str(caught.value).startswith(message)


def test_table_becomes_text() -> None:
    table = {"name": "mixed-up+", "rate": 1, "norm": "batch", "nesterov": True, "sizes": [1.5]}
    assert THINGS.build(text_of(table, "thing")) == Mixed(1.0, nesterov=True, norm="batch", sizes=(1.5,))
    with pytest.raises(UserError, match=r"needs a name, got {'rate': 1}"):
        text_of({"rate": 1}, "thing")


def test_a_table_in_a_table_is_a_part_in_a_part() -> None:
    table = {"name": "by-way", "base": {"name": "by-way", "base": {"name": "slow", "note": "a, b"}}, "length": 4}
    assert WAYS.build(text_of(table, "way")) == ByWay(ByWay(Slow(note="a, b")), length=4)
    assert WAYS.build(text_of({"name": "by-way", "base": "slow(3)"}, "way")) == ByWay(Slow(3.0))
    with pytest.raises(UserError, match=r"A table for the base of by-way needs a name, got {'speed': 1}"):
        text_of({"name": "by-way", "base": {"speed": 1}}, "way")


def test_listing_has_names_papers_and_first_lines() -> None:
    assert [entry.name for entry in THINGS] == ["mixed-up+", "mlp", "plain"]
    assert THINGS.entry("mlp").summary == "A net."
    assert THINGS.entry("mlp").paper == "A paper"
    assert [field.name for field in THINGS.entry("mlp").parameters] == ["hidden"]


def test_a_name_is_given_once() -> None:
    with pytest.raises(UserError, match="The thing name 'mlp' is taken by Net"):

        @THINGS.register("mlp")
        class Other:
            """Another one."""

    assert THINGS.entry("mlp").cls is Net


def test_parse_splits_a_text() -> None:
    assert parse("a(1, b, c='d')", "thing") == ("a", ["1", "b"], {"c": "'d'"})
    assert parse("a([1, 2], b(c, d=e), 'f, \\'g',)", "thing") == ("a", ["[1, 2]", "b(c, d=e)", "'f, \\'g'"], {})


@pytest.mark.parametrize("text", [";", "latin-1", "%d.%m.%Y", ".", "cp:category", "a/b.c", "|", "1.2.3"])
def test_text_without_brackets_blanks_or_quotes_needs_none(text):
    """Where text is wanted: elsewhere it is no value, and what is one stays one."""
    part = THINGS.build(f"mixed-up+(0.1, label={text})")
    assert part.label == text
    assert THINGS.build(THINGS.describe(part)) == part
    with pytest.raises(UserError, match="Cannot read the thing"):
        THINGS.build(f"mixed-up+(rate={text})")
    for label, value in (("word", "word"), ("'a b'", "a b"), ("2024", "2024"), ("'it'", "it")):
        assert THINGS.build(f"mixed-up+(0.1, label={label})").label == value
    for wrong in ("a b", "'a", "(a", "a==b", "[a]"):
        with pytest.raises(UserError):
            THINGS.build(f"mixed-up+(0.1, label={wrong})")
