"""Acting and training are the same function, bit for bit: scans and steps, batches and rows, ratios before a gradient step."""

from pathlib import Path

import numpy as np
import pytest

from trainer_native import config, environments, trainer

# A network to hold to this: its params beside layers and hidden. A new cell is a new line.
NETWORKS = {
    "mingru": {},
    "mingru, two towers, biases": {"separate_value": True, "biases": True},
    "lstm": {"cell": "lstm"},
    "lstm, two towers, biases": {"cell": "lstm", "separate_value": True, "biases": True},
    "mlp": {"cell": "mlp"},
    "mlp, two towers, biases, relu": {"cell": "mlp", "separate_value": True, "biases": True, "activation": "relu"},
}
# All of L = 1 to 3 and width 8 to 256 for each cell as it comes; with options, a corner and the middle.
TABLE = [(name, layers, hidden) for name in NETWORKS for layers in (1, 2, 3) for hidden in (8, 16, 32, 64, 128, 256)
         if "," not in name or (layers, hidden) in ((1, 8), (2, 64))]
LENGTHS = (1, 7, 32, 64, 128, 1024)


class Network:
    """Random weights and `sequences` sequences of inputs, each with another pattern of episode ends."""

    def __init__(self, name, layers, hidden, steps, sequences=6, env="cartpole"):
        environment = environments.find(env)
        params = {"layers": layers, "hidden": hidden, **NETWORKS[name]}
        full = config.complete(params, environment.params) | {"try_from": 0.0}
        self.shapes = trainer.shapes(environment, params)
        self.rng = rng = np.random.default_rng([layers, hidden, len(name)])
        self.weights = np.concatenate([
            (rng.uniform(-2, 2, shape) / np.sqrt(shape[0] if shape[0] > 1 else 16)).ravel() for shape in self.shapes.values()
        ]).astype(np.float32)
        inputs = self.shapes["encoder"][0]
        self.observations = rng.standard_normal((sequences, steps, inputs)).astype(np.float32)
        self.keep = np.ones((steps, sequences), np.float32)
        for i, chance in zip(range(sequences), (0.0, 1.0, 0.02, 0.5, 0.2)):
            self.keep[rng.random(steps) < chance, i] = 0.0
        if sequences > 5:
            self.keep[0, 5] = 0.0   # only with the first step
        self.arguments = trainer.isa(), environment.table_address, full
        width = hidden * {"mingru": 1, "lstm": 2, "mlp": 0}[full["cell"]]
        count = layers * (1 + full["separate_value"]) if width else 0
        self.states = rng.uniform(-1, 1, (count, sequences, width)).astype(np.float32)

    def forward(self, first=0, last=None, states=None, rows=slice(None)):
        """Logits and values [T, N, A + 1], and the states after, of steps first to last of some sequences."""
        states = self.states[:, rows] if states is None else states
        logits, after = trainer._core().forward(
            *self.arguments, self.weights, np.ascontiguousarray(self.observations[rows, first:last]),
            np.ascontiguousarray(self.keep[first:last, rows]), np.ascontiguousarray(states))
        return logits, after


def assert_same_bits(one, other, what):
    assert one.shape == other.shape
    wrong = np.argwhere(one.view(np.uint32) != other.view(np.uint32))
    assert len(wrong) == 0, f"{what}: {len(wrong)} of {one.size} differ, the first at {wrong[0]}"


def id_of(case):
    return " ".join(map(str, case)) if isinstance(case, tuple) else None


@pytest.mark.parametrize("case", TABLE, ids=id_of)
def test_a_scan_equals_its_steps_and_its_parts_and_a_batch_its_rows(case):
    name, layers, hidden = case
    longest = max(LENGTHS)
    network = Network(name, layers, hidden, longest)
    states, logits, after = network.states, [], []
    for t in range(longest):
        step, states = network.forward(t, t + 1, states)
        logits.append(step[0])
        after.append(states)
    logits = np.stack(logits)
    assert np.isfinite(logits).all() and np.abs(np.diff(logits, axis=1)).max() > 0.01, "sequences differ"
    for steps in LENGTHS:
        scan, last = network.forward(0, steps)
        assert_same_bits(scan, logits[:steps], f"logits of a scan over {steps} steps and of single steps")
        assert_same_bits(last, after[steps - 1], f"states after {steps} steps")

    for cut in {1, 127, *network.rng.integers(2, 126, 3)}:
        first, between = network.forward(0, cut)
        second, last = network.forward(cut, 128, between)
        assert_same_bits(np.concatenate([first, second]), logits[:128], f"a scan cut at {cut}")
        assert_same_bits(last, after[127], f"states of a scan cut at {cut}")

    for rows in [[0], [4], [5, 2, 3], [1, 0, 3, 2, 4]]:
        alone, last = network.forward(0, 32, rows=rows)
        assert_same_bits(alone, logits[:32, rows], f"sequences {rows} alone")
        assert_same_bits(last, np.ascontiguousarray(after[31][:, rows]), f"states of sequences {rows} alone")


@pytest.mark.parametrize("name", NETWORKS)
def test_many_rows_equal_themselves_alone(name):
    """A batch that fills every kind of block of the products, with the many inputs of Breakout."""
    network = Network(name, 2, 24, 3, sequences=131, env="breakout")
    (step, _), (scan, _) = network.forward(0, 1), network.forward()
    assert_same_bits(step, scan[:1], "one step of 131 sequences, and the first of three")
    for rows in (slice(0, 1), slice(17, 23), slice(100, 131)):
        assert_same_bits(network.forward(rows=rows)[0], np.ascontiguousarray(scan[:, rows]), f"sequences {rows} alone")


@pytest.mark.parametrize("name", NETWORKS)
def test_an_episode_that_begins_remembers_nothing(name):
    network = Network(name, 2, 16, 8)
    if network.states.size == 0:
        pytest.skip("it has no state")
    network.keep[:] = 1.0
    assert (network.forward()[0] != network.forward(states=2 * network.states)[0]).any(), "a state that is kept matters"
    network.keep[0] = 0.0
    assert_same_bits(network.forward()[0], network.forward(states=2 * network.states)[0], "an episode begins")


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_changed_in_place_change_the_next_result(name):
    network = Network(name, 2, 16, 8)
    before, at = network.forward(), 0
    first = network.weights
    for matrix, (rows, columns) in network.shapes.items():
        part = network.weights[at : at + rows * columns]
        at += rows * columns
        kept = part.copy()
        part *= 1.25
        assert network.weights is first
        assert (network.forward()[0] != before[0]).any(), f"{matrix} is read anew"
        part[:] = kept
        assert_same_bits(network.forward()[0], before[0], f"{matrix} as it was")


@pytest.mark.parametrize("case", TABLE, ids=id_of)
def test_ratios_are_exactly_one_before_the_first_gradient_step(case):
    name, layers, hidden = case
    environment = environments.find("cartpole")
    for horizon, envs in [(16, 8), (40, 12), (5, 4)]:  # other shapes, other grouping of rows
        params = {"layers": layers, "hidden": hidden, "envs": envs, "horizon": horizon, **NETWORKS[name]}
        full = config.complete(params, environment.params) | {"try_from": 0.0}
        rng = np.random.default_rng(horizon)
        weights = np.concatenate([(rng.uniform(-2, 2, shape) / np.sqrt(max(shape[0], 8))).ravel()
                                  for shape in trainer.shapes(environment, params).values()]).astype(np.float32)
        out = trainer._core().check(trainer.isa(), environment.table_address, environment.param_bytes(full), full, 3,
                                    weights, weights)
        assert (out["ended"].sum() > 0 or horizon < 40) and len(np.unique(out["log_probabilities"])) > horizon
        assert (out["ratios"] == 1.0).all()


NATIVE = Path(__file__).parents[1] / "native"
KINDS = {"several": ("doors", {}), "clipped": ("reach", {}), "squashed": ("reach", {"gaussian": "squashed"})}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", KINDS)
def test_ratios_are_exactly_one_whatever_the_actions(kind, name):
    game, more = KINDS[kind]
    environment = environments.find(NATIVE / f"{game}.h")
    for horizon, envs in [(16, 8), (40, 12), (5, 76)]:
        params = {"layers": 2, "hidden": 16, "envs": envs, "horizon": horizon, **NETWORKS[name], **more}
        full = config.complete(params, environment.params) | {"try_from": 0.0}
        rng = np.random.default_rng(horizon)
        weights = np.concatenate([(rng.uniform(-2, 2, shape) / np.sqrt(max(shape[0], 8))).ravel()
                                  for shape in trainer.shapes(environment, params).values()]).astype(np.float32)
        out = trainer._core().check(trainer.isa(), environment.table_address, environment.param_bytes(full), full, 3,
                                    weights, weights)
        assert out["actions"].shape == (horizon, envs, 2) and len(np.unique(out["log_probabilities"])) > horizon
        assert (out["ratios"] == 1.0).all()
