"""The texts that name parts: what is written is what is built, and nothing in a text is ever run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.registry import Registry, parse, text_of

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
    assert parse("a(1, b, c='d')", "thing") == ("a", [1, "b"], {"c": "d"})
