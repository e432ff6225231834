// Simple bandit: say which of two contexts is shown; the first thing a learner must be able to do.
//
// Rules: SimpleBandit of the Rust library Thrust (github.com/rjwalters/thrust, commit 398d516). The context, 0 or 1, is drawn
// anew at each env step; the action of its number pays 1, the other nothing. An episode ends after 100 env steps.
#pragma once

#include "environment.h"

namespace simple_bandit {

constexpr int observation_size = 1;
constexpr int actions = 2;  // it is 0, it is 1
constexpr int longest_episode = 100;

struct State {
    int context;  // 0 or 1
    int steps;    // env steps of this episode
    int correct;  // rewards of this episode
};

struct Params {};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.context = rng.below(2);
    s.steps = s.correct = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng& rng) {
    const int right = action == s.context;
    s.correct += right;
    s.steps++;
    s.context = rng.below(2);
    return {static_cast<float>(right), s.steps >= longest_episode, false};
}

SWEEP_FN float metric(const State& s, const Params&) { return s.correct / static_cast<float>(longest_episode); }

SWEEP_FN void observe(const State& s, const Params&, float* observation) { observation[0] = static_cast<float>(s.context); }

}  // namespace simple_bandit
