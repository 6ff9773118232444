"""``--channel`` on the command line."""

import pytest

from unalike.channels.accountant import gauss_epsilon

QUICK = ("run", "--parties", "3", "--rounds", "2", "--steps", "2")


def test_a_run_ends_with_what_its_noise_hides(unalike):
    channel = ("--channel", "clip(1.0)+gauss(2.0)")
    answer = unalike(*QUICK, *channel)
    assert answer.code == 0
    told = f"Privacy: epsilon {gauss_epsilon(2.0, 2, 1e-5):.4g}"[:20]
    assert told in answer.out
    assert "at delta 1e-05, one party more or less." in answer.out
    key = unalike(*QUICK, *channel, "--json", "--quiet").json["key"]
    assert told in unalike("runs", "show", key).out
    assert "Privacy" not in unalike(*QUICK).out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--channel", "gauss(1.0)"), "needs an l2 clip"),
        (("--channel", "masked", "--algorithm", "rfedavg"), "needs to see single uploads"),
        (("--channel", "masked(range=0.0001)"), "Write range="),
    ],
)
def test_mistakes_are_one_line(unalike, given, says):
    answer = unalike(*QUICK, "--quiet", *given)
    assert answer.code == 2
    assert says in " ".join(answer.err.split())
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("channel", ["masked", "encrypted", "clip(1.0)+gauss(1.0, where=shared)+masked"])
@pytest.mark.parametrize("parties", [("--parties", "2"), ("--parties", "5", "--sample", "0.4")])
def test_two_parties_are_refused_in_simulation_as_by_sites(unalike, channel, parties):
    """What is benchmarked is what can be deployed; the line is that of ``federation init``."""
    answer = unalike("run", *parties, "--rounds", "1", "--quiet", "--channel", channel)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "needs three or more, 2 are asked. Add parties" in answer.err
    sites = [option for name in "ab" for option in ("--party", name)]
    plan = ("federation", "init", "plan", *sites, "--address", "localhost:1", "--label", "y", "--channel", channel)
    assert unalike(*plan).err == answer.err


def test_stages_are_listed(unalike):
    listed = unalike("list", "channels", "--json").json["channels"]
    sparse = {"topk", "subsample", "layers"}
    assert {"clip", "gauss", "laplace", *sparse, "quantise", "ternary", "masked", "encrypted"} == {
        part["name"] for part in listed
    }
    assert all(part["summary"] and part["paper"] for part in listed)
