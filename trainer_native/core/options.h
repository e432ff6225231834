// From named hyperparameters to Options: the one place that knows both names.
#pragma once

#include "core.h"

namespace sweep_core {

// `given` tells each hyperparameter by its name in config.py: integer(name), number(name), flag(name), word(name).
template <class Given> Options options_from(const Given& given) {
    Options o = {};
    const auto integer = [&](const char* name) { return static_cast<int>(given.integer(name)); };
    const auto number = [&](const char* name) { return static_cast<float>(given.number(name)); };
    const auto flag = [&](const char* name) { return static_cast<int>(given.flag(name)); };
    o.hidden = integer("hidden");
    o.layers = integer("layers");
    const auto cell = given.word("cell");
    o.cell = cell == "mlp" ? 2 : cell == "lstm" ? 1 : 0;
    o.relu = given.word("activation") == "relu";
    o.biases = flag("biases");
    o.separate_value = flag("separate_value");
    o.orthogonal = given.word("initialisation") == "orthogonal";
    o.policy_gain = number("policy_gain");
    o.squashed = given.word("gaussian") == "squashed";
    o.log_std = number("log_std");
    o.constant_input = flag("constant_input");
    o.filters = given.word("encoder") == "conv" ? integer("filters") : 0;
    const auto inputs = given.word("normalise_inputs");
    o.normalise_inputs = inputs == "bounds" ? 1 : inputs == "moments" ? 2 : 0;
    o.envs = integer("envs");
    o.horizon = integer("horizon");
    o.epochs = integer("epochs");
    o.minibatches = integer("minibatches");
    o.transitions = given.word("minibatch_of") == "transitions";
    o.replay_ratio = given.number("replay_ratio");
    o.normalise_rewards = flag("normalise_rewards");
    o.bootstrap_truncated = flag("bootstrap_truncated");
    o.reward_clip = number("reward_clip");
    o.reward_scale = number("reward_scale");
    o.gamma = number("gamma");
    o.gae_lambda = number("gae_lambda");
    o.vtrace = flag("vtrace");
    o.rho_clip = number("rho_clip");
    o.trace_clip = number("trace_clip");
    o.normalise_advantages = flag("normalise_advantages");
    o.priority = number("priority");
    o.priority_correction = number("priority_correction");
    o.clip = number("clip");
    o.value_coefficient = number("value_coefficient");
    o.value_clip = number("value_clip");
    o.clipped_value_alone = given.word("value_clip_loss") == "clipped";
    o.entropy_coefficient = number("entropy_coefficient");
    o.muon = given.word("optimizer") == "muon";
    o.learning_rate = number("learning_rate");
    o.head_rate = number("head_rate");
    o.momentum = number("momentum");
    o.second_momentum = number("second_momentum");
    o.adam_epsilon = number("adam_epsilon");
    o.weight_decay = number("weight_decay");
    o.gradient_norm = number("gradient_norm");
    o.anneal_steps = given.number("anneal_steps");
    o.cosine = given.word("anneal") == "cosine";
    o.learning_rate_end = given.number("learning_rate_end");
    o.clip_end = given.number("clip_end");
    o.entropy_end = given.number("entropy_end");
    o.try_from = number("try_from");
    return o;
}

}  // namespace sweep_core
