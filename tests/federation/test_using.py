"""A site's model on new rows: what its own evaluation found on them, and what plain PyTorch makes of them."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tests.federation import second_edition  # noqa: F401
from tests.federation.inside import HOSPITALS, World, write_tables
from tests.helpers import frozen_model
from unalike.data.roles import test_rows as chosen_rows
from unalike.data.table import read_table
from unalike.errors import UserError
from unalike.federation.using import site_predictor
from unalike.models import MODELS
from unalike.runs.deploy import load, predictor_of
from unalike.runs.kept import FolderModels

KINDS = {
    "one model for all": {},
    "fine-tuned": {"fine_tune": 2},
    "personal": {"algorithm": "fedrep", "model": "mlp(6)"},
    "personal beside a global one": {"algorithm": "ditto", "model": "mlp(6)"},
    "adapted": {"algorithm": "per-fedavg", "model": "mlp(6)"},
    "shared statistics": {"model": "site-normed"},
    "own statistics": {"algorithm": "fedbn", "model": "site-normed"},
    "statistics of the batch": {"model": "site-normed", "batch_norm": "drop"},
    "several nets": {"algorithm": "fedmd", "model": "mlp(6)|mlp(5,4)|logistic"},
    "frozen layers": {"model": frozen_model("body.1")},
    "double precision": {"dtype": "float64", "score": "auroc"},
}


def trained(path, rounds=2, public=None, **train):
    """A federation after its training, whose sites have the folders that real ones have."""
    world = World.make(path, public=public, train={"rounds": rounds, **train})
    world.serve()
    return with_invitations(world)


def with_invitations(world):
    for name in world.plan.parties:
        folder = world.path / "sites" / name
        world.plan.write(folder)
        (folder / "party.txt").write_text(f"{name}\n")
    (world.path / "server" / "invitations").mkdir(exist_ok=True)
    return world


def public_rows(path):
    write_tables(path, rows=30, hospitals=("switzerland",))
    return path / "switzerland.csv"


def lines(world, name):
    """A site's table: the names of its columns, and its rows."""
    with (world.path / "tables" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    return head, rows


def write(path, head, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return f"csv:{path}"


def own_rows(world, number, kind):
    """Which rows of its table a site has judged its model on, under that name."""
    head, rows = lines(world, HOSPITALS[number])
    labels = np.array([row[head.index("outcome")] == "healthy" for row in rows]).astype(int)
    test = chosen_rows(labels, np.zeros(len(rows), int), world.plan.test)
    if kind == "test":
        return np.flatnonzero(test)
    return np.flatnonzero(~test)[world.transport.sites[11 + number]._work.split.held_out]


def coded_by_hand(world, name, head, rows):
    """The rows as numbers, from the agreed file alone."""
    agreed = json.loads((world.path / "sites" / name / "agreed.json").read_text())["schema"]
    columns = []
    for field in agreed["fields"]:
        texts = [row[head.index(field["name"])] for row in rows]
        known = [text not in ("", "?") for text in texts]
        columns.append(
            [(float(t) - field["shift"]) / field["scale"] if k else 0.0 for t, k in zip(texts, known, strict=True)]
        )
        if field["indicate"]:
            columns.append([float(not k) for k in known])
    return torch.tensor(np.array(columns).T.astype(np.float32))


def by_hand(world, number, x):
    """The probabilities of the classes by a net of plain PyTorch with the weights in the site's file."""
    spec, name = world.plan.spec, HOSPITALS[number]
    models = MODELS.terms(MODELS.build(spec.model))
    net = models[number % len(models)].build((x.shape[1],), 2).eval()
    if spec.batch_norm == "drop":
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm1d):
                layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
                layer.num_batches_tracked = None
    state = load_file(world.path / "sites" / name / "model.safetensors")
    dtype = torch.float64 if spec.dtype == "float64" else torch.float32
    net = net.to(dtype)
    net.load_state_dict(state, strict=True)
    with torch.no_grad():
        return torch.softmax(net(x.to(dtype))[0].double(), dim=1).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_the_sites_own_evaluation_and_plain_torch(tmp_path, kind):
    train = KINDS[kind]
    public = public_rows(tmp_path / "public") if train.get("algorithm") == "fedmd" else None
    world = trained(tmp_path, public=public, **train)
    for number, name in enumerate(HOSPITALS):
        folder = world.path / "sites" / name
        figures = json.loads((folder / "figures.json").read_text())
        which = "personal held_out" if "personal held_out" in figures else "test"
        head, rows = lines(world, name)
        chosen = [rows[k] for k in own_rows(world, number, which)]
        found = site_predictor(folder).predict(read_table(write(tmp_path / "new.csv", head, chosen)))
        assert found.figures.keys() == figures[which].keys()
        for key, value in figures[which].items():
            assert found.figures[key] == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value)
        expected = by_hand(world, number, coded_by_hand(world, name, head, chosen))
        assert np.allclose(found.probabilities, expected, rtol=1e-5, atol=1e-7)
        assert found.answers.tolist() == expected.argmax(axis=1).tolist()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("world"), model="mlp(6)")


def test_pieces_change_nothing(world, tmp_path, monkeypatch):
    """Of a table that is longer than a piece, as of one that is not."""
    head, rows = lines(world, "va")
    many = [rows[k % len(rows)] for k in range(2500)]
    predictor = site_predictor(world.path / "sites" / "va")
    short = predictor.predict(read_table(write(tmp_path / "short.csv", head, rows)))
    seen = []
    coded = predictor.read

    class Watched:
        def __init__(self, rows):
            self.usable, self.labels, self._rows = rows.usable, rows.labels, rows

        def code(self, places):
            seen.append(len(places))
            return self._rows.code(places)

    watched = replace(predictor, read=lambda columns: Watched(coded(columns)))
    long = watched.predict(read_table(write(tmp_path / "long.csv", head, many)))
    assert max(seen) <= 1024
    assert sum(seen) == 2500
    assert np.allclose(long.probabilities, short.probabilities[np.arange(2500) % len(rows)], rtol=1e-6)
    assert long.figures["rows"] == 2500


def test_labels_are_not_needed_and_may_be_in_part(world, tmp_path):
    head, rows = lines(world, "va")
    place, predictor = head.index("outcome"), site_predictor(world.path / "sites" / "va")
    whole = predictor.predict(read_table(write(tmp_path / "whole.csv", head, rows)))
    without = [[cell for k, cell in enumerate(row) if k != place] for row in rows]
    bare = predictor.predict(
        read_table(write(tmp_path / "bare.csv", [n for n in head if n != "outcome"], without))
    )
    assert bare.figures is None
    assert np.array_equal(bare.probabilities, whole.probabilities)
    some = [[*row[:place], "" if k % 3 else row[place]] for k, row in enumerate(rows)]
    part = predictor.predict(read_table(write(tmp_path / "part.csv", head, some)))
    right = [whole.classes[whole.answers[k]] == rows[k][place] for k in range(0, len(rows), 3)]
    assert part.figures["rows"] == len(right)
    assert part.figures["accuracy"] == pytest.approx(np.mean(right))
    assert np.array_equal(part.probabilities, whole.probabilities)


def test_the_order_of_columns_and_further_ones_change_nothing(world, tmp_path):
    head, rows = lines(world, "va")
    predictor = site_predictor(world.path / "sites" / "va")
    whole = predictor.predict(read_table(write(tmp_path / "whole.csv", head, rows)))
    turned = [["x", *reversed(row)] for row in rows]
    other = predictor.predict(read_table(write(tmp_path / "turned.csv", ["note", *reversed(head)], turned)))
    assert np.array_equal(other.probabilities, whole.probabilities)


def test_one_row_alone(world, tmp_path):
    head, rows = lines(world, "va")
    found = site_predictor(world.path / "sites" / "va").predict(
        read_table(write(tmp_path / "a.csv", head, rows[:1]))
    )
    assert found.probabilities.shape == (1, 2)
    assert found.counts == {found.classes[found.answers[0]]: 1, found.classes[1 - found.answers[0]]: 0}


def test_one_row_alone_where_the_batch_normalises(tmp_path):
    world = trained(tmp_path, rounds=1, model="site-normed", batch_norm="drop")
    head, rows = lines(world, "va")
    with pytest.raises(UserError, match="one row alone has no prediction"):
        site_predictor(tmp_path / "sites" / "va").predict(read_table(write(tmp_path / "a.csv", head, rows[:1])))


def test_an_algorithm_that_leaves_no_model(tmp_path):
    world = trained(tmp_path, rounds=1, algorithm="f2u", model="mlp(6)")
    with pytest.raises(UserError, match=r"f2u.* leaves no model at a site"):
        site_predictor(world.path / "sites" / "va")


def test_before_the_training(tmp_path):
    world = with_invitations(World.make(tmp_path))
    with pytest.raises(UserError, match="has no model: it comes at the end of the training"):
        site_predictor(world.path / "sites" / "va")


def copied(world, tmp_path):
    return shutil.copytree(world.path / "sites" / "va", tmp_path / "va")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"no model"), "is damaged"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "is damaged"),
        (lambda folder: (folder / "agreed.json").write_text("{}"), "does not hold what was agreed on"),
        (lambda folder: (folder / "agreed.json").write_text('{"schema": 3}'), "does not hold what was agreed on"),
    ],
)
def test_damaged_files(world, tmp_path, spoil, told):
    folder = copied(world, tmp_path)
    spoil(folder)
    with pytest.raises(UserError, match=told):
        site_predictor(folder)


def test_a_changed_bit_of_the_model_is_noticed(world, tmp_path):
    folder = copied(world, tmp_path)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"model.safetensors is damaged \(checksum\)"):
        site_predictor(folder)


@pytest.mark.parametrize("change", ["schema", "plan"])
def test_a_model_of_another_agreement_or_plan(world, tmp_path, change):
    folder = copied(world, tmp_path)
    if change == "plan":
        replace(world.plan, quorum=2).write(folder)
    else:
        agreed = json.loads((folder / "agreed.json").read_text())
        agreed["schema"]["fields"][0]["shift"] += 1
        (folder / "agreed.json").write_text(json.dumps(agreed))
    with pytest.raises(UserError, match="was not trained by the plan and the agreement"):
        site_predictor(folder)


def spoilt(folder, change):
    """The model's file with other tensors, of which it does not say the SHA-256."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    del about["sha256"]
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, about)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda tensors: tensors.pop("head.bias"), "its head.bias does not fit"),
        (lambda tensors: tensors.update(more=torch.zeros(1)), "its more does not fit"),
        (lambda tensors: tensors.update({"head.bias": torch.zeros(3)}), "its head.bias does not fit"),
        (lambda tensors: tensors["head.bias"].fill_(float("nan")), "its head.bias is not finite"),
    ],
)
def test_a_model_of_another_net(world, tmp_path, change, told):
    folder = copied(world, tmp_path)
    spoilt(folder, change)
    with pytest.raises(UserError, match=told):
        site_predictor(folder)


def test_frozen_layers_are_those_of_the_file(tmp_path):
    """Not those of a net that is made anew, whose seed or file of weights may be another."""
    world = trained(tmp_path, rounds=1, model=frozen_model("body.1"))
    folder = world.path / "sites" / "va"
    spoilt(folder, lambda tensors: tensors["body.1.weight"].add_(1))
    (net,) = site_predictor(folder).model.nets
    assert torch.equal(net.state_dict()["body.1.weight"], load_file(folder / "model.safetensors")["body.1.weight"])


NAMES = [name for name in HOSPITALS if len(name) > 4]
"""Those that are no part of other words."""


def test_model_and_description_are_enough_elsewhere(world, tmp_path):
    """Two files of a site's folder, without its plan and its agreement, say the same of the same rows."""
    site = world.path / "sites" / "va"
    for name in ("model.json", "model.safetensors"):
        shutil.copy(site / name, tmp_path / name)
    columns = read_table(str(world.path / "tables" / "va.csv"))
    elsewhere = predictor_of(FolderModels.open(tmp_path)).predict(columns)
    assert np.array_equal(elsewhere.probabilities, site_predictor(site).predict(columns).probabilities)
    assert not [name for name in NAMES if name in (tmp_path / "model.json").read_text()]


def test_the_servers_record_is_a_run_with_a_model(world):
    result = load(world.path / "server" / "run")
    columns = read_table(str(world.path / "tables" / "va.csv"))
    found = predictor_of(FolderModels.open(result.run_dir)).predict(columns)
    own = site_predictor(world.path / "sites" / "va").predict(columns)
    assert np.array_equal(found.probabilities, own.probabilities)
    for text in result.card().texts().values():
        assert not [name for name in NAMES if name in text]


def test_a_server_without_one_model_says_so(tmp_path):
    world = trained(tmp_path, rounds=1, algorithm="fedrep", model="mlp(6)")
    with pytest.raises(UserError, match=r"leaves no model here.*the sites have theirs"):
        _ = load(world.path / "server" / "run").model
