"""Studies: what ships loads, the definition decides the hash, and each mistake is one line."""

import dataclasses
import json
import os
import pickle
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trainer_native
from sweep import space, tomlfiles
from sweep import study as studies
from sweep.study import StudyError, load, parse_duration
from trainer_native import config

SHIPPED = sorted(path.stem for path in (Path(__file__).parents[2] / "studies").glob("*.toml"))
FRAMESKIP = config.Hyperparameter("frameskip", "environment", 4, "frames of one env step", 1, 16)


@dataclasses.dataclass(frozen=True)
class Environment:
    name: str
    source: Path = Path("x.h")
    source_hash: str = "abc"
    actions: int = 3
    choices: tuple = (3,)
    image: tuple | None = None
    observation_size: int = 4
    has_metric: bool = False
    params: dict = dataclasses.field(default_factory=dict)


class HeaderError(ValueError):
    pass


@pytest.fixture(autouse=True)
def two_environments(monkeypatch):
    """Stands in for the environments, so that these tests compile nothing."""
    known = {"breakout": Environment("breakout", params={"frameskip": FRAMESKIP}), "cartpole": Environment("cartpole")}

    def find(name):
        if str(name).endswith(".h"):
            text = Path(name).read_text()
            if "broken" in text:
                raise HeaderError("x.h, line 3: no\n  reset")
            return Environment(Path(name).stem, source_hash=text)
        if name not in known:
            raise HeaderError("unknown")
        return known[name]

    stub = SimpleNamespace(find=find, names=lambda: sorted(known), HeaderError=HeaderError)
    monkeypatch.setattr(trainer_native, "environments", stub)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


GOOD = """\
# How fast?
#
# And how small?

# not this
env = "breakout"
sampler = "random"
[solve]
mean_return = 800
[budget]
study = "90s"
[net]
hidden = [16, 8]
[train]
gamma = { near_one = [0.9, 0.999] }
[environment]
frameskip = 6
"""


def write(text, name="a.toml"):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def line(call, *arguments, **options):
    with pytest.raises(StudyError) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- what loads -------------------------------------------------------------------------------------------


def test_a_study_has_what_its_file_says(here):
    study = load(write(GOOD))
    assert (study.name, study.env, study.space, study.sampler) == ("a", "breakout", None, "random")
    assert study.question == "How fast? And how small?"
    assert (study.solve.mean_return, study.solve.episodes, study.solve.policy) == (800.0, 100, "sampled")
    assert study.budget == studies.Budget(90.0, 600.0, 60.0, 8, None)
    assert study.dimensions == {
        "hidden": space.Choice((8, 16)),
        "gamma": space.Range("near_one", 0.9, 0.999),
        "frameskip": space.Fixed(6),
    }
    assert study.source == here / "a.toml"
    assert study.trial0() == {"hidden": 16, "gamma": 0.98, "frameskip": 6}


def test_trial_0_begins_where_the_file_says(here):
    """In the space, at the nearest value it has; where the search starts is not part of what the study asks."""
    plain = load(write(GOOD))
    started = load(write(GOOD.replace("[net]", "[start]\nhidden = 8\ngamma = 0.95\n[net]")))
    assert started.trial0() == {"hidden": 8, "gamma": 0.95, "frameskip": 6}
    assert started.hash == plain.hash and started.start == {"hidden": 8, "gamma": 0.95} and plain.start == {}
    between = GOOD.replace("[train]\n", "[start]\nenvs = 100\n[train]\nenvs = { pow2 = [8, 512] }\n")
    assert load(write(between)).trial0() == {"hidden": 16, "envs": 128, "gamma": 0.98, "frameskip": 6}
    solve = GOOD.replace("[train]\n", "[start]\ntry_from = 700\n[train]\ntry_from = [700, 800]\n")
    assert load(write(solve)).trial0()["try_from"] == 700
    assert pickle.loads(pickle.dumps(started)) == started


def test_the_command_line_wins_over_the_budget_and_the_sampler(here):
    study = load(write(GOOD), budget="5m", verify=0, run="2.5s", seeds=4, env_steps=1e3, sampler="gp")
    assert study.budget == studies.Budget(300.0, 0.0, 2.5, 4, 1000)
    assert study.sampler == "gp"


def test_a_study_can_be_hashed_pickled_and_not_changed(here):
    study = load(write(GOOD))
    assert pickle.loads(pickle.dumps(study)) == study and len({study, load("a.toml")}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        study.name = "b"


def test_what_is_yours_is_found_before_what_ships(here):
    assert load("cartpole").source == studies.folder("studies") / "cartpole.toml"
    write(GOOD, "studies/cartpole.toml")
    assert load("cartpole").source == here / "studies/cartpole.toml"
    write("[net]\nhidden = [8, 32]", "spaces/ppo.toml")
    write(GOOD.replace("# How", 'space = "ppo"\n# How').replace("hidden = [16, 8]", ""), "studies/mine.toml")
    assert list(load("mine").dimensions) == ["hidden", "gamma", "frameskip"]
    assert studies.names() == sorted([*SHIPPED, "mine"])


def test_a_study_overrides_its_space_key_by_key(here):
    write("[net]\nhidden = [8, 32]\nlayers = [1, 2]", "spaces/s.toml")
    study = load(write('space = "s"\n' + GOOD))
    assert study.dimensions["hidden"] == space.Choice((8, 16)) and study.dimensions["layers"] == space.Choice((1, 2))
    assert list(study.dimensions) == ["hidden", "layers", "gamma", "frameskip"]
    write("[net]\nlayers = [1, 2]", "elsewhere/t.toml")
    assert "layers" in load(write('space = "t.toml"\n' + GOOD, "elsewhere/b.toml")).dimensions


def test_a_header_of_your_own(here):
    write("source of catch", "games/catch.h")
    for env in ("games/catch.h", "./games/catch.h", str(here / "games/catch.h")):
        study = load(write(GOOD.replace('"breakout"', f'"{env}"').replace("frameskip = 6", "")))
        assert Path(study.env).samefile("games/catch.h") and study.source_hash == "source of catch"
        assert study.definition()["env"] == "catch"
    study = load(write(GOOD.replace('"breakout"', '"catch.h"').replace("frameskip = 6", ""), "games/a.toml"))
    assert study.env == str(here / "games/catch.h")


# -- identity ---------------------------------------------------------------------------------------------


def test_the_definition_is_plain_and_canonical(here):
    definition = load(write(GOOD)).definition()
    assert json.dumps(definition) == (
        '{"env": "breakout", "source_hash": "abc", "dimensions": {"frameskip": 6, "gamma": {"near_one": [0.9, 0.999]}, '
        '"hidden": [8, 16]}, "solve": {"mean_return": 800.0, "episodes": 100, "policy": "sampled"}, '
        '"trainer": "native", "semantics": ' + f"{config.SEMANTICS}}}"
    )
    dimensions = {name: space.parse(name, value, "") for name, value in definition["dimensions"].items()}
    assert dimensions == load("a.toml").dimensions


def test_the_hash_is_of_the_question_alone(here, monkeypatch):
    study = load(write(GOOD))
    assert len(study.hash) == 64
    same = [
        GOOD.replace("random", "tpe"),
        GOOD.replace("90s", "3h"),
        GOOD.replace("# How", "# Why"),
        GOOD.replace("[16, 8]", "[8.0, 16.0]"),
        GOOD.replace("800", "8e2\nepisodes = 100"),
    ]
    assert {load(write(text, f"{i}.toml")).hash for i, text in enumerate(same)} == {study.hash}
    other = [
        GOOD.replace("800", "801"),
        GOOD.replace("800", "800\nepisodes = 99"),
        GOOD.replace("800", '800\npolicy = "greedy"'),
        GOOD.replace("[16, 8]", "[16, 8, 32]"),
        GOOD.replace("0.999", "0.998"),
        GOOD.replace("near_one", "uniform"),
        GOOD.replace("frameskip = 6", "frameskip = 5"),
        GOOD.replace("frameskip = 6", ""),
    ]
    hashes = {load(write(text, f"{i}.toml")).hash for i, text in enumerate(other)}
    monkeypatch.setattr(config, "SEMANTICS", config.SEMANTICS + 1)
    hashes.add(study.hash)
    hashes.add(dataclasses.replace(study, source_hash="abd").hash)
    hashes.add(dataclasses.replace(study, trainer="other").hash)
    assert len(hashes) == len(other) + 3


# -- durations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("60s", 60), ("1h30m", 5400), ("2.5s", 2.5), (90, 90), ("90", 90), ("1h 30m", 5400), (".5s", 0.5),
     ("250ms", 0.25), ("1d", 86400), ("1 m", 60), ("0s", 0), (0.5, 0.5), (" 2h ", 7200), ("5m30s500ms", 330.5)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds and isinstance(parse_duration(text), float)


@pytest.mark.parametrize("value", ["", " ", "15 minutes", "m", "-5s", "30m1h", "1m1m", "nan", "inf", "1e3s", "٣s", -1,
                                   float("nan"), float("inf"), True, None, [1], {}, "5x", "1_0s", "1s;"])
def test_what_is_no_duration(value):
    assert line(parse_duration, value) == f'{value!r} is not a duration; legal are such as "90s", "15m", "1h30m"'


@settings(deadline=None)
@given(st.floats(0, 1e6))
def test_any_number_of_seconds_is_a_duration(seconds):
    assert parse_duration(f"{seconds:.9f}s") == pytest.approx(seconds, abs=1e-9)
    assert parse_duration(seconds) == seconds


# -- mistakes ---------------------------------------------------------------------------------------------

SAMPLERS = "Legal are capri, tpe, random, cmaes, gp"
KEYS = "Legal are env, space, sampler, [solve], [budget], [start], [net], [train], [environment]"
MISTAKES = [
    # -- names
    ("gamma = ", "gama = ", "a.toml [train]: 'gama' is not a hyperparameter. Did you mean 'gamma'?"),
    ("hidden = ", "hiden = ", "a.toml [net]: 'hiden' is not a hyperparameter. Did you mean 'hidden'?"),
    ("hidden = ", "gama = ", "a.toml [net]: 'gama' is not a hyperparameter. Did you mean 'gamma' of [train]?"),
    ("hidden = ", "gaussian = ['clipped', 'squashed']\nhidden = ", (
        "a.toml [net]: 'gaussian' ['clipped', 'squashed'] is for continuous actions; this environment's are discrete, and it "
        "takes none but the default, 'clipped'")),
    ("hidden = ", "xyzzy = ", ("a.toml [net]: 'xyzzy' is not a hyperparameter. "
     "Legal are hidden, layers, cell, activation, encoder, filters, biases, constant_input, separate_value, initialisation, policy_gain, "
     "gaussian, log_std, normalise_inputs")),
    ("frameskip", "framskip", ("a.toml [environment]: 'framskip' is not a hyperparameter of breakout. "
     "Did you mean 'frameskip'?")),
    ('"breakout"', '"cartpole"', "a.toml [environment]: 'frameskip' is not a hyperparameter of cartpole. It has none"),
    ("gamma", "layers", "a.toml [train]: 'layers' belongs to [net]"),
    ("gamma", "frameskip", "a.toml [train]: 'frameskip' belongs to [environment]"),
    ("gamma = ", "sampler = 'tpe'\ngamma =",
     "a.toml [train]: 'sampler' belongs to the top of a study, before its first table"),
    ("gamma = ", "episodes = 5\ngamma =", "a.toml [train]: 'episodes' belongs to [solve]"),
    ("sampler", "gamma", "a.toml: 'gamma' belongs to [train]"),
    ("sampler", "mean_return", "a.toml: 'mean_return' belongs to [solve]"),
    ("sampler", "smapler", f"a.toml: 'smapler' is not a key of a study. Did you mean 'sampler'? {KEYS}"),
    ("[train]", "[trian]", f"a.toml: '[trian]' is not a key of a study. Did you mean 'train'? {KEYS}"),
    ("[train]", "[search]", f"a.toml: '[search]' is not a key of a study. {KEYS}"),
    ('sampler = "random"', "budget = 3", "a.toml: not TOML: Cannot overwrite a value (at line 10, column 8)"),
    ("[train]", "[[train]]", "a.toml: 'train' is [{ gamma = { near_one = [0.9, 0.999] } }]; legal is a table, [train]"),
    # -- environment, space, sampler
    ('"breakout"', '"brekout"', ("a.toml: 'brekout' is not an environment. Did you mean 'breakout'? "
     "Legal are breakout, cartpole, or the path of a header")),
    ('env = "breakout"', "", "a.toml: 'env' is missing; legal are breakout, cartpole, or the path of a header"),
    ('"breakout"', "3", "a.toml: 'env' is 3; legal is a name or a path, in quotes"),
    ('"breakout"', '""', "a.toml: 'env' is ''; legal is a name or a path, in quotes"),
    ('"breakout"', '"catch.h"', "a.toml: 'env' is 'catch.h'; no such file"),
    ('"breakout"', '"broken.h"', None),
    ("sampler = ", 'space = "pop"\nsampler = ', ("a.toml: 'pop' is not a space. Did you mean 'ppo'? "
     "Legal are ppo, or the path of a .toml file")),
    ("sampler = ", 'space = "b.toml"\nsampler = ', "a.toml: b.toml: no such file"),
    ("sampler = ", "space = 3\nsampler = ", "a.toml: 'space' is 3; legal is a name or a path, in quotes"),
    ('"random"', '"tpee"', f"a.toml: 'sampler' is 'tpee'. Did you mean 'tpe'? {SAMPLERS}"),
    ('"random"', "['tpe']", f"a.toml: 'sampler' is ['tpe']. {SAMPLERS}"),
    # -- ranges and choices (all of them: test_space.py)
    ("[0.9, 0.999]", "[0.999, 0.9]", "a.toml [train]: 'gamma' is { near_one = [0.999, 0.9] }; low must be below high"),
    ("[16, 8]", "[8, 12]",
     "a.toml [net]: 'hidden' is 12; legal is a whole number from 8 to 512, a multiple of 8, in [8, 12]"),
    ("frameskip = 6", "frameskip = { int = [1, 17] }",
     "a.toml [environment]: 'frameskip' is 17; legal is a whole number from 1 to 16, in { int = [1, 17] }"),
    ("gamma = ", "reward_clip = 1979-05-27\ngamma = ",
     "a.toml [train]: 'reward_clip' is 1979-05-27; legal is a value, a list of values or a range"),
    # -- combinations
    ("gamma = ", "minibatches = 3\ngamma = ", "a.toml [train]: 'minibatches' 3 does not divide envs 128"),
    ("gamma = ", "envs = { pow2 = [4, 64] }\nminibatches = 3\ngamma = ",
     ("a.toml [train]: only 0.0% of the combinations of this space are legal, and at least 10% must be; "
     "for example 'minibatches' 3 does not divide envs 8")),
    ("gamma = ", "envs = { pow2 = [4, 64] }\nminibatches = { int = [5, 60] }\ngamma = ",
     ("a.toml [train]: only 3.2% of the combinations of this space are legal, and at least 10% must be; "
     "for example 'minibatches' 7 does not divide envs 8")),
    # -- solve
    ("mean_return = 800", "", ("a.toml [solve]: 'mean_return' is missing; legal is a number, "
     "the mean return that counts as solved")),
    ("[solve]\nmean_return = 800", "", ("a.toml: [solve] is missing; legal is a table with mean_return, "
     "and maybe episodes and policy")),
    ("= 800", "= '800'", "a.toml [solve]: 'mean_return' is '800'; legal is a finite number"),
    ("= 800", "= nan", "a.toml [solve]: 'mean_return' is nan; legal is a finite number"),
    ("= 800", "= true", "a.toml [solve]: 'mean_return' is true; legal is a finite number"),
    ("= 800", "= 800\nepisodes = 0", "a.toml [solve]: 'episodes' is 0; legal is a whole number, from 1 to 100,000"),
    ("= 800", "= 800\nepisodes = 1.5", "a.toml [solve]: 'episodes' is 1.5; legal is a whole number, from 1 to 100,000"),
    ("= 800", "= 800\npolicy = 'gredy'", ("a.toml [solve]: 'policy' is 'gredy'. Did you mean 'greedy'? "
     "Legal are sampled, greedy")),
    ("= 800", "= 800\nepisode = 5", ("a.toml [solve]: 'episode' is not legal here. Did you mean 'episodes'? "
     "Legal are mean_return, metric, episodes, policy")),
    ("= 800", "= 800\ntry_from = 5", "a.toml [solve]: 'try_from' belongs to [train]"),
    # -- start
    ("[net]", "[start]\ngama = 0.9\n[net]", "a.toml [start]: 'gama' is not a hyperparameter. Did you mean 'gamma'?"),
    ("[net]", "[start]\nepisodes = 9\n[net]", "a.toml [start]: 'episodes' belongs to [solve]"),
    ("[net]", "[start]\nhidden = 12\n[net]", "a.toml [start]: 'hidden' is 12; legal is a whole number from 8 to 512, a multiple of 8"),
    ("[net]", "[start]\nhidden = 24\n[net]", "a.toml [start]: 'hidden' is 24; the space has [8, 16]"),
    ("[net]", "[start]\nhidden = [8, 16]\n[net]", ("a.toml [start]: 'hidden' is [8, 16]; legal is a whole number from 8 to 512, "
     "a multiple of 8")),
    ("[net]", "[start]\ngamma = 0.8\n[net]", "a.toml [start]: 'gamma' is 0.8; the space has { near_one = [0.9, 0.999] }"),
    ("[net]", "[start]\nframeskip = 4\n[net]", "a.toml [start]: 'frameskip' is 4; the space has 6"),
    ("[net]", "[start]\nepochs = 3\n[net]", ("a.toml [start]: 'epochs' is not in the space; fix it in [train], epochs = 3, "
     "or search it there")),
    ("[train]\n", "[start]\nminibatches = 3\n[train]\nminibatches = { int = [1, 8] }\n",
     "a.toml [start]: 'minibatches' 3 does not divide envs 128"),
    ("[net]", "start = 3\n[net]", "a.toml [budget]: 'start' is not legal here. Legal are study, verify, run, seeds, env_steps"),
    ('sampler = "random"', "start = 3", "a.toml: 'start' is 3; legal is a table, [start]"),
    # -- budget
    ('"90s"', '"0s"', "a.toml [budget]: 'study' is '0s'; legal is a duration above zero"),
    ('"90s"', '"90s"\nrun = "0s"', "a.toml [budget]: 'run' is '0s'; legal is a duration above zero"),
    ('"90s"', '"90s"\nrun = 0', "a.toml [budget]: 'run' is 0; legal is a duration above zero"),
    ('"90s"', '"90s"\nverify = "ten"',
     "a.toml [budget]: 'verify' is 'ten'; legal is a duration such as \"90s\", \"15m\", \"1h30m\""),
    ('"90s"', "-90", "a.toml [budget]: 'study' is -90; legal is a duration such as \"90s\", \"15m\", \"1h30m\""),
    ('"90s"', '"90s"\nseeds = 0', "a.toml [budget]: 'seeds' is 0; legal is a whole number, at least 1"),
    ('"90s"', '"90s"\nenv_steps = 1.5e-3',
     "a.toml [budget]: 'env_steps' is 0.0015; legal is a whole number, at least 1"),
    ('"90s"', '"90s"\nseed = 3', ("a.toml [budget]: 'seed' is not legal here. Did you mean 'seeds'? "
     "Legal are study, verify, run, seeds, env_steps")),
    # -- TOML
    ('"random"', "random", "a.toml: not TOML: Invalid value (at line 7, column 11)"),
    ("[net]", "[net", "a.toml: not TOML: Expected ']' at the end of a table declaration (at line 12, column 5)"),
    ("[train]", "[net]", "a.toml: not TOML: Cannot declare ('net',) twice (at line 14, column 5)"),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_each_mistake_is_one_line(here, old, new, message):
    write("broken", "broken.h")
    assert old in GOOD
    found = line(load, write(GOOD.replace(old, new, 1)))
    assert found == (message or "a.toml: 'env' is 'broken.h': x.h, line 3: no reset").replace(
        "'broken.h'", repr(str(here / "broken.h")))


def test_what_changed_between_two_definitions():
    before = {"env": "a", "source_hash": "x", "dimensions": {"hidden": [8, 16]}, "solve": {"mean_return": 185.0}}
    after = {"env": "a", "source_hash": "y", "dimensions": {"hidden": 8}, "solve": {"mean_return": 180.0}}
    assert studies.changes(before, before) == []
    assert studies.changes(before, after) == ["hidden [8, 16] -> 8", "solve.mean_return 185 -> 180", "environment source"]


@pytest.mark.parametrize("table", ["mean_return = " + "9" * 400, "mean_return = 1\nepisodes = 2000000000",
                                   "mean_return = 1\nepisodes = " + "9" * 20])
def test_a_hostile_solve_is_a_short_line(table):
    with pytest.raises(StudyError) as error:
        studies.check_solve(tomllib.loads(table), "a.toml [solve]", Environment("breakout"))
    assert len(str(error.value)) < 140


def test_unknown_studies(here):
    legal = f"Legal are {tomlfiles.listing(SHIPPED)}, or the path of a .toml file"
    assert line(load, "brekout") == f"'brekout' is not a study. Did you mean 'breakout'? {legal}"
    assert line(load, "") == f"'' is not a study. {legal}"
    assert line(load, "no/such.toml") == "no/such.toml: no such file"
    assert line(load, "x" * 5000 + ".toml").endswith("cannot be read: File name too long")


def test_files_that_cannot_be_read(here, monkeypatch):
    Path("folder.toml").mkdir()
    assert line(load, "folder.toml") == "folder.toml: not a file; legal is a TOML file"
    Path("latin.toml").write_bytes(b"# caf\xe9")
    assert line(load, "latin.toml") == "latin.toml: not UTF-8, at byte 5; legal is a TOML file in UTF-8"
    Path("deep.toml").write_text("a = " + "[" * 100_000)
    assert line(load, "deep.toml").startswith("deep.toml: not TOML: ")
    Path("digits.toml").write_text("a = " + "1" * 10_000)
    assert line(load, "digits.toml").startswith("digits.toml: not TOML: ")

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    write(GOOD)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert line(load, "a.toml") == "a.toml: cannot be read: Permission denied"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_files_without_permission(here):
    Path(write(GOOD)).chmod(0)
    assert line(load, "a.toml") == "a.toml: cannot be read: Permission denied"


def test_a_byte_order_mark_is_no_mistake(here):
    Path("a.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load("a.toml").question == "How fast? And how small?"


def test_a_value_where_a_table_belongs(here):
    text = GOOD.replace("[train]\ngamma = { near_one = [0.9, 0.999] }\n", "").replace("sampler", "train")
    assert line(load, write(text)) == "a.toml: 'train' is 'random'; legal is a table, [train]"


def test_mistakes_in_a_space_name_the_space(here):
    write('space = "s"\n' + GOOD)
    write("[train]\ngama = 3", "spaces/s.toml")
    assert line(load, "a.toml") == "spaces/s.toml [train]: 'gama' is not a hyperparameter. Did you mean 'gamma'?"
    write("[budget]\nseeds = 3", "spaces/s.toml")
    assert line(load, "a.toml") == (
        "spaces/s.toml: '[budget]' is not a key of a space. Legal are [net], [train], [environment]")
    write('env = "breakout"', "spaces/s.toml")
    assert line(load, "a.toml") == (
        "spaces/s.toml: 'env' belongs to the top of a study, before its first table")
    write("[train]\nminibatches = 3", "spaces/s.toml")
    assert line(load, "a.toml") == "spaces/s.toml [train]: 'minibatches' 3 does not divide envs 128"


def test_a_space_with_nothing_to_search(here):
    text = GOOD.replace("[16, 8]", "[16]").replace("{ near_one = [0.9, 0.999] }", "0.99")
    assert line(load, write(text)) == (
        "a.toml: nothing to search; give [net], [train] or [environment] a list or a range, or start from a space: ppo")


def test_mistakes_on_the_command_line_name_the_option(here):
    write(GOOD)
    assert line(load, "a.toml", budget="0") == "--budget is '0'; legal is a duration above zero"
    assert line(load, "a.toml", run="soon") == (
        "--run is 'soon'; legal is a duration such as \"90s\", \"15m\", \"1h30m\"")
    assert line(load, "a.toml", sampler="cma") == f"--sampler is 'cma'. Did you mean 'cmaes'? {SAMPLERS}"
    assert line(load, "a.toml", seeds=0) == "--seeds is 0; legal is a whole number, at least 1"
    write(GOOD.replace('"90s"', '"ninety"'))
    assert line(load, "a.toml", budget="5m").startswith("a.toml [budget]: 'study' is 'ninety'")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.data())
def test_any_damage_to_a_file_is_one_line_or_a_study(here, data):
    cut = data.draw(st.integers(0, len(GOOD)))
    skip = data.draw(st.integers(0, 12))
    put = data.draw(st.text("=[]{}\"'\n#.0x-:, éab", max_size=4))
    Path("a.toml").write_text(GOOD[:cut] + put + GOOD[cut + skip :], encoding="utf-8")
    try:
        assert load("a.toml").name == "a"
    except StudyError as error:
        assert "\n" not in str(error) and str(error).startswith("a.toml")


# -- what ships -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_is_broad(name, monkeypatch):
    """Each range spans a factor of four (near_one: in 1 - x), each choice of numbers has three values, nearly all is legal."""
    monkeypatch.undo()  # the real environments
    study = load(name)
    for key, dimension in space.searched(study.dimensions).items():
        if isinstance(dimension, space.Choice):
            words = config.HYPERPARAMETERS[key].choices if key in config.HYPERPARAMETERS else ()
            assert len(dimension.values) >= (min(3, len(words)) or 3), key   # of words there may be but two
        elif dimension.kind == "near_one":
            assert (1 - dimension.low) / (1 - dimension.high) >= 4, key
        else:
            assert dimension.high / dimension.low >= 4, key
    assert space.legal_share(study.dimensions)[0] > 0.9
    assert study.question and study.sampler == "tpe" and study.space == "ppo"


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_fits_the_environments_that_ship(name, monkeypatch):
    monkeypatch.undo()  # the real ones
    study = load(name)
    assert len(study.source_hash) >= 32
    config.complete(study.trial0(), study.environment)


def test_settings_that_are_known_to_solve_breakout_are_well_inside():
    known = {"layers": 1, "hidden": 16, "envs": 128, "horizon": 64, "minibatches": 4, "epochs": 2, "frameskip": 6,
             "learning_rate": 0.01, "momentum": 0.8, "gamma": 0.9786, "gae_lambda": 0.9, "clip": 0.3,
             "entropy_coefficient": 0.0141, "value_coefficient": 2.0, "gradient_norm": 2.0, "anneal_steps": 0}
    study = load("breakout")
    for key, value in known.items():
        dimension = study.dimensions[key]
        assert dimension.contains(value), key
        if isinstance(dimension, space.Range):
            assert 0.15 < dimension.to_unit(value) < 0.85, key
    expected = {name: h.default for name, h in config.HYPERPARAMETERS.items()} | {"try_from": 800.0} | study.start
    trial0 = study.trial0()
    assert study.start.keys() <= trial0.keys() and all(trial0.get(key, value) == value for key, value in expected.items())


def test_every_line_of_the_space_says_why():
    for line_ in (studies.folder("spaces") / "ppo.toml").read_text().splitlines():
        assert "#" in line_ or line_.startswith("[") or not line_, line_
