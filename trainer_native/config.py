"""Each hyperparameter of the native trainer once: default, legal range, unit, what it does."""

from __future__ import annotations

import difflib
import numbers
from dataclasses import dataclass
from typing import Any

#: Changes whenever the same (environment, params, seed) would end with other weights.
SEMANTICS = 2


class ConfigError(ValueError):
    """A hyperparameter that the trainer cannot take; `key` names it."""

    def __init__(self, key: str, message: str):
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Hyperparameter:
    """What is legal for one hyperparameter. Numbers have `low` and `high` (both legal), words have `choices`."""

    name: str
    table: str  # the table of a study file it stands in: net, train or environment
    default: Any
    what: str
    low: float | None = None
    high: float | None = None
    choices: tuple = ()
    unit: str = ""
    multiple: int = 1  # integers only: legal values are multiples of this

    @property
    def kind(self) -> type:
        """`bool`, `int`, `float` or `str`."""
        return float if self.default is None else type(self.default)

    def legal(self) -> str:
        """What is legal, in words, for an error message."""
        if self.kind is bool:
            return "true or false"
        if self.choices:
            return "one of " + ", ".join(map(repr, self.choices))
        kind = "a whole number" if self.kind is int else "a number"
        span = f"from {self.low:g} to {self.high:g}" if self.low is not None else ""
        multiple = f", a multiple of {self.multiple}" if self.multiple > 1 else ""
        return f"{kind} {span}{multiple}".strip()

    def check(self, value: Any) -> Any:
        """`value` in the type of the default; ConfigError where it is not legal."""
        kind, number = self.kind, isinstance(value, numbers.Real) and not isinstance(value, bool)
        if value is None:
            legal = self.default is None
        elif kind is bool:
            legal = isinstance(value, bool)
        elif kind is str:
            legal = value in self.choices
        else:  # the comparison also refuses nan
            legal = number and (self.low is None or self.low <= value <= self.high)
            legal = legal and (kind is float or (value == int(value) and value % self.multiple == 0))
        if not legal:
            raise ConfigError(self.name, f"{self.name!r} is {value!r}; legal is {self.legal()}")
        return value if value is None else kind(value)




H = Hyperparameter
_ALL = [
    # -- the network ------------------------------------------------------------------------------------
    H("hidden", "net", 16, "width of each layer", 8, 512, unit="units", multiple=8),
    H("layers", "net", 1, "layers of the cell; of an MLP hidden layers, the encoder being the first", 1, 8),
    H("cell", "net", "mingru", "what a layer is: MinGRU with a highway, an LSTM, or a layer without memory",
      choices=("mingru", "lstm", "mlp")),
    H("activation", "net", "tanh", "the nonlinearity of an MLP's hidden layers", choices=("tanh", "relu")),
    H("encoder", "net", "linear", "what reads an observation: one linear layer, or 3 x 3 filters before it, where that is an image",
      choices=("linear", "conv")),
    H("filters", "net", 16, "filters of the convolution", 8, 64, multiple=8),
    H("biases", "net", False, "a bias in every product; without them the constant input stands in"),
    H("constant_input", "net", True, "one more input that is always 1, in place of biases"),
    H("separate_value", "net", False, "the value has a network of its own, of the same size"),
    H("initialisation", "net", "uniform", "the first weights: uniform in the root of the fan-in, or orthogonal",
      choices=("uniform", "orthogonal")),
    H("policy_gain", "net", 1.0, "scale of the first weights of the action logits", 0, 10),
    H("gaussian", "net", "clipped", "continuous actions: numbers drawn around the network's means are clipped to the bounds, or "
      "squashed into them by a tanh", choices=("clipped", "squashed")),
    H("log_std", "net", 0.0, "continuous actions: the logarithm that the learnt deviation of each starts from, in units of half "
      "the bounds' span; it stays from -5 to 2", -5, 2),
    H("normalise_inputs", "net", "bounds", "how quantities are standardised; flags pass as they are",
      choices=("bounds", "moments", "none")),
    # -- the rollout ------------------------------------------------------------------------------------
    H("envs", "train", 128, "copies of the environment that act side by side", 4, 4096, multiple=4),
    H("horizon", "train", 64, "env steps per environment and iteration", 4, 1024, unit="env steps"),
    H("normalise_rewards", "train", False, "rewards are divided by the running deviation of the discounted return"),
    H("reward_scale", "train", 1.0, "rewards are multiplied by this, before clipping; outputs of an LSTM and of tanh are within "
      "1, and learn slowly where values, some reward / (1 - gamma), are far beyond", 1e-6, 1e6),
    H("reward_clip", "train", 1.0, "rewards are clipped to plus or minus this; 0: not at all", 0, 1e6),
    H("bootstrap_truncated", "train", True, "a truncated episode is worth its last value too; false: as if terminated"),
    # -- advantages -------------------------------------------------------------------------------------
    H("gamma", "train", 0.98, "discount per env step", 0, 1),
    H("gae_lambda", "train", 0.9, "lambda of generalised advantage estimation", 0, 1),
    H("vtrace", "train", False, "clip importance ratios inside the advantages, recomputed before every minibatch"),
    H("rho_clip", "train", 1.0, "V-trace: highest importance ratio of a temporal difference", 0.1, 10),
    H("trace_clip", "train", 1.0, "V-trace: highest importance ratio of the trace", 0.1, 10),
    H("normalise_advantages", "train", True, "standardise advantages within each minibatch"),
    H("priority", "train", 0.0, "exponent of a sequence's summed advantage in its chance to be drawn; 0: each once", 0, 2),
    H("priority_correction", "train", 0.5, "exponent of the weight that corrects prioritised draws; goes to 1 over "
      "anneal_steps, by as much as priority is of 1", 0, 1),
    # -- the loss ---------------------------------------------------------------------------------------
    H("epochs", "train", 2, "passes over each rollout", 1, 64),
    H("replay_ratio", "train", 0.0, "passes over each rollout where not whole: gradient steps are this times minibatches, "
      "rounded down; 0: epochs", 0, 64),
    H("minibatches", "train", 4, "gradient steps per epoch; divides envs (of transitions: envs times horizon)", 1, 256),
    H("minibatch_of", "train", "sequences", "what minibatches are drawn from: whole sequences of an environment, or single "
      "transitions, which a network with memory cannot learn from", choices=("sequences", "transitions")),
    H("clip", "train", 0.3, "PPO's clip of the importance ratio", 0.01, 10),
    H("value_coefficient", "train", 2.0, "weight of the value loss", 0, 100),
    H("value_clip", "train", 0.0, "clip of the value around the old one; 0: not at all", 0, 1e6),
    H("value_clip_loss", "train", "larger", "the loss of a clipped value: the larger of both (PPO2, PureJaxRL), or the "
      "clipped one alone (Stable-Baselines3)", choices=("larger", "clipped")),
    H("entropy_coefficient", "train", 0.014, "weight of the entropy bonus", 0, 10),
    # -- the optimizer ----------------------------------------------------------------------------------
    H("optimizer", "train", "muon", "who turns gradients into steps", choices=("muon", "adam")),
    H("learning_rate", "train", 0.01, "step size", 1e-7, 10),
    H("head_rate", "train", 1.0, "the decoder's learning rate, as a multiple of the others'", 0, 100),
    H("momentum", "train", 0.8, "momentum (Muon's Nesterov momentum, Adam's beta 1)", 0, 0.9999),
    H("second_momentum", "train", 0.999, "Adam's beta 2", 0, 0.999999),
    H("adam_epsilon", "train", 1e-8, "Adam's epsilon", 1e-16, 1),
    H("weight_decay", "train", 0.0, "weights shrink by this times the learning rate with each gradient step", 0, 10),
    H("gradient_norm", "train", 2.0, "the global gradient norm is clipped to this; 0: not at all", 0, 1e6),
    # -- schedules: an iteration learns with what they say at the env steps before its rollout ----------
    H("anneal_steps", "train", 0, "env steps over which what follows falls to its end, to stay there; 0: all is constant",
      0, 10**12, unit="env steps"),
    H("anneal", "train", "linear", "how it falls", choices=("linear", "cosine")),
    H("learning_rate_end", "train", 0.1, "what is left of the learning rate at the end, as a share", 0, 1),
    H("clip_end", "train", 1.0, "what is left of PPO's clip at the end, as a share", 0, 1),
    H("entropy_end", "train", 1.0, "what is left of the entropy bonus at the end, as a share", 0, 1),
    # -- when a solve is tried --------------------------------------------------------------------------
    H("try_from", "train", None, "a solve is tried when training episodes average this; absent: the solve's mean_return",
      -1e9, 1e9),
]
del H

#: name -> Hyperparameter, in the order of this file.
HYPERPARAMETERS: dict[str, Hyperparameter] = {h.name: h for h in _ALL}


def closest(name: str, names) -> str:
    """` Did you mean 'x'?` where a legal name is close, else an empty string."""
    found = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


def complete(params: dict, environment: dict[str, Hyperparameter]) -> dict[str, Any]:
    """All hyperparameters, with defaults where `params` is silent, each checked.

    `environment` holds the hyperparameters of the environment (see `environments.Environment.params`).
    The result has the keys of HYPERPARAMETERS and of `environment`. Raises ConfigError.
    """
    legal = {**HYPERPARAMETERS, **environment}
    for name in params:
        if name not in legal:
            raise ConfigError(name, f"{name!r} is not a hyperparameter.{closest(name, legal)}")
    full = {name: h.check(params[name]) if name in params else h.default for name, h in legal.items()}
    if illegal := combination(full):
        raise ConfigError(*illegal)
    return full


def combination(full: dict[str, Any]) -> tuple[str, str] | None:
    """(key, why) where values that are legal alone do not go together, else None."""
    if full["minibatch_of"] == "transitions" and full["cell"] != "mlp":
        return "minibatch_of", (f"'minibatch_of' 'transitions' is for cell 'mlp'; cell {full['cell']!r} has a memory, and "
                                "learns from 'sequences'")
    if full["minibatch_of"] == "transitions":
        if full["envs"] * full["horizon"] % full["minibatches"]:
            return "minibatches", (f"'minibatches' {full['minibatches']} does not divide the {full['envs'] * full['horizon']} "
                                   "transitions of a rollout (envs times horizon)")
    elif full["envs"] % full["minibatches"]:
        return "minibatches", f"'minibatches' {full['minibatches']} does not divide envs {full['envs']}"
    if full["activation"] != "tanh" and full["cell"] != "mlp":
        return "activation", (f"'activation' {full['activation']!r} is for cell 'mlp'; cell {full['cell']!r} has its own, "
                              "and takes none but the default, 'tanh'")
    if 0 < full["replay_ratio"] * full["minibatches"] < 1:
        return "replay_ratio", (f"'replay_ratio' {full['replay_ratio']:g} of {full['minibatches']} minibatches is no whole "
                                f"gradient step; legal is 0 or at least {1 / full['minibatches']:g}")
    return None


def unfit(params: dict[str, Any], continuous: bool, image: tuple[int, int, int] | None) -> tuple[str, str] | None:
    """(key, why) where `params`, all or some, are for continuous actions or an image and the environment has none, else None."""
    if params.get("encoder") == "conv" and (image is None or min(image[:2]) < 3):
        seen = "is no image" if image is None else f"is an image of {image[0]} x {image[1]}"
        return "encoder", (f"'encoder' 'conv' is for an image of at least 3 x 3; what this environment shows {seen}, and it takes "
                           "none but the default, 'linear'")
    for name in ("gaussian", "log_std"):
        default = HYPERPARAMETERS[name].default
        if not continuous and params.get(name, default) != default:
            return name, (f"{name!r} {params[name]!r} is for continuous actions; this environment's are discrete, and it takes "
                          f"none but the default, {default!r}")
    return None
