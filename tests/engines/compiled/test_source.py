"""What the compiler makes of the source, beyond its results."""

import platform
import subprocess

import pytest
from torch import nn

from tests.engines.compiled.helpers import NEEDS_COMPILER, task_of
from unalike.engines.compiled.chain import describe
from unalike.engines.compiled.source import source_of
from unalike.native.compiler import FLAGS, find_compiler, vector_width

pytestmark = NEEDS_COMPILER
INSTRUCTIONS = {"x86_64": "prefetch", "AMD64": "prefetch", "aarch64": "prfm", "arm64": "prfm"}


@pytest.mark.skipif(platform.machine() not in INSTRUCTIONS, reason="another processor's assembly")
@pytest.mark.parametrize("sparse", [False, True])
def test_memory_is_asked_for_the_next_rows(tmp_path, sparse):
    # GCC takes a function that does nothing else for one that does nothing, and drops its calls.
    chain = describe(task_of(lambda: nn.Linear(54, 8), 8).net, (54,), sparse=sparse)
    (tmp_path / "source.c").write_text(source_of(chain, vector_width()), encoding="utf-8")
    command = [find_compiler(), *FLAGS, "-S", "source.c", "-o", "made.s"]
    subprocess.run(command, cwd=tmp_path, check=True)
    made = (tmp_path / "made.s").read_text(encoding="utf-8")
    assert made.count(INSTRUCTIONS[platform.machine()]) >= 6  # labels, and rows twice, in training and in judging
