"""Phases, rows of one's own, round 0, public rows and several nets between real sites: the bits of simulation."""

import math

import pytest
import torch
from safetensors.torch import load_file

from tests.federation import second_edition  # noqa: F401
from tests.federation.inside import FOUR, HOSPITALS, World, write_tables
from unalike.algorithms import Algorithm, ByParty, algorithm
from unalike.channels.accountant import gauss_epsilon
from unalike.data.table import read_table
from unalike.errors import UserError
from unalike.federation.envelope import Envelope, pack, peek, write
from unalike.federation.once import Once
from unalike.federation.terms import terms_of
from unalike.runs.record import read_rounds

NETS = "mlp(6)|mlp(5,4)|logistic"
RUNS = {
    "fedamp": {},
    "ditto": {},
    "ditto(base=scaffold)": {"model": "site-normed"},
    "fedrep": {},
    "per-fedavg": {},
    "fedbn": {"model": "site-normed"},
    "fedmd": {"model": NETS},
    "fd": {"model": NETS},
    "cronus(outliers=0.4)": {"model": NETS},
    "feddf": {},
    "feddf-nets(batches=5)": {"model": NETS},
    "def-kt": {},
    "fedgan(fill=0.5)": {},
    "faug(steps=5)": {},
    "f2u(steps=3)": {},
    "f2a(steps=3)": {},
    "ensemble": {},
    "fedkt(teachers=2)": {},
    "dense(epochs=1, makes=2, learns=2)": {"model": "site-normed"},
    "site-relay": {},
    "ifca": {},
    "fesem": {},
    "apfl": {},
    "dapper": {},
    "lg-fedavg-ensemble": {},
    **{name: {} for name in ("partial(own='body.0')", "fedavg-tuned", "l2gd", "mapper", "fedfmc(every=2)")},
    **{name: {} for name in ("cfl(eps1=9, eps2=0, across=1)", "fl+hc(rounds=1, threshold=0.5)", "kmeans-models")},
}


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A table of patients of a hospital that takes no part."""
    folder = tmp_path_factory.mktemp("public")
    write_tables(folder, rows=30, hospitals=("switzerland",))
    return folder / "switzerland.csv"


def world_of(path, name, public, **more):
    train = {"algorithm": name, "model": "mlp(6)", "rounds": 2, **RUNS.get(name, {}), **more.pop("train", {})}
    used = public if name.startswith(("fedmd", "dapper", "cronus", "feddf", "ensemble", "fedkt")) else None
    return World.make(path, public=used, train=train, **more)


def exchanges(world):
    """By site, the (round, turn) of the exchanges that it was asked."""
    asked = {node: [] for node in world.transport.sites}
    for node, raw, _ in world.transport.log:
        header = peek(raw).header
        if "ask" in header and header["kind"] == "exchange":
            asked[node].append((header["round"], header["turn"]))
    return asked


def refused(world):
    return [peek(answer).header["reason"] for _, _, answer in world.transport.log if peek(answer).kind == "error"]


def close(one, other):
    """Two figures of the same rows, added in another order; None where there is none, which a file has for NaN."""
    one, other = (None if value is not None and math.isnan(value) else value for value in (one, other))
    return one == other if one is None or other is None else one == pytest.approx(other, rel=1e-5, nan_ok=True)


def assert_same_models(path, simulation):
    """What every site has kept in the end is what simulation tries: weights and running statistics."""
    models = simulation.models(simulation.state)
    for number, hospital in enumerate(HOSPITALS):
        expected = simulation.task_of(number).named(*(models.personal or models.shared)(number))
        kept = load_file(path / "sites" / hospital / "model.safetensors")
        assert kept.keys() == expected.keys()
        assert all(torch.equal(kept[key], value) for key, value in expected.items())


@pytest.mark.parametrize("name", RUNS)
def test_real_sites_make_the_bits_of_simulation(name, tmp_path, public):
    world = world_of(tmp_path, name, public)
    result = world.serve()
    simulation, rows = world.simulation()
    assert result["server_sha256"] == simulation.state.server_digest()
    assert world.simulation(world.played)[0].state.digest() == simulation.state.digest()
    last = read_rounds(world.folder.run)[-1]
    # With statistics of its own, a site tries the shared model on its own test rows, simulation on everybody's.
    test = () if simulation.recipe.keeps_statistics else ("loss", "accuracy")
    for key in (*test, "validation_loss", "validation_accuracy", "train_loss"):
        assert close(last[key], rows[-1][key]), key
    for key in ("parties", "personal"):
        assert (key in last) == (key in rows[-1])
        assert all(close(value, rows[-1][key][name]) for name, value in last.get(key, {}).items()), key
    models = simulation.models(simulation.state)
    if models.personal is None and models.shared is None:  # FedGAN trains nets of its own
        assert result["not_reached"] == []
        assert not (tmp_path / "sites" / "va" / "model.safetensors").exists()
        return
    assert_same_models(tmp_path, simulation)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fedmd", "scores on public rows"),
        ("cronus(outliers=0.4)", "scores on public rows"),
        ("fd", "scores by label"),
        ("feddf", "updates"),
    ],
)
def test_the_plan_says_in_words_what_leaves_a_site_and_takes_no_others(name, words, tmp_path, public):
    assert world_of(tmp_path / "said", name, public).plan.sends == words
    with pytest.raises(UserError, match=f"but .* sends {words}"):
        world_of(tmp_path / "other", name, public, sends="nothing")


@pytest.mark.parametrize("name", ["fedamp", "ditto(base=scaffold)", "fedbn", "fedmd", "site-relay"])
def test_sites_and_server_that_restart_change_no_bit(name, tmp_path, public):
    """Both in the middle of the first round (for FedMD: of what prepares), and again between two exchanges."""
    world = world_of(tmp_path, name, public)
    heard = []

    def dying(node, raw):
        header = peek(raw).header
        if header["kind"] == "exchange":
            heard.append(node)
            world.start(node, HOSPITALS[node - 11])  # the site was killed before: nothing but its folder is left
            if len(heard) in (2, 7):
                raise KeyboardInterrupt
        return raw

    world.transport.before = dying
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            world.serve()
    result = world.serve()
    simulation, _ = world.simulation()
    assert result["server_sha256"] == simulation.state.server_digest()
    assert_same_models(tmp_path, simulation)
    assert not refused(world)


def test_a_site_that_is_away_while_all_prepare_is_played_again_to_the_bit(tmp_path, public):
    world = world_of(tmp_path, "fedmd", public, quorum=2, deadline=1)
    lost = []

    def lose(node, answer):
        asked = peek(world.transport.log[-1][1]).header
        if node == 12 and asked.get("round") == 0 and asked["kind"] == "exchange":
            lost.append(asked["turn"])
            return None
        return answer

    world.transport.after = lose
    result = world.serve()
    assert lost
    rows = read_rounds(world.folder.run)
    assert rows[0]["prepared"] == [[0, 2]]
    assert rows[0]["answered"] == [[0, 1, 2], [0, 1, 2]]  # back in round 1, from its state before
    assert "prepared" not in rows[1]
    assert result["server_sha256"] == world.simulation(world.played)[0].state.server_digest()
    assert result["server_sha256"] != world.simulation()[0].state.server_digest()


@pytest.mark.parametrize("name", ["fedper", "ditto(base=scaffold)"])
def test_a_site_that_was_never_asked_adapts_what_it_keeps(name, tmp_path, public):
    world = world_of(tmp_path, name, public, train={"rounds": 1, "sample": 0.34})
    world.serve()
    simulation, _ = world.simulation()
    assert len(simulation.state.parties) < len(HOSPITALS)
    assert_same_models(tmp_path, simulation)


def test_statistics_that_a_site_keeps_are_no_state_by_which_it_is_known(tmp_path):
    train = {"model": "site-normed", "batch_norm": "local"}
    world = world_of(tmp_path, "site-newcomers-tune", None, train=train)
    world.serve()
    assert_same_models(tmp_path, world.simulation()[0])


@pytest.mark.parametrize("name", ["ditto", "site-mean-rows", "ifca(clusters=1)", "ifca(option=gradient)"])
def test_hidden_sums_of_phases_and_of_what_prepares(name, tmp_path, public):
    world = world_of(tmp_path, name, public, train={"channel": "masked"})
    assert world.serve()["server_sha256"] == world.simulation()[0].state.server_digest()
    assert not exchanges(world)[11]  # not one single upload was asked for


def test_as_many_more_must_be_in_a_cluster_as_sites_may_be_missing(tmp_path):
    """Of three members of a cluster one may leave after they were counted, and then the sum would be of two."""
    train = {"channel": "masked", "algorithm": "ifca", "rounds": 1}
    few = World.make(tmp_path / "few", FOUR, quorum=3, train=train)
    with pytest.raises(UserError, match=r"Ifca\.least must be >= 4.*Write least=4, or ask for all parties"):
        few.serve()
    train["algorithm"] = "ifca(clusters=1, least=4)"
    enough = World.make(tmp_path / "enough", FOUR, quorum=3, train=train)
    assert enough.serve()["server_sha256"] == enough.simulation()[0].state.server_digest()


@pytest.mark.parametrize("step", [2, 5, 6])
def test_a_server_that_dies_in_a_hidden_sum_of_round_0_goes_on(step, tmp_path, public):
    world = world_of(tmp_path, "site-mean-rows", public, train={"channel": "masked"})
    heard = []

    def dying(node, raw):
        if peek(raw).kind in ("greet", "add"):
            heard.append(node)
            if len(heard) == step:
                raise KeyboardInterrupt
        return raw

    world.transport.before = dying
    with pytest.raises(KeyboardInterrupt):
        world.serve()
    assert world.serve()["server_sha256"] == world.simulation()[0].state.server_digest()


@pytest.mark.parametrize(
    ("channel", "multiplier"),  # a party that changes its rows moves what it sends by twice the bound
    [("clip(1.0)+gauss(0.5)", 0.5), ("clip(1.0)+gauss(0.5,where=party)", 0.25)],
)
def test_the_epsilon_that_a_site_agreed_to_has_round_0_in_it(channel, multiplier, tmp_path, public):
    world = world_of(tmp_path, "site-mean-rows", public, train={"channel": channel})
    told = world.serve()["privacy"]["epsilon"]
    assert told == gauss_epsilon(multiplier, 3, 1e-5)  # two rounds of one exchange, and one before them
    columns = read_table(str(tmp_path / "tables" / "va.csv"))
    assert terms_of(world.plan, "va", columns).epsilon == told


def test_norms_of_rounds_that_upload_nothing_do_not_accuse_anybody(tmp_path, public):
    world = world_of(tmp_path, "fedmd", public)
    world.serve()
    norms = read_rounds(world.folder.run)[0]["norms"]
    assert [sorted(each) for each in norms] == [sorted(HOSPITALS)] * 3
    assert set(norms[0].values()) == set(norms[2].values()) == {0.0}
    assert not any("times as long" in line for line in world.said)


def test_a_site_that_weighs_more_than_its_rows_is_refused_in_phases_too(tmp_path, public):
    world = world_of(tmp_path, "fedrep", public, deadline=1)
    site = world.transport.sites[11]
    size = 0

    def heavier(node, answer):
        nonlocal size
        message = peek(answer)
        if node != 11 or "arrays" not in message.header or peek(world.transport.log[-1][1]).kind != "exchange":
            return answer
        vectors = message.vectors()
        size = float(vectors["message/engine/weight"])
        vectors = {key: value * 2 if key.startswith("message/") else value for key, value in vectors.items()}
        arrays, body = pack(vectors)
        return write(Envelope({**message.header, "arrays": arrays}, body), site.signer)

    world.transport.after = heavier
    with pytest.raises(UserError, match="training rows that it agreed with weigh"):
        world.serve()
    assert size > 1


def test_a_site_is_sent_its_own_row_and_no_other(tmp_path, public):
    world = world_of(tmp_path, "fedamp", public)
    world.serve()
    simulation, _ = world.simulation()
    clouds = simulation.algorithm.send(simulation.task, simulation.state.server)["u"].values
    last = {}
    for node, raw, _ in world.transport.log:
        message = peek(raw)
        if message.kind in ("exchange", "evaluate", "finish"):
            vectors = message.vectors()
            assert vectors["payload/u"].shape == clouds[0].shape
            assert not any(value.numel() > clouds[0].numel() for value in vectors.values())
            last[node, message.kind] = vectors["payload/u"]
    for number in range(3):
        for kind in ("evaluate", "finish"):
            assert torch.equal(last[11 + number, kind], clouds[number])
    assert not torch.equal(clouds[0], clouds[1])


def test_who_is_not_asked_hears_nothing_and_is_there_in_the_next_exchange(tmp_path, public):
    world = world_of(tmp_path, "site-relay", public)
    world.serve()
    assert exchanges(world) == {
        11: [(1, 0), (1, 2), (2, 2)],
        12: [(1, 1), (1, 2), (2, 0), (2, 2)],
        13: [(1, 2), (2, 1), (2, 2)],
    }
    assert [row["answered"] for row in read_rounds(world.folder.run)] == [
        [[0], [1], [0, 1, 2]],
        [[1], [2], [0, 1, 2]],
    ]


def bent(world, change, kind="exchange"):
    """A hostile server: what the first site is asked is changed, and signed by the server itself."""

    def before(node, raw):
        message = peek(raw)
        if node != 11 or message.kind != kind:
            return raw
        header, vectors = change(dict(message.header), message.vectors())
        arrays, body = pack(vectors)
        return write(Envelope({**header, "arrays": arrays}, body), world.folder.signer())

    world.transport.before = before


def with_header(**more):
    return lambda header, vectors: (header | more, vectors)


def all_rows(header, vectors):
    return header, {key: value.expand(3, -1) if key.endswith("/u") else value for key, value in vectors.items()}


ATTACKS = [
    ("fedamp", all_rows, "its payload is"),
    (
        "fedrep",
        with_header(phases=[{"name": "head", "epochs": 1000, "trains": "head"}]),
        "'phases', which a site",
    ),
    ("fedrep", with_header(epochs=1000), "'epochs', which a site"),
    ("fedrep", with_header(phase="head"), "it asks to"),
    ("site-relay", with_header(rows="train"), "'rows', which a site"),
    ("ditto", with_header(to=[0]), "'to', which a site"),
    ("ditto", with_header(round=0), "it is of round 0"),
    ("fedmd", with_header(turn=1), "exchanges in a round"),
]


@pytest.mark.parametrize(("name", "change", "reason"), ATTACKS)
def test_what_a_server_may_not_decide_is_refused(name, change, reason, tmp_path, public):
    world = world_of(tmp_path, name, public, deadline=1)
    bent(world, change)
    with pytest.raises(UserError, match=reason):
        world.serve()
    assert not world.transport.sites[11]._vault.versions  # nothing was trained


@pytest.mark.parametrize("kind", ["evaluate", "finish"])
@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [("fedamp", all_rows, "its payload is"), ("fedmd", with_header(round=0), "before round 1")],
)
def test_models_are_tried_at_the_agreed_place_only(kind, name, change, reason, tmp_path, public):
    world = world_of(tmp_path, name, public)
    bent(world, change, kind)
    world.serve()
    assert any(reason in line for line in refused(world))


def test_phases_come_from_the_sites_own_algorithm_and_not_from_the_message(tmp_path, public):
    """The whole of what a server may say, and no word of phases, rows or learning rate in it."""
    world = world_of(tmp_path, "fedmd", public)
    world.serve()
    said = {key for _, raw, _ in world.transport.log for key in peek(raw).header if peek(raw).kind == "exchange"}
    envelope = {"kind", "sender", "receiver", "plan", "number", "heard", "arrays"}
    assert said - envelope == {
        *("schema", "ask", "phase", "round", "turn", "base", "keep", "version", "most_rows"),
    }


def test_a_row_of_ones_own_cannot_be_hidden_in_a_sum(tmp_path, public):
    class Shared(Algorithm):
        """Everybody is sent a row, and a sum would do."""

        def send(self, task, server):
            rows = server["w"].expand(task.population, -1)
            return {"w": ByParty(rows, torch.arange(task.population))}

    algorithm("site-shared")(Shared)
    world = world_of(tmp_path, "site-shared", public, train={"channel": "masked"})
    with pytest.raises(UserError, match="sends every site a w of its own"):
        world.serve()


@pytest.mark.parametrize("where", ["server", "sites/va"])
def test_another_public_table_is_refused_before_anything_is_said(where, tmp_path, public):
    world = world_of(tmp_path, "fedmd", public)
    path = tmp_path / where / "public.csv"
    path.write_text(path.read_text().replace("healthy", "disease", 1))
    with pytest.raises(UserError, match="is not the public table of the plan"):
        world.start(13, "va") if "va" in where else world.serve()
    path.unlink()
    with pytest.raises(UserError, match="Cannot read the public table"):
        world.start(13, "va") if "va" in where else world.serve()
    assert not world.transport.log


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("chol", "cholesterol"), "The public table: column chol: it was agreed on"),
        (lambda text: text.replace("disease", "perhaps"), "The public table: column outcome: the label 'perhaps'"),
    ],
)
def test_a_public_table_of_other_columns_or_labels_is_refused_in_one_line(change, reason, tmp_path, public):
    other = tmp_path / "other.csv"
    other.write_text(change(public.read_text()))
    world = world_of(tmp_path, "fedmd", other)
    with pytest.raises(UserError, match=reason):
        world.serve()
    assert not any(exchanges(world).values())


def test_the_same_public_rows_are_packed_and_learnt_everywhere(tmp_path, public):
    """Other public rows, another consensus: they are really used at both ends."""
    world = world_of(tmp_path, "fedmd", public)
    first = world.serve()["server_sha256"]
    other = tmp_path / "other.csv"
    lines = public.read_text().splitlines()
    other.write_text("\n".join([lines[0], *reversed(lines[1:])]))
    assert world_of(tmp_path / "again", "fedmd", other).serve()["server_sha256"] != first


def test_once_json_has_round_0(tmp_path, public):
    world = world_of(tmp_path, "fedmd", public)
    world.serve()
    asked = Once(tmp_path / "sites" / "va" / "once.json").known
    assert {"exchange 0-0", "exchange 1-0", "exchange 1-1", "exchange 2-0", "exchange 2-1"} <= asked.keys()
