"""docs/environments.md is what the headers and studies of today make of it."""

import json
from xml.etree import ElementTree

import environments_page
import pytest

pytestmark = pytest.mark.skipif(not environments_page.PAGE.is_file(), reason="not in a source tree")


def test_the_page_is_up_to_date():
    assert environments_page.PAGE.read_text() == environments_page.page(), "run `python scripts/environments_page.py`"


def test_what_was_measured_is_shown(tmp_path, monkeypatch):
    """The newest definition's runs; an unsolved one is longer than any; a dash where half or more are unsolved."""
    monkeypatch.setattr(environments_page, "DOCS", tmp_path)
    run = {"study": "cartpole", "hash": "old", "status": "censored", "parameters": 256, "seconds": 2.0,
           "cpu_seconds": 2.0, "env_steps": 9}
    new = [run | {"hash": "new", "status": "solved", "seconds": s, "cpu_seconds": s / 2, "env_steps": 50_000 * s} for s in (1.0, 2.0, 3.0)]
    new.append(run | {"hash": "new"})
    hard = [run | {"study": "hard", "env_steps": 8_000_000}]
    (tmp_path / "solved.json").write_text(json.dumps({"runs": [run, *new, *hard]}))
    assert environments_page.solved_rows() == [
        ["cartpole", "256", "3 of 4", "2.50", "1.25", "125k", "100k"], ["hard", "256", "0 of 1", "–", "–", "–", "4.00M"]]
    assert environments_page.golden_rows() == []


@pytest.mark.parametrize("name", ["breakout", "pendulum"])
def test_a_picture(name):
    drawn = ElementTree.fromstring(environments_page.draw(name))
    assert drawn.tag.endswith("svg") and len(drawn) > 3
    assert environments_page.draw("bernoulli_bandit") is None
