import torch

from unalike.models.noise import normal, uniform
from unalike.runs.small import distance, play, small_simulation


def test_noise_is_uniform_normal_and_independent():
    keys = torch.arange(200) * 7919
    draws = torch.stack([uniform(key, 500, 0, torch.float64) for key in keys])
    assert ((draws >= 0) & (draws < 1)).all()
    counts = torch.histc(draws, bins=50, min=0, max=1)
    assert ((counts - 2000).abs() < 6 * 2000**0.5).all()
    values = torch.stack([normal(key, 500, 1, torch.float64) for key in keys]).flatten()
    assert abs(values.mean()) < 5 / len(values) ** 0.5
    assert abs(values.var() - 1) < 5 * (2 / len(values)) ** 0.5
    assert abs((values**4).mean() - 3) < 0.1
    pairs = torch.corrcoef(torch.stack([draws[0], draws[1], uniform(keys[0], 500, 1, torch.float64)]))
    assert (pairs - torch.eye(3)).abs().max() < 0.25
    single = normal(keys[5], 4, 0, torch.float32)
    stacked = torch.func.vmap(lambda key: normal(key, 4, 0, torch.float32))(keys)
    assert torch.allclose(stacked[5], single, rtol=0, atol=1e-6)


def test_engines_agree_on_noise():
    states = [
        play(small_simulation("rfedavg+(noise=0.3)", engine=engine, dtype="float64"), 3).state.tensors()
        for engine in ("sequential", "vectorised")
    ]
    assert distance(*states)[0] < 1e-10
