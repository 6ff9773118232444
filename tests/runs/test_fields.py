"""What type checkers and editors are told of ``unalike.run`` is what RunSpec is."""

import inspect
from typing import get_type_hints

import unalike
from unalike.runs import fields, run_fields
from unalike.runs.spec import RunSpec


def test_the_file_is_what_the_script_makes():
    assert fields.PATH.read_text(encoding="utf-8") == fields.source(), "run: python -m unalike.runs.fields"


def test_the_typed_fields_are_those_of_a_run():
    typed = run_fields.RunFields.__annotations__
    assert list(typed) == [field.name for field in RunSpec.options()]
    assert "code" not in typed
    assert not run_fields.RunFields.__required_keys__


def test_types_are_those_of_a_run_and_words_stay_literals():
    typed, own = run_fields.RunFields.__annotations__, get_type_hints(RunSpec)
    for name in ("rounds", "lr", "drop_last", "epochs", "test_by", "batch_norm", "augment", "dtype"):
        made = eval(typed[name].__forward_arg__, vars(run_fields))
        assert made == own[name], name


def test_a_part_may_be_a_table_and_two_of_them_objects():
    typed = {name: made.__forward_arg__ for name, made in run_fields.RunFields.__annotations__.items()}
    assert typed["partition"] == "Part"
    assert typed["channel"] == "Part | None"
    assert "Dataset" in typed["dataset"]
    assert "OwnModule" in typed["model"]


def test_help_and_editors_see_the_fields():
    seen = inspect.signature(unalike.run).parameters
    assert next(iter(seen)) == "spec"
    assert seen["algorithm"].default == "fedavg"
    assert seen["progress"].default is None
    assert not [each for each in seen.values() if each.kind is inspect.Parameter.VAR_KEYWORD]
