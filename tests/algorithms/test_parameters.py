"""Every hyper-parameter that means nothing is refused in one line that names it."""

import pytest

from unalike.algorithms import ALGORITHMS
from unalike.errors import UserError

BAD = [
    "fedprox(mu=-0.1)",
    "scaffold(server_lr=0)",
    "scaffold(server_lr=-1)",
    "scaffold(option=iii)",
    "scaffold(weights=steps)",
    "qfedavg(q=-0.5)",
    "rfedavg(lam=-1)",
    "rfedavg(noise=-1)",
    "rfedavg+(lam=-1)",
    "rfedavg+(noise=-1)",
    "moon(mu=-1)",
    "moon(temperature=0)",
    "moon(temperature=-0.5)",
    "fedavgm(momentum=1)",
    "fedavgm(momentum=-0.1)",
    "fedavgm(server_lr=0)",
    *(f"{name}(server_lr=0)" for name in ("fedadagrad", "fedadam", "fedyogi")),
    *(f"{name}(tau=0)" for name in ("fedadagrad", "fedadam", "fedyogi")),
    *(f"{name}(beta1=1)" for name in ("fedadagrad", "fedadam", "fedyogi")),
    *(f"{name}(beta2={value})" for name in ("fedadam", "fedyogi") for value in (1, -0.1)),
]
NUMBERS = sorted({text.split("=")[0] for text in BAD if "option" not in text and "weights" not in text})


@pytest.mark.parametrize("text", [*BAD, *(f"{start}=nan)" for start in NUMBERS)])
def test_is_refused_in_one_line_that_names_it(text):
    name = text.split("(")[1].split("=")[0]
    with pytest.raises(UserError, match=name) as caught:
        ALGORITHMS.build(text)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["fednova(1)", "fedadagrad(beta2=0.9)", "fedavg(lr=1)"])
def test_there_are_no_others(text):
    with pytest.raises(UserError):
        ALGORITHMS.build(text)


def test_the_edges_are_allowed():
    for text in (
        "qfedavg(q=0)",
        "rfedavg(lam=0, noise=0)",
        "moon(mu=0)",
        "fedavgm(momentum=0)",
        "fedadam(beta1=0)",
    ):
        ALGORITHMS.build(text)
