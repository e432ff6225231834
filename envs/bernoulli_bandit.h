// Bernoulli bandit: two arms, one of which pays far more often; find out which, and stay with it.
//
// Rules: gymnax 1.0's BernoulliBandit-misc, after Wang et al. (2016), "Learning to reinforcement learn". In each episode a fair
// coin gives one arm reward_probability and the other the rest to 1; a pull pays 1 or nothing. Seen are the last reward, the last
// action as two flags (at the start: arm 0) and the time from -1 to 1. After 100 env steps the episode is truncated.
#pragma once

#include "environment.h"

namespace bernoulli_bandit {

constexpr int observation_size = 4;
constexpr int actions = 2;  // which arm is pulled
constexpr int longest_episode = 100;
constexpr bool needs_memory = true;

struct State {
    int better;   // the arm that has 1 - reward_probability
    int action;   // the last one
    int reward;   // of the last pull, 0 or 1
    int steps;    // env steps of this episode
};

struct Params {
    float reward_probability = 0.1f;  // of one arm; the other has the rest to 1
};
constexpr sweep::Bounds bounds[] = {{0, 1}};

SWEEP_FN constexpr sweep::Input input(int i) { return i < 3 ? sweep::flag() : sweep::quantity(-1.0f, 1.0f); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.better = rng.below(2);
    s.action = s.reward = s.steps = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    const float chance = action == s.better ? 1.0f - p.reward_probability : p.reward_probability;
    s.action = action;
    s.reward = rng.uniform() < chance;
    s.steps++;
    return {static_cast<float>(s.reward), false, s.steps >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = static_cast<float>(s.reward);
    observation[1] = s.action == 0;
    observation[2] = s.action == 1;
    observation[3] = static_cast<float>(2 * s.steps) / static_cast<float>(longest_episode) - 1.0f;
}

}  // namespace bernoulli_bandit
