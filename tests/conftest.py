import pytest
import torch

torch.set_num_threads(1)  # tests run side by side: threads inside one operation would only fight


@pytest.fixture(scope="session", autouse=True)
def _compiled_nets(tmp_path_factory):
    """Compiled nets go to a folder of this session, which its workers share, not to the user's own."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "UNALIKE_CACHE", str((base.parent if base.name.startswith("popen-") else base) / "compiled-nets")
        )
        yield
