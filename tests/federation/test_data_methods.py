"""Real sites with algorithms that share, mix, copy or give rows: simulation's bits, and what is agreed to."""

import pytest

from tests.federation.inside import World, write_tables
from tests.federation.test_server import assert_same
from unalike.cli.federation.site import _agree_to_rows
from unalike.errors import UserError

RUNS = {
    "share(alpha=0.5, warm=2)": "updates",
    "share(base=fedprox(mu=0.1), warm=0)": "updates",
    "naivemix(groups=2)": "mean rows",
    "fedmix": "mean rows",
    "hybrid-fl(givers=(0, 2), rows=5)": "rows",
    "astraea(gamma=2, alpha=1)": "updates",
    "mixup": "updates",
}
AGREED = RUNS | {"faug(steps=2)": "rows", "xormix": "rows"}


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A table of patients of a hospital that takes no part."""
    folder = tmp_path_factory.mktemp("public")
    write_tables(folder, rows=30, hospitals=("switzerland",))
    return folder / "switzerland.csv"


@pytest.mark.parametrize("algorithm", RUNS)
def test_sites_train_to_the_bits_of_simulation(algorithm, tmp_path, public):
    table = public if algorithm.startswith("share") else None
    world = World.make(tmp_path, public=table, train={"algorithm": algorithm, "model": "mlp(6)", "rounds": 2})
    assert world.plan.sends == RUNS[algorithm]
    world.serve()
    simulation, _ = world.simulation()
    assert_same(world, simulation)


@pytest.mark.parametrize("algorithm", AGREED)
def test_what_gives_rows_or_their_means_away_is_agreed_to_in_these_words(algorithm, tmp_path, public):
    table = public if algorithm.startswith(("share", "xormix")) else None
    plan = World.make(tmp_path, public=table, train={"algorithm": algorithm, "model": "mlp(6)"}).plan
    sends = AGREED[algorithm]
    if sends == "updates":
        _agree_to_rows(plan, None)
    else:
        with pytest.raises(UserError, match=f'sends {sends} of this site\'s own table.*--sends "{sends}"'):
            _agree_to_rows(plan, None)
    _agree_to_rows(plan, sends)
    with pytest.raises(UserError, match=f"sends {sends}, not features. Leave --sends out"):
        _agree_to_rows(plan, "features")


@pytest.mark.parametrize("channel", ["clip(1.0)", "quantise(8)", "masked", "clip(1.0)+gauss(0.5)"])
@pytest.mark.parametrize("algorithm", ["fedmix", "hybrid-fl(givers=(0, 2), rows=5)", "faug(steps=2)"])
def test_no_channel_between_sites_carries_rows_or_their_means(algorithm, channel, tmp_path):
    with pytest.raises(UserError, match="--channel"):
        World.make(tmp_path, train={"algorithm": algorithm, "model": "mlp(6)", "channel": channel}).serve()


def test_tables_of_numbers_cannot_be_xored(tmp_path, public):
    world = World.make(tmp_path, public=public, train={"algorithm": "xormix", "model": "mlp(6)", "rounds": 1})
    assert world.plan.sends == "rows"
    with pytest.raises(UserError, match="XorMix needs rows of bytes, such as pixels; these are not"):
        world.serve()
