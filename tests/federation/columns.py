"""People whom three sites know by different columns, and a federation of these sites in one process."""

import csv
from importlib import resources

from safetensors.numpy import load_file

from tests.federation.inside import Inside, World
from unalike.algorithms.protocol import SERVER
from unalike.federation.folders import PUBLIC, Card, make_key
from unalike.federation.plan import Plan
from unalike.runs.cast import arrays_of
from unalike.runs.conversing import Conversing
from unalike.runs.playable import is_over

BANK, INSURER, SHOP = SITES = ("bank", "insurer", "shop")
"""The bank has the label; each knows other columns of the heart data's patients."""
HAS = {
    BANK: ("age", "sex", "cp", "outcome"),
    INSURER: ("trestbps", "chol", "fbs", "restecg"),
    SHOP: ("thalach", "exang", "oldpeak"),
}


def patients():
    """The patients of the heart data of whom all is known that the sites have, with ids of our own."""
    source = (resources.files("unalike.data") / "vendored" / "heart.csv").read_text(encoding="utf-8")
    found = []
    for number, row in enumerate(csv.DictReader(source.splitlines())):
        row["outcome"] = "disease" if int(row["num"]) else "healthy"
        if all(row[name] not in ("", "?") for own in HAS.values() for name in own):
            found.append({"patient": f"P{number:04d}", **row})
    return found


def write_people(folder, rows=200, sites=SITES, start=0, apart=5):
    """A table for every site, in an order of its own; each also knows some people whom no other does."""
    folder.mkdir(parents=True, exist_ok=True)
    people = patients()
    common, others = people[start : start + rows], people[start + rows :]
    for number, site in enumerate(sites):
        own = [*common, *others[number * apart : (number + 1) * apart]]
        own = own[::-1] if number % 2 else own[number * 7 :] + own[: number * 7]
        with (folder / f"{site}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["patient", *HAS[site]], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(own)


def make(path, algorithm="vertical", model="logistic", rounds=2, sites=SITES, rows=200, train=None, **plan):
    """A federation of these sites in one process, each with its own folder."""
    write_people(path / "tables", rows, sites)
    server = path / "server"
    public = make_key(server / "keys" / "server.key")
    usual = {"model": model, "algorithm": algorithm, "rounds": rounds, **(train or {})}
    values = {"missing": "error", "id": ("patient",), "least_common": 50, **plan}
    made = Plan("people", sites, public.hex(), "127.0.0.1:1", usual, "outcome", **values)
    made.write(server)
    (server / "parties").mkdir(exist_ok=True)
    for name in sites:
        key = make_key(path / "sites" / name / "keys" / "site.key")
        Card(name, key.hex()).write(server / "parties" / f"{name}{PUBLIC}")
    world = World(path, made, Inside())
    for node, name in enumerate(sites, 11):
        world.start(node, name)
    return world


def simulated(world):
    """The same run in one process, on the tables in one folder; and its figures of every round."""
    spec = world.plan.spec_of(world.plan.sites(str(world.path / "tables")))
    simulation = Conversing(spec, world.plan.protocol, say=lambda line: None)
    rows = []
    while not is_over(simulation):
        simulation.state, row = simulation.play_round()
        rows.append(row)
    return simulation, rows


def parts_simulated(simulation):
    """By party, the arrays of its part of the model."""
    states = arrays_of(simulation.state)
    return [
        simulation.protocol.model(me, states[number], states[SERVER])
        for number, me in sorted(simulation.roles.items())
        if number != SERVER
    ]


def parts_kept(folders):
    """The arrays of the parts of the model that sites keep in these folders."""
    return [load_file(folder / "model.safetensors") for folder in folders]
