"""What a curious server and a curious party get from the methods that change the data, in numbers.

python -m benchmarks.data_leaks            # 2,000 rows of MNIST, ten parties of two labels: a Markdown table
python -m benchmarks.data_leaks --only fedmix faug
python -m benchmarks.data_leaks --write    # puts the table into docs/data-methods.md

Everybody follows the protocol and keeps what it saw. Beside each score stands what an attacker without it has: the
mean picture of rows that it owns, or a coin. Pictures are compared by the signal-to-noise ratio (PSNR) of pixels
from 0 to 1, 99 where they are the same. Who attacks owns other rows of the same kind, and none of a party's.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.data_seen import (
    PARTIES,
    USUAL,
    Played,
    area,
    labels_by_updates,
    members_by_model,
    members_by_updates,
    nearest,
    psnr,
)
from benchmarks.report import ROOT, put, table
from unalike.algorithms.generated.gan import Gan

PAGE = ROOT / "docs" / "data-methods.md"
HEAD = ("method", "who", "sees", "attack", "score", "without")
ADAM = {"optimiser": "adam(beta1=0.5)", "lr": 0.0005, "epochs": 2}
Row = tuple[str, str, str, str, str, str]


def of_updates(name: str, **fields: Any) -> Iterator[Row]:
    """What a method tells whose parties send updates alone."""
    first = Played.of(name, 1, **fields)
    yield f"`{name}`", "server", "each update", "members, AUC", f"{members_by_updates(first):.2f}", "0.50"
    yield "", "server", "each update", "labels of a party, AUC", f"{labels_by_updates(first):.2f}", "0.50"
    last = Played.of(name, USUAL["rounds"], **fields)
    yield "", "party", "the model, round 20", "members of all, AUC", f"{members_by_model(last):.2f}", "0.50"


# --- means, codes, counts, rows ---


def of_means() -> Iterator[Row]:
    """Mean pictures of parties' rows: how like the rows they are, and the labels that come with them."""
    name = "`naivemix`, `fedmix`"
    for groups in (1, 10):
        played = Played.of(f"fedmix(groups={groups}, least=2)", 1)
        server, mine, plain, labels, sizes = played.simulation.state.server, [], [], [], []
        whole = played.scale.whole(played.x).double().mean(dim=0)
        for party in range(PARTIES):
            x, _ = played.own(party)
            rows = played.scale.whole(x)
            told = server["means"][party * groups : (party + 1) * groups]
            told = told.double() * played.scale.scale + played.scale.shift  # a mean's pixels need not be whole
            alike = played.scale.whole(played.x[played.like(played.own(party)[1])]).double().mean(dim=0)
            for mean in told:
                mine.append(psnr(mean[None], rows).max())
                plain.append(psnr(whole[None], rows).max())
                labels.append(psnr(alike[None], rows).max())
            sizes.append(len(x) // groups)
        what = f"means of {min(sizes)} to {max(sizes)} rows"
        score, without, known = (f"{torch.stack(each).mean():.1f} dB" for each in (mine, plain, labels))
        without += f", {known} by labels alone"
        yield name, "server and every party", what, "nearest row of the party to a mean", score, without
        name = ""
    uniform = np.mean([float((_share(played, k) - 0.1).abs().sum()) for k in range(PARTIES)])
    yield "", "server and every party", "labels of each mean", "distance from the truth", "0.00", f"{uniform:.2f}"


def _share(played: Played, party: int) -> Tensor:
    y = played.own(party)[1]
    share: Tensor = torch.bincount(y, minlength=10).double() / len(y)
    return share


def of_codes() -> Iterator[Row]:
    """Rows XORed with others: as the server decodes them, and as well as it can."""
    played = Played.of("xormix", 1, public=0.05)
    task, scale, prepared = played.simulation.task, played.scale, played.heard[0].each
    base, kinds = scale.whole(task.public.x), task.public.y
    blind, decoded, guessed = [], [], []
    for party, told in prepared.items():
        rows = scale.whole(played.own(party)[0])
        for code, (mine, other) in zip(told["code"].long(), told["labels"].long(), strict=True):
            true = _seed_of(rows, played.own(party)[1], code, int(mine), int(other))
            prior = scale.whole(played.x[played.y == mine])
            blind.append(psnr(prior.double().mean(dim=0)[None], true[None]))
            decoded.append(psnr(code ^ base[kinds == other], true[None]).mean()[None])
            guessed.append(psnr(_guess(code, scale.whole(played.x[played.y == other]), prior)[None], true[None]))
    without = f"{torch.cat(blind).mean():.1f} dB"
    for name, attack, found in (
        ("`xormix`", "seed, as it is decoded", decoded),
        ("", "seed, by pixels of its label", guessed),
    ):
        all_of = torch.cat(found)
        good = f"{all_of.mean():.1f} dB ({float((all_of > 20).double().mean()):.0%} above 20)"
        yield name, "server", "codes, both labels", attack, good, without
    yield "", "party", "the model, round 1", "members of all, AUC", f"{members_by_model(played):.2f}", "0.50"


def _guess(code: Tensor, others: Tensor, prior: Tensor) -> Tensor:
    """A seed, pixel by pixel: what rows of the other label decode, weighed by likeness to the seed's."""
    made = (code ^ others).double()
    far = torch.cdist(made.flatten(1), prior.double().flatten(1)).min(dim=1).values
    made = made[far.argsort()[:20]]  # those rows with which the whole looks most like the label
    likely = torch.exp(-((made[:, None] - prior) ** 2) / (2 * 32.0**2)).mean(dim=1) + 1e-3
    best: Tensor = (made * likely).sum(dim=0) / likely.sum(dim=0)
    return best


def _seed_of(rows: Tensor, y: Tensor, code: Tensor, mine: int, other: int) -> Tensor:
    """The row that a code was made of: the one for which the party has the other half."""
    row: Tensor
    for row in rows[y == mine]:
        if bool(((row ^ code) == rows[y == other]).flatten(1).all(dim=1).any()):
            return row
    raise AssertionError("a code that no two rows of its party make")


def of_counts() -> Iterator[Row]:
    """Label counts in the clear, what everybody learns of their sum, and the model of the party before."""
    played = Played.of("astraea(gamma=2)", 1)
    truth = torch.stack([_share(played, k) for k in range(PARTIES)])
    told = torch.stack([played.heard[0].each[k]["shares"].double() for k in range(PARTIES)])
    gap, blind = (float((each - truth).abs().sum(dim=1).mean()) for each in (told, torch.full_like(truth, 0.1)))
    yield "`astraea(gamma=2)`", "server", "label counts", "distance from the truth", f"{gap:.2f}", f"{blind:.2f}"
    counts = torch.stack([torch.bincount(played.own(k)[1], minlength=10) for k in range(PARTIES)]).sum(dim=0)
    copies = played.simulation.state.server["copies"].double()
    mean, rare = counts.double().mean(), copies > 1
    wrong = float((mean * copies[rare] ** -2 / counts[rare] - 1).abs().max())
    yield "", "party", "copies of rare classes", "their rows at all, error", f"{wrong:.0%}", "unknown"
    first = played.heard[2]
    played.heard[:] = [first]
    score = f"{members_by_updates(played):.2f}"
    yield "", "the next party", "the model of the one before", "members, AUC", score, "0.50"


def of_rows() -> Iterator[Row]:
    """Rows in the clear, at the server; and the model that was trained on them."""
    played = Played.of("hybrid-fl(givers=(0, 1, 2), rows=100)", 20)
    sent = played.heard[0].each[0]
    there = sent["there"] > 0
    pixels = played.scale.whole(sent["x"][there])
    same = float(
        torch.stack([psnr(row[None], played.scale.whole(played.own(0)[0])).max() for row in pixels]).min()
    )
    what = f"{int(there.sum())} rows of each giver"
    yield "`hybrid-fl`", "server", what, "a row, worst", f"{same:.0f} dB", _blind(played)
    score = members_by_model(played, (0, 1, 2))
    yield "", "party", "the model, round 20", "members of the givers, AUC", f"{score:.2f}", "0.50"


def _blind(played: Played) -> str:
    whole = played.scale.whole(played.x).double()
    return f"{psnr(whole.mean(dim=0)[None], played.scale.whole(played.own(0)[0])).mean():.1f} dB"


# --- generators ---


def made_rows(played: Played, g: Tensor, noise: int, classes: int) -> tuple[Tensor, Tensor]:
    """A thousand rows of a generator, of all labels alike."""
    gan, y = Gan.of(played.simulation.task, noise, classes=classes), torch.arange(1000) % 10
    z = torch.randn(1000, noise, generator=torch.Generator().manual_seed(0))
    return gan.made(g, z, y), y


def copies(made: Tensor, rows: Tensor, other: Tensor) -> tuple[str, str]:
    """How often a made row is nearer to a row that was learnt than to one that was not."""
    near, far = nearest(made, rows), nearest(made, other)
    return f"{float((near < far).double().mean()):.0%} (distance {near.mean():.1f} for {far.mean():.1f})", "50%"


def of_faug() -> Iterator[Row]:
    """The seeds at the server, and what the generator says of them at every party."""
    played = Played.of("faug", 1)
    sent = list(played.heard[0].each.values())
    rows, there = (torch.cat([each[key] for each in sent], dim=1) for key in ("rows", "there"))
    seeds, y = rows[there > 0], torch.nonzero(there > 0)[:, 0]
    own = played.scale.whole(torch.cat([played.own(k)[0] for k in range(PARTIES)]))
    worst = min(float(psnr(row[None], own).max()) for row in played.scale.whole(seeds))
    yield "`faug`", "server", f"{len(seeds)} rows", "a row, worst", f"{worst:.0f} dB", _blind(played)
    made, _ = made_rows(played, played.simulation.state.parties[0]["generator"], 16, 10)
    other = played.x[played.like(y)]
    yield "", "party", "the generator", "made rows nearer to seeds than to others", *copies(made, seeds, other)


def of_gans() -> Iterator[Row]:
    """Generators that were learnt together, and judges."""
    for name, rounds in (("fedgan", 40), ("f2u", 40), ("f2a", 40)):
        played = Played.of(name, rounds, **ADAM)
        server, classes = played.simulation.state.server, 10 if name == "fedgan" else 0
        gan = Gan.of(played.simulation.task, 16, classes=classes)
        scores = []
        for party in range(PARTIES):
            x, y = played.own(party)
            other = played.like(y)
            d = server["judge"] if classes else played.heard[-1].each[party]["judge"]
            scores.append(area(gan.score(d, x, y), gan.score(d, played.x[other], played.y[other])))
        who, what = ("server and party", "the judge") if classes else ("server", "each judge")
        yield f"`{name}`", who, what, "members of a party, AUC", f"{np.mean(scores):.2f}", "0.50"
        made, _ = made_rows(played, server["generator"], 16, classes)
        x, y = (torch.cat(each) for each in zip(*map(played.own, range(PARTIES)), strict=True))
        found = copies(made, x, played.x[played.like(y)])
        yield "", "server and party", "the generator", "made rows nearer to training rows than to others", *found


def of_dense() -> Iterator[Row]:
    """Whole nets after long training, and the student."""
    played = Played.of("dense", 1, epochs=20)
    yield "`dense`", "server", "each net", "members, AUC", f"{members_by_updates(played):.2f}", "0.50"
    yield "", "server", "each net", "labels of a party, AUC", f"{labels_by_updates(played):.2f}", "0.50"
    yield "", "party", "the student", "members of all, AUC", f"{members_by_model(played):.2f}", "0.50"


METHODS: dict[str, Callable[[], Iterator[Row]]] = {
    "fedavg": lambda: of_updates("fedavg"),
    "share": lambda: of_updates("share", public=0.05),
    "mixup": lambda: of_updates("mixup"),
    "fedmix": of_means,
    "xormix": of_codes,
    "astraea": of_counts,
    "hybrid-fl": of_rows,
    "faug": of_faug,
    "gans": of_gans,
    "dense": of_dense,
}


def main() -> None:
    """Play all methods, attack, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="*", default=list(METHODS), choices=METHODS, help="these alone")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = []
    with torch.no_grad():
        for name in given.only:
            for row in METHODS[name]():
                print(*row, sep=" | ", flush=True)
                found.append(row)
    text = table(HEAD, found).replace("---:", "---")
    print("\n" + text)
    if given.write:
        put(PAGE, "data_leaks", text)


if __name__ == "__main__":
    main()
