"""Every shipped environment under the address and undefined-behaviour sanitizers, played at random by core/fuzz.cpp.

SWEEP_FUZZ_STEPS=1000000 plays a million env steps of each; without it enough for the longest episode.
"""

import os

import pytest

from sweep import check
from trainer_native import environments

ENV_STEPS = int(os.environ.get("SWEEP_FUZZ_STEPS", "20000"))
SHIPPED = sorted(path.stem for path in environments.folders()[1].glob("*.h"))


@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_clean_and_within_its_stated_ranges(name):
    found = check.check(str(environments.folders()[1] / f"{name}.h"), ENV_STEPS, seed=ENV_STEPS % 1000)
    assert found["faults"] == []
    if not found["sanitizers"]:
        pytest.skip("no sanitizers here: played without")
    # The trainer and `transition` never step on after an episode's end.
    assert [w for w in found["warnings"] if not w["what"].startswith("stepped on after")] == []
    assert found["env_steps"] >= ENV_STEPS and found["episodes"]["episodes"] > 0
