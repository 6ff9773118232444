"""What is tried in the process that has the pretend device; everything given and returned is JSON."""

import tempfile
from pathlib import Path

import numpy as np
import torch

from tests.accelerator import pretend
from tests.accelerator.federated import federated
from tests.accelerator.planted import PLANTED
from tests.helpers import NEEDS, Dropping, LayerNormBody, NormBody, TanhBody
from tests.models import test_every_model as models
from unalike.engines import several
from unalike.engines.job import choose_device
from unalike.errors import UserError
from unalike.models import resnet
from unalike.runs.run import run
from unalike.runs.simulation import Simulation
from unalike.runs.small import distance, play, small_dataset, small_simulation
from unalike.runs.spec import RunSpec

assert all((Dropping, LayerNormBody, NormBody, TanhBody))  # nets that are registered
resnet._WIDTHS = (4, 8, 12, 16)  # 64 to 512 channels would take seconds
DEVICES = ("cpu", pretend.NAME)
SHORT = {"epochs": None, "steps": 2, "batch_size": 4, "sample": 0.5, "rounds": 2}
"""Two rounds of two steps by three of six parties: what a round needs of the one before is there."""


def algorithm(name, channel=None, **fields):
    """Whether two rounds have the same bits on the processor and on the pretend device, and how they were run."""
    fields = SHORT | fields | NEEDS.get(name.partition("(")[0], {})
    try:
        cpu = outcome(small_simulation(name, channel=channel, device="cpu", **fields))
    except UserError:
        if channel is None:
            raise
        return algorithm(name, **fields)  # the channel does not carry it
    there = outcome(small_simulation(name, channel=channel, device=pretend.NAME, **fields))
    return {"same": cpu == there, "engine": there["engine"], "channel": channel}


def outcome(simulation):
    """The state after two rounds, to the bit, and all that is recorded of them but the time."""
    rows = []
    for _ in range(2):
        simulation.state, row = simulation.play_round()
        rows.append({key: value for key, value in row.items() if key != "seconds"})
    return {
        "state": simulation.state.digest(),
        "rows": str(rows),
        "figures": str(simulation.figures(simulation.state)),
        "engine": simulation.engine_name,
    }


def net(name, **fields):
    """How far a shipped net's state is from the processor's after two rounds, and whether it has the same bits."""
    made = []
    for device in DEVICES:
        settings = {"model": models.SMALL.get(name, name), "rounds": 2, "steps": 1, "batch_size": 8, "lr": 0.01}
        settings |= {"partition": "natural", "validation": 0, "held_out": 0, "device": device}
        spec = RunSpec(**settings | fields)
        made.append(play(Simulation(spec, data=models.data_for(name), say=lambda line: None), 2))
    cpu, there = (each.state for each in made)
    far, where = distance(cpu.tensors(), there.tensors())
    return {"far": far, "where": where, "same": cpu.digest() == there.digest(), "engine": made[1].engine_name}


def planted(name, device):
    """What a run says that has this mistake in it: an error, or where it ended."""
    try:
        with PLANTED[name].planted():
            return {"ended": PLANTED[name].run(device)}
    except Exception as error:
        return {"error": str(error)}


def swallowed(name):
    """The same where the engine takes any error for one of vmap's, as it once did."""
    real, several.is_of_vmap = several.is_of_vmap, lambda error: True
    try:
        with PLANTED[name].planted():
            return PLANTED[name].run(pretend.NAME)
    finally:
        several.is_of_vmap = real


def dropout(threads):
    """Where nets that draw end: on the processor, on the device, and there again after others have drawn."""
    ends = []
    for device in (*DEVICES, pretend.NAME):
        fields = SHORT | {"model": "test-dropping", "threads": threads, "engine": "sequential", "device": device}
        simulation = small_simulation("fedavg", **fields)
        before = torch.default_generator.get_state(), pretend.backend.generator.get_state()
        play(simulation, 2)
        now = torch.default_generator.get_state(), pretend.backend.generator.get_state()
        assert all(map(torch.equal, before, now)), "a run moved the streams that others draw from"
        ends.append(simulation.state.digest())
        torch.rand(3, device=device)
    return ends


def site(**train):
    """Whether a federation ends alike where one of its sites has its net on the device."""
    cpu, there = (federated(device, **train) for device in DEVICES)
    return cpu == there


def automatic():
    """What ``auto`` names where there is an accelerator, and where it is gone, and what is said then."""
    found = [RunSpec(device="auto").device]
    assert RunSpec(device="auto").key == RunSpec(device=pretend.NAME).key != RunSpec().key
    assert RunSpec(device="auto", model="trees", algorithm="histogram").device == "cpu"
    pretend.backend.there = False
    try:
        found += [RunSpec(device="auto").device, _refused(pretend.NAME)]
    finally:
        pretend.backend.there = True
    return [*found, _refused(f"{pretend.NAME}:1")]


def _refused(name):
    try:
        return str(choose_device(name, torch.float32))
    except UserError as error:
        return str(error)


def refusals():
    """What the device says to everything that an accelerator refuses."""
    here, there = torch.ones(3), torch.ones(3, device=pretend.NAME)
    tried = {
        "add": lambda: there + here,
        "in place": lambda: there.add_(here),
        "into the processor's": lambda: here.add_(there),
        "stack": lambda: torch.stack([there, here]),
        "pick": lambda: there[torch.tensor([0])],
        "pick of the processor's": lambda: here[torch.tensor([0], device=pretend.NAME)],
        "select": lambda: there.index_select(0, torch.tensor([0])),
        "in a stack": lambda: torch.func.vmap(lambda one: one + here)(torch.ones(2, 3, device=pretend.NAME)),
        "numpy": lambda: there.numpy(),
        "asarray": lambda: np.asarray(there),
    }
    return {name: _said(what) for name, what in tried.items()}


def _said(what):
    try:
        return f"took it: {what()}"
    except (RuntimeError, TypeError) as error:
        return str(error)


def allowances():
    """What an accelerator does take, as numbers: single numbers of the processor's, and what is carried over."""
    there = torch.arange(3.0, device=pretend.NAME)
    filled = torch.zeros(3)
    filled.copy_(there)
    rows = torch.zeros(2, 3, device=pretend.NAME)
    rows[0] = there
    rows[1].copy_(torch.ones(3))
    slope = torch.ones(3, device=pretend.NAME).requires_grad_()
    (gradient,) = torch.autograd.grad((slope * there).sum(), slope)
    made = {
        "single number": there + torch.tensor(1.0),
        "moved": torch.ones(3).to(there.device) + there,
        "from numbers": torch.tensor([1.0, 2.0], device=pretend.NAME),
        "rows": rows,
        "gradient": gradient,
    }
    assert all(value.device == there.device for value in made.values())
    return {name: value.tolist() for name, value in made.items()} | {
        "back": filled.tolist(),
        "sum": float(there.sum()),
    }


def streams():
    """Numbers that the device draws after a seed of its own, and whether that moves the processor's stream."""
    before, drawn = torch.default_generator.get_state(), []
    for seed in (1, 1, 2):
        torch.manual_seed(0)
        pretend.backend.manual_seed(seed)
        drawn.append(
            [*torch.rand(2, device=pretend.NAME).tolist(), *torch.zeros(2, device=pretend.NAME).normal_().tolist()]
        )
    torch.default_generator.set_state(before)
    torch.rand(2, device=pretend.NAME)
    return {"drawn": drawn, "moved": not torch.equal(before, torch.default_generator.get_state())}


def waits(parties, **fields):
    """How often the processor waits for the device in a round of so many parties, who keep nothing."""
    fields = SHORT | {"sample": parties / 6, "device": pretend.NAME, "evaluate_every": 9, "rounds": 9} | fields
    simulation = play(small_simulation("fedprox", **fields), 1)
    before = pretend.backend.waits
    play(simulation, 1)
    return pretend.backend.waits - before


def kept_run():
    """What is recorded of whole runs: on the processor, on the device, and there with a stop between."""
    fields = {
        "partition": "natural",
        "model": "test-dropping",
        "rounds": 3,
        "steps": 2,
        "batch_size": 8,
        "lr": 0.05,
    }
    fields |= {"algorithm": "ditto(base=scaffold)", "channel": "topk(0.5)", "engine": "sequential"}
    ends = []
    with tempfile.TemporaryDirectory() as folder:
        for place, device, until in (("a", "cpu", None), ("b", pretend.NAME, None), ("c", pretend.NAME, 2)):
            how = {"runs": Path(folder) / place, "data": small_dataset(), "device": device, **fields}
            if until is not None:
                run(until=until, **how)
            done = run(**how)
            ends.append(
                {key: done.figures[key] for key in ("weights_sha256", "server_sha256", "accuracy", "loss")}
            )
            ends[-1]["device"] = (done.run_dir / "spec.toml").read_text().split('device = "')[1].split('"')[0]
    return ends
