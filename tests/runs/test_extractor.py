import shutil

import numpy as np
import pytest
from torch import nn

from unalike import load_dataset, run
from unalike.errors import UserError
from unalike.measure import measure, party_features
from unalike.models import Net
from unalike.models.model import register_model
from unalike.partition import make_partition
from unalike.runs.extractor import run_extractor


@register_model("test-flat-norm")
class FlatNorm:
    def build(self, shape, classes):
        body = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 6), nn.BatchNorm1d(6))
        return Net(body, nn.Linear(6, classes))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    fields = {"dataset": "digits", "model": "mlp(32,6)", "rounds": 10, "epochs": 3, "lr": 0.05}
    return run(runs=tmp_path_factory.mktemp("runs"), **fields)


def test_gives_what_the_head_reads(trained):
    """Features times the saved head are the logits, whose accuracy is the run's."""
    from safetensors.numpy import load_file

    data = load_dataset("digits")
    features = run_extractor(trained.run_dir, data)((data.x_test - data.shift) / data.scale)
    assert features.shape == (len(data.y_test), 6)
    saved = load_file(trained.run_dir / "weights.safetensors")
    logits = features @ saved["head.weight"].T + saved["head.bias"]
    assert np.mean(logits.argmax(axis=1) == data.y_test) == pytest.approx(trained.accuracy)


def test_label_skew_shows_in_the_features_of_a_model(trained):
    data = load_dataset("digits")
    extract = run_extractor(trained.run_dir, data)
    found = {}
    for text in ("iid", "label-count(1)"):
        parties = party_features(data, make_partition(text, data, 10, 0), extract)
        found[text] = measure(parties, of="features", protect="none").federation
    assert found["iid"].mean.kolmogorov_smirnov < 1.5 * found["iid"].expected.kolmogorov_smirnov
    assert found["label-count(1)"].mean.kolmogorov_smirnov > 0.3


def test_mistakes(trained, tmp_path):
    with pytest.raises(UserError, match="not the folder of a finished run"):
        run_extractor(tmp_path, load_dataset("digits"))
    with pytest.raises(UserError, match="do not fit"):
        run_extractor(trained.run_dir, load_dataset("heart"))


@pytest.mark.parametrize("name", ["weights.safetensors", "result.json", "rounds.jsonl"])
def test_weights_that_are_not_those_of_the_run_are_refused(trained, tmp_path, name):
    folder = shutil.copytree(trained.run_dir, tmp_path / trained.run_dir.name)
    content = bytearray((folder / name).read_bytes())
    content[-10] ^= 1  # a bit of a weight, or of a seal
    (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name}.* Run it again, or choose another"):
        run_extractor(folder, load_dataset("digits"))


def test_a_rows_features_do_not_depend_on_the_rows_beside_it(tmp_path):
    made = run(runs=tmp_path, dataset="digits", model="test-flat-norm", rounds=1, steps=2)
    data = load_dataset("digits")
    extract = run_extractor(made.run_dir, data)
    rows = (data.x_test[:8] - data.shift) / data.scale
    np.testing.assert_allclose(extract(rows)[:2], extract(rows[:2]), atol=1e-6)
