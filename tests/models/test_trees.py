import pytest

from unalike.errors import UserError
from unalike.models import MODELS
from unalike.models.trees import Trees


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trees(max_depth=3)", "max_depth is called depth here. Write trees(depth=...)."),
        ("trees(learning_rate=0.1)", "called eta here"),
        ("trees(n_estimators=50)", "use --rounds"),
        ("trees(depth=0)", "depth must be from 1 to 16, got 0"),
        ("trees(depth=17)", "got 17"),
        ("trees(bins=1)", "bins must be from 2"),
        ("trees(eta=0)", "eta must be above 0 and at most 1"),
        ("trees(rows=1.5)", "rows must be above 0 and at most 1"),
        ("trees(l2=-1)", "l2 must be 0 or more"),
        ("trees(rising=(0, 2), falling=(2,))", "column 2 is both rising and falling"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(text, said):
    with pytest.raises(UserError) as refused:
        MODELS.build(text)
    assert said in str(refused.value)


def test_settings_come_back_from_their_text():
    made = Trees(depth=3, eta=0.05, rising=(1, 4), grow="leaves", leaves=9, objective="squared-error")
    assert MODELS.build(MODELS.describe(made)) == made
