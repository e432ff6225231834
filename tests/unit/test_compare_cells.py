"""The comparison of cells: equal questions, ratios, the table, and that what has ended is not run again."""

import json
import sys

import compare_cells

SECONDS = {"median": 2.0, "low": 1.0, "high": None, "restart_ert": 2.0, "restart_ert_low": 1.0, "restart_ert_high": 4.0}


def verified(**changes):
    return {"trials": 3, "runs": 9, "runs_solved": 7, "verified": {
        "trial": 1, "parameters": 848, "runs": 12, "solved": 12, "seconds": {**SECONDS, **changes}, "env_steps": {"median": 5e4},
        "steps_per_second": 1e6, "params": {}, "smallest": 848}}  # fmt: skip


NOTHING = {"trials": 1, "runs": 4, "runs_solved": 0, "verified": None}


def test_the_questions_differ_in_the_cell_alone():
    asked = [compare_cells.question("tmaze", cell, "3m", "2m") for cell in ("mingru", "lstm", "mlp")]
    assert len({question.hash for question in asked}) == 3
    assert [question.trial0()["cell"] for question in asked] == ["mingru", "lstm", "mlp"]
    assert len({str({**question.trial0(), "cell": None}) for question in asked}) == 1
    assert not any(question.start for question in asked)
    assert {question.budget.study_seconds for question in asked} == {180.0}
    assert compare_cells.study.changes(asked[0].definition(), asked[1].definition()) == ["cell 'mingru' -> 'lstm'"]


def test_a_ratio_has_the_least_and_the_most_that_the_intervals_allow():
    first, mine = verified()["verified"], verified(restart_ert=3.0, restart_ert_low=2.0, restart_ert_high=8.0)["verified"]
    assert compare_cells.ratio(mine, first) == [1.5, 0.5, 8.0]
    assert compare_cells.ratio(None, first) is None
    assert compare_cells.ratio(mine, None) is None


def test_the_table_says_what_was_not_solved():
    text = compare_cells.table({"tmaze": {"mingru": verified(), "lstm": verified(restart_ert=1.0), "mlp": NOTHING}})
    rows = text.splitlines()
    assert len(rows) == 4
    assert "848" in rows[1]
    assert "12/12" in rows[1]
    assert "0.50 (0.25–4.00)" in rows[2]
    assert "none verified; 0 of 4 runs solved" in rows[3]


def test_what_is_written_is_json(tmp_path):
    compare_cells.write(tmp_path / "out.json", {"tmaze": {"mingru": verified(restart_ert_high=float("inf")), "mlp": NOTHING}}, {})
    cells = json.loads((tmp_path / "out.json").read_text())["games"]["tmaze"]
    assert cells["mingru"]["verified"]["seconds"]["restart_ert_high"] is None
    assert cells["mlp"]["ratio"] is None
    assert list(tmp_path.iterdir()) == [tmp_path / "out.json"]


def test_what_has_ended_is_not_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = "compare_cells --games simple_bandit --cells mingru,lstm --budget 1s --verify 1s --workers 1"
    monkeypatch.setattr(sys, "argv", words.split())
    compare_cells.main()
    first = json.loads((tmp_path / "compare_cells.json").read_text())["games"]["simple_bandit"]
    assert set(first) == {"mingru", "lstm"}
    assert "of search" in capsys.readouterr().err
    compare_cells.main()
    assert "of search" not in capsys.readouterr().err
    assert json.loads((tmp_path / "compare_cells.json").read_text())["games"]["simple_bandit"] == first
