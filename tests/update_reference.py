"""The whole update of a rollout in float64 NumPy, straight from the published formulas: what the C++ side is compared with."""

from __future__ import annotations

import numpy as np

MASK = 2**64 - 1


def mix(z: int) -> int:
    """SplitMix64's finaliser (variant 13)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Rng:
    """The stream numbered `number` of a seed."""

    def __init__(self, seed: int, number: int):
        self.state = mix((mix((seed + 0x9E3779B97F4A7C15) & MASK) + number * 0xD1342543DE82EF95) & MASK)

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return mix(self.state) >> 32

    def uniform(self) -> float:
        return (self.next() >> 8) * 2.0**-24

    def below(self, n: int) -> int:
        return (self.next() * n) >> 32


def split(flat, shapes):
    """Weights as they lie, by name and shape."""
    parts, at = {}, 0
    for name, (rows, columns) in shapes.items():
        parts[name] = flat[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns
    return parts


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def forward(w, observations, states, keep, activation="tanh"):
    """(outputs [T, N, A + 1], what a backward pass needs) of PufferNet, or of an MLP where there are no `states`.

    observations [T, N, inputs], states [layers of all towers, N, H].
    """
    towers = ["", "value_"] if "value_encoder" in w else [""]
    states = np.split(np.asarray(states), len(towers))
    each = [tower_forward(w, tower, observations, state, keep, activation) for tower, state in zip(towers, states, strict=True)]
    return np.concatenate([outputs for outputs, _ in each], axis=-1), [memory for _, memory in each]


def backward(w, gradient, memories):
    """The gradient of every matrix, from that of the outputs. It ends at the states that a sequence started from."""
    heads = [gradient] if len(memories) == 1 else [gradient[..., :-1], gradient[..., -1:]]
    grads = {}
    for head, memory in zip(heads, memories, strict=True):
        grads |= tower_backward(w, head, memory)
    return {name: grads[name] for name in w if name != "log_std"}


def product(w, x, name):
    return x @ w[name] + w.get(f"{name}_bias", 0.0)


def product_gradients(w, x, gradient, name):
    grads = {name: np.einsum("tni,tno->io", x, gradient)}
    return grads | ({f"{name}_bias": gradient.sum((0, 1))[None]} if f"{name}_bias" in w else {})


def tower_forward(w, tower, observations, states, keep, activation):
    x, kept = product(w, observations, f"{tower}encoder"), []
    layers = sum(name.startswith(f"{tower}layer") and "bias" not in name for name in w)
    act = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}[activation]
    if not len(states):
        x = act(x)
        for layer in range(layers):
            kept.append(x)
            x = act(product(w, x, f"{tower}layer{layer}"))
        return product(w, x, f"{tower}decoder"), (tower, activation, observations, keep, kept, x)
    for layer in range(layers):
        h, u, f, p = states[layer], *np.split(product(w, x, f"{tower}layer{layer}"), 3, axis=-1)
        f, p = sigmoid(f), sigmoid(p)
        before, after = np.empty_like(x), np.empty_like(x)
        for t in range(len(x)):
            before[t] = h * keep[t][:, None]
            h = after[t] = u[t] * f[t] + before[t] * (1 - f[t])
        kept.append((x, u, f, p, before, after))
        x = x * (1 - p) + after * p
    return product(w, x, f"{tower}decoder"), (tower, None, observations, keep, kept, x)


def tower_backward(w, gradient, memory):
    tower, activation, observations, keep, kept, top = memory
    grads = product_gradients(w, top, gradient, f"{tower}decoder")
    d = gradient @ w[f"{tower}decoder"].T
    slope = {"tanh": lambda y: 1 - y**2, "relu": lambda y: np.float64(y > 0)}.get(activation)
    for layer in reversed(range(len(kept))):
        name = f"{tower}layer{layer}"
        if activation:
            gates, x, rest = d * slope(top), kept[layer], 0.0
            top = x
        else:
            x, u, f, p, before, after = kept[layer]
            dh, carry = np.empty_like(x), np.zeros_like(x[0])
            for t in reversed(range(len(x))):
                dh[t] = d[t] * p[t] + carry
                carry = dh[t] * (1 - f[t]) * keep[t][:, None]
            gates = np.concatenate([dh * f, dh * (u - before) * f * (1 - f), d * (after - x) * p * (1 - p)], axis=-1)
            rest = d * (1 - p)
        grads |= product_gradients(w, x, gates, name)
        d = rest + gates @ w[name].T
    return grads | product_gradients(w, observations, d * slope(top) if activation else d, f"{tower}encoder")


def advantages_of(full, rewards, ended, values, ratios):
    """GAE [T, N]; ratios None: without V-trace. `values` has a row after the last step."""
    advantages, later = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        rho, trace = (1.0, 1.0) if ratios is None else (np.minimum(ratios[t], full[c]) for c in ("rho_clip", "trace_clip"))
        on = 1.0 - ended[t]
        delta = rho * (rewards[t] + full["gamma"] * on * values[t + 1] - values[t])
        later = advantages[t] = delta + full["gamma"] * full["gae_lambda"] * trace * on * later
    return advantages


def softmaxes(logits, choices):
    """The log-probabilities of each discrete action's choices, in turn."""
    parts = np.split(logits, np.cumsum(choices)[:-1], axis=-1)
    return [part - np.logaddexp.reduce(part, axis=-1, keepdims=True) for part in parts]


def policy(outputs, actions, choices, log_std=None):
    """(log-probability, entropy) of actions, summed over the numbers of each; `choices` is empty where they are continuous."""
    if not choices:
        z = (actions - outputs) / np.exp(log_std)
        entropy = (log_std + 0.5 + 0.5 * np.log(2 * np.pi)).sum() + np.zeros(z.shape[:-1])
        return (-(z**2) / 2 - log_std - 0.5 * np.log(2 * np.pi)).sum(-1), entropy
    log_p, actions = softmaxes(outputs, choices), actions.reshape(*outputs.shape[:-1], len(choices))
    chosen = [np.take_along_axis(part, actions[..., [j]], -1)[..., 0] for j, part in enumerate(log_p)]
    return sum(chosen), -sum((np.exp(part) * part).sum(-1) for part in log_p)


def policy_gradients(outputs, actions, choices, log_std):
    """What a log-probability and an entropy (summed over actions) change by with the outputs and with log_std."""
    if not choices:
        z = (actions - outputs) / np.exp(log_std)
        return (z / np.exp(log_std), z**2 - 1), (np.zeros_like(z), np.ones_like(z))
    log_p, actions = softmaxes(outputs, choices), actions.reshape(*outputs.shape[:-1], len(choices))
    one = [np.eye(n)[actions[..., j]] for j, n in enumerate(choices)]
    entropies = [-(np.exp(part) * part).sum(-1, keepdims=True) for part in log_p]
    by_choice = [o - np.exp(part) for o, part in zip(one, log_p, strict=True)]
    by_spread = [-np.exp(part) * (part + h) for part, h in zip(log_p, entropies, strict=True)]
    return (np.concatenate(by_choice, -1), None), (np.concatenate(by_spread, -1), None)


def loss_gradient(full, schedule, outputs, actions, old_log_p, old_values, advantages, returns, choices, log_std=None):
    """(the gradient of PPO's mean loss by the outputs, that by log_std [1, k] or None, importance ratios)."""
    numbers, values = outputs[..., :-1], outputs[..., -1]
    ratio = np.exp(policy(numbers, actions, choices, log_std)[0] - old_log_p)
    clipped = np.clip(ratio, 1 - schedule["clip"], 1 + schedule["clip"])
    by_log_p = np.where(advantages * ratio <= advantages * clipped, -advantages * ratio, 0.0)
    likelier, wider = policy_gradients(numbers, actions, choices, log_std)
    by_numbers, by_log_std = (None if one is None else by_log_p[..., None] * one - schedule["entropy_coefficient"] * other
                              for one, other in zip(likelier, wider, strict=True))
    error, limit = values - returns, full["value_clip"]
    if limit > 0:
        bounded = old_values + np.clip(values - old_values, -limit, limit) - returns
        flat = np.abs(values - old_values) > limit
        if full["value_clip_loss"] == "larger":
            flat &= bounded**2 > error**2
        error = np.where(flat, 0.0, error)
    gradient = np.concatenate([by_numbers, full["value_coefficient"] * error[..., None]], axis=-1)
    by_log_std = None if by_log_std is None else by_log_std.reshape(-1, by_log_std.shape[-1]).mean(0)[None]
    return gradient / ratio.size, by_log_std, ratio


def schedule_at(full, env_steps):
    """What an iteration learns with whose rollout began after `env_steps`."""
    done = min(env_steps / full["anneal_steps"], 1.0) if full["anneal_steps"] else 0.0
    gone = done if full["anneal"] == "linear" else 0.5 - 0.5 * np.cos(np.pi * done)
    correction = full["priority_correction"]
    return {"learning_rate": full["learning_rate"] * (1 - gone * (1 - full["learning_rate_end"])),
            "clip": full["clip"] * (1 - gone * (1 - full["clip_end"])),
            "entropy_coefficient": full["entropy_coefficient"] * (1 - gone * (1 - full["entropy_end"])),
            "priority_correction": correction + (1 - correction) * min(full["priority"], 1.0) * done}


def newton_schulz(matrix):
    """Jordan's five iterations towards the nearest orthogonal matrix; of a bias, which is one row, the nearest of length 1."""
    if matrix.shape[1] == 1:
        return matrix / (np.linalg.norm(matrix) + 1e-7)
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


class Optimizer:
    """Muon or Adam after clipping by the global norm; `weights` change in place."""

    def __init__(self, full, weights):
        self.full, self.steps = full, 0
        self.first, self.second = ({k: np.zeros_like(w) for k, w in weights.items()} for _ in range(2))

    def step(self, weights, grads, rate):
        full, beta = self.full, self.full["momentum"]
        self.steps += 1
        norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
        scale = min(1.0, full["gradient_norm"] / norm) if full["gradient_norm"] > 0 else 1.0
        for name, w in weights.items():
            g, own = grads[name] * scale, rate * (full["head_rate"] if "decoder" in name else 1.0)
            if name == "log_std" and full["optimizer"] == "muon":
                self.first[name] = beta * self.first[name] + g
                w[:] = np.clip(w - own * (g + beta * self.first[name]), -5, 2)
                continue
            w *= 1 - own * full["weight_decay"] * (name != "log_std")
            if full["optimizer"] == "muon":
                self.first[name] = beta * self.first[name] + g
                rows, columns = w.shape[1], w.shape[0]  # as [out, in]
                step = newton_schulz((g + beta * self.first[name]).T).T
                w -= own * max(1.0, rows / columns) ** 0.5 * step
                continue
            second = full["second_momentum"]
            self.first[name] = beta * self.first[name] + (1 - beta) * g
            self.second[name] = second * self.second[name] + (1 - second) * g**2
            mean, square = self.first[name] / (1 - beta**self.steps), self.second[name] / (1 - second**self.steps)
            w -= own * mean / (np.sqrt(square) + full["adam_epsilon"])
            if name == "log_std":
                np.clip(w, -5, 2, out=w)


class Learner:
    """A run's learning side: weights, the optimizer's state and the stream of orders. `choices`: of each discrete action, or
    empty where they are continuous."""

    def __init__(self, full, weights, seed, choices):
        self.full, self.choices, self.rng = full, choices, Rng(seed, 2)
        self.weights = {k: w.astype(np.float64) for k, w in weights.items()}
        self.optimizer = Optimizer(full, self.weights)

    def shuffled(self, n):
        order = list(range(n))
        for i in reversed(range(1, n)):
            j = self.rng.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return order

    def drawn(self, advantages, count, correction):
        """Sequences drawn by their summed advantage, and the weights that correct for it."""
        chances = (np.abs(advantages).sum(0) + 1e-6) ** self.full["priority"]
        chances /= chances.sum()
        order = [int(np.searchsorted(chances.cumsum(), self.rng.uniform(), side="right")) for _ in range(count)]
        return order, (chances[order] * len(chances)) ** -correction

    def update(self, rollout, env_steps):
        """Yields (order, weights of the sequences, weights of the network) after each gradient step. `rollout`: arrays
        of float64, of one iteration."""
        full, at = self.full, schedule_at(self.full, env_steps)
        alone = full["minibatch_of"] == "transitions"
        n, parts = full["envs"] * (full["horizon"] if alone else 1), full["minibatches"]
        count = n // parts

        def sequences(x):  # [T, N] or, each transition being a sequence of its own, [1, T * N]
            return x.reshape(1, n, *x.shape[2:]) if alone else x

        steps = int(full["replay_ratio"] * parts + 1e-9) if full["replay_ratio"] else full["epochs"] * parts
        ratios = np.ones_like(rollout["rewards"]) if full["vtrace"] else None
        values = rollout["values"].copy()
        for step in range(steps):
            if step == 0 or full["vtrace"]:
                advantages = advantages_of(full, rollout["rewards"], rollout["ended"], values, ratios)
            if full["priority"] > 0:
                order, correction = self.drawn(sequences(advantages), count, at["priority_correction"])
            else:
                if step % parts == 0:
                    whole = self.shuffled(n)
                order, correction = whole[step % parts * count :][:count], np.ones(count)
            mine = {k: sequences(rollout[k])[:, order] for k in ("actions", "log_probabilities", "keep", "observations")}
            advantage, old = sequences(advantages)[:, order], sequences(rollout["values"][:-1])[:, order]
            returns = advantage + sequences(values[:-1])[:, order]
            states = rollout["first_states"] if alone else rollout["first_states"][:, order]
            if full["normalise_advantages"]:
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            outputs, memory = forward(self.weights, mine["observations"], states, mine["keep"], full["activation"])
            gradient, by_log_std, ratio = loss_gradient(full, at, outputs, mine["actions"], mine["log_probabilities"], old,
                                                        advantage * correction, returns, self.choices,
                                                        self.weights.get("log_std"))
            grads = backward(self.weights, gradient, memory) | ({} if by_log_std is None else {"log_std": by_log_std})
            if full["vtrace"]:
                sequences(ratios)[:, order], sequences(values[:-1])[:, order] = ratio, outputs[..., -1]
            self.optimizer.step(self.weights, grads, at["learning_rate"])
            yield order, correction, self.weights
