"""Reports: what they say, what they never overwrite, and how long they take."""

import json
import math
import re
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import report_data

from sweep import figures, pages, wording

HOSTILE = """</script><script>alert(1)</script>"'><img src=x onerror=alert(2)>{{ 7*7 }}"""


class Page(HTMLParser):
    """The elements of a page: (tag, attributes), and its text outside script and style."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.words, self.inside = [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        if self.inside not in ("script", "style"):
            self.words.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def files(folder):
    return sorted(p.name for p in folder.iterdir())


def test_says_the_answer(tmp_path):
    data = report_data.study()
    best = figures.by_number(data)[data["recommended"]]
    page = pages.write_report(data, tmp_path / "report")
    assert page == tmp_path / "report" / "index.html"
    assert files(page.parent) == ["index.html", "plotly.min.js"]
    text = Page(page.read_text("utf-8")).text
    numbers = best["verified"]
    assert f"A network of {best['parameters']:,} parameters solves breakout in" in text
    assert f"{numbers['solved']} of {numbers['runs']}" in text
    assert f"sweep export breakout breakout-{best['number']}.toml --trial {best['number']}" in text
    assert f"sweep train breakout-{best['number']}.toml" in text
    assert "a frozen copy of the policy reaches a mean return of 800 over 100 fresh episodes, acting as in training" in text
    assert "AMD EPYC 7763 64-Core Processor, 2 cores, 24.0 GiB, Linux 6.1" in text


def test_asks_no_other_machine_for_anything():
    for tag, attributes in Page(pages.render(report_data.study())).elements:
        for name in ("src", "href", "action", "srcset"):
            assert attributes.get(name) in (None, "plotly.min.js", "data:,"), (tag, attributes)


@pytest.mark.parametrize(("change", "why"), [
    (lambda d: d.update(trials=[], counts={"trials": 0, "runs": {}}, front=[], recommended=None, search=[]), "No run has ended yet."),
    (lambda d: [t.update(verification=[], verified=None, is_verified=False) for t in d["trials"]] and d.update(recommended=None),
     "No finalist has been measured again with fresh seeds yet. The fastest claim of the search is trial"),
    (lambda d: [t.update(is_verified=False) for t in d["trials"]] and d.update(recommended=None),
     "5 finalists were measured again; verified is one with at least 12 fresh seeds of which at least 80% solve."),
])
def test_says_why_nothing_is_verified(change, why):
    data = report_data.study()
    change(data)
    text = Page(pages.render(data)).text
    assert "Nothing is verified yet." in text
    assert why in text
    assert "sweep run breakout" in text


def test_says_so_where_nothing_solves():
    text = Page(pages.render(report_data.study(rate=0.0, finalists=0))).text
    assert "No trial has solved yet, so there is nothing to place." in text
    assert "Point at one" not in text
    assert re.search(r"0 of 60 trials solved in 60 s; the best reached \d+(\.\d+)? of 800: its longest run had 44\.\d s; give the search", text)


def test_claims_and_measurements_have_tables_of_their_own():
    data = report_data.study()
    claimed = next(t for t in data["trials"] if not t["verification"] and t["search"]["solved"])
    data["front"] = [claimed["number"], *data["front"]]
    text = Page(pages.render(data)).text
    assert text.index("Measured again, with fresh seeds") < text.index("Claimed by the search only")


def test_says_how_far_claims_held():
    data = report_data.study()
    for trial in data["trials"]:
        if trial["is_verified"]:
            trial["search"]["seconds"]["restart_ert"] = trial["verified"]["seconds"]["restart_ert"] / 1.25
    line = "verified trials take, at the median, 1.25 × the restart ERT that the search claimed of them in CPU seconds"
    assert line in Page(pages.render(data)).text
    verified = [t for t in data["trials"] if t["is_verified"]]
    assert "the verified trial takes 1.25 ×" in wording.claims_held(verified[:1]) and wording.claims_held([]) == ""


def test_hostile_text_stays_text():
    data = report_data.study(trials=20)
    data["study"].update(name=HOSTILE, question=HOSTILE, env=HOSTILE, sampler=HOSTILE)
    data["study"]["definition"]["dimensions"] = {HOSTILE: [HOSTILE]}
    data["machines"][0].update(command=HOSTILE, machine={"cpu": HOSTILE}, build={"isa": HOSTILE}, started=HOSTILE)
    for trial in data["trials"]:
        trial.update(params={HOSTILE: HOSTILE, **trial["params"], "optimizer": f"{HOSTILE}{trial['number']}"}, origin=HOSTILE)
        for run in trial["runs"] + trial["verification"]:
            run.update(seed=HOSTILE, worker=HOSTILE)
    html = pages.render(data)
    page = Page(html)
    assert [a for t, a in page.elements if t == "script"] == [
        {"src": "plotly.min.js", "defer": None}, {"type": "application/json", "id": "drawings"}, {}]
    assert "img" not in [t for t, _ in page.elements]
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert HOSTILE in page.text
    drawings = re.search(r'id="drawings">(.*?)</script>', html, re.DOTALL)[1]
    assert not set("<>&\u2028\u2029") & set(drawings)
    json.loads(drawings, parse_constant=pytest.fail)


def test_commands_are_safe_to_paste():
    export, train = wording.commands("my study; rm -rf ~", 3)
    assert export == "sweep export 'my study; rm -rf ~' my-study-rm-rf-3.toml --trial 3"
    assert train == "sweep train my-study-rm-rf-3.toml"
    assert wording.commands("../..", 0)[1] == "sweep train study-0.toml"


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -1.0, 0])
def test_survives_absent_and_unbounded_numbers(bad):
    import numpy as np

    data = report_data.study(trials=25, finalists=4)
    keep = data["study"]["name"]
    data.update({k: report_data.spoil(v, bad, np.random.default_rng(2)) for k, v in data.items() if k not in ("front", "recommended")})
    text = Page(pages.render(data)).text
    assert keep in text
    assert not re.search(r"\b(nan|inf|None|Undefined)\b", text)


def test_replaces_its_own_report_and_leaves_the_rest_of_the_folder(tmp_path):
    folder = tmp_path / "report"
    first = pages.write_report(report_data.study(seed=1), folder).read_bytes()
    (folder / "notes.txt").write_text("mine")
    second = pages.write_report(report_data.study(seed=2), folder).read_bytes()
    assert first != second
    assert files(folder) == ["index.html", "notes.txt", "plotly.min.js"]
    assert files(tmp_path) == ["report"]


def test_takes_an_empty_folder(tmp_path):
    assert pages.write_report(report_data.study(trials=5), tmp_path).is_file()
    assert files(tmp_path) == ["index.html", "plotly.min.js"]


def test_makes_the_folders_above(tmp_path):
    assert pages.write_report(report_data.study(trials=5), tmp_path / "a" / "b").is_file()


@pytest.mark.parametrize("make", [
    lambda f: f.write_text("a file"),
    lambda f: (f.mkdir(), (f / "thesis.tex").write_text("mine")),
    lambda f: (f.mkdir(), (f / "index.html").write_text("<title>my homepage</title>")),
    lambda f: pages.write_report(report_data.study(trials=5, name="cartpole"), f),
    lambda f: f.symlink_to("nowhere"),
])
def test_never_overwrites_what_is_not_its_report(tmp_path, make):
    folder = tmp_path / "report"
    make(folder)

    def held():
        return {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    before = held()
    with pytest.raises(pages.PageError) as error:
        pages.write_report(report_data.study(trials=5), folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
    assert held() == before


def test_leaves_nothing_behind_where_it_cannot_write(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(pages.PageError, match="No space left on device"):
        pages.write_report(report_data.study(trials=5), tmp_path / "report")
    assert files(tmp_path) == []


def test_two_thousand_trials_take_under_three_seconds_of_cpu():
    data = report_data.study(trials=2000, finalists=8, curves=False)
    pages.render(report_data.study(trials=5))  # imports
    begun = time.process_time()
    html = pages.render(data)
    assert time.process_time() - begun < 3
    assert len(html) < 3e6


@pytest.mark.parametrize(("hidden", "layers", "lower"), [
    ([16, 32], 1, ["hidden"]), ([32, 64], 1, None), ([8, 16], 1, None), ({"int": [16, 64]}, [2, 3], None),
    (16, {"int": [1, 3]}, ["hidden"]), (None, [1, 2], ["hidden"]), ([], 1, None),
])
def test_smallest_network_of_the_space(hidden, layers, lower):
    dimensions = {k: v for k, v in {"hidden": hidden, "layers": layers}.items() if v is not None}
    assert wording.smallest({"params": {"hidden": 16, "layers": 1}}, dimensions) == lower


def test_says_that_the_network_is_the_smallest(tmp_path):
    assert wording.smallest({"params": {"hidden": 8, "layers": 1}}, {"hidden": [8, 16]}) == []
    data = report_data.study()
    best = figures.by_number(data)[data["recommended"]]
    for least, advice in ((best["params"]["hidden"], True), (best["params"]["hidden"] // 2, False)):
        data["study"]["definition"]["dimensions"] = {"hidden": [least, 64], "layers": 1}
        text = Page(pages.write_report(data, tmp_path / str(least)).read_text("utf-8")).text
        assert ("parameters is the smallest network of this space;" in text) == advice
    assert "It can be below the median" in text
