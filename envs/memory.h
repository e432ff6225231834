// Memory: a sign is shown once, and given back at the last env step.
//
// Rules: github.com/PufferAI/PufferLib, ocean/memory (commit ca74e12, after 3.0), reproduced from recorded episodes. An
// episode lasts `length` env steps; at its first the sign is seen, -1 or 1, afterwards 0. Only the last action counts: 0 says
// -1, 1 says 1, and the right one pays 1. Time is not seen.
#pragma once

#include "environment.h"

namespace memory {

constexpr int observation_size = 1;
constexpr int actions = 2;  // it was -1, it was 1
constexpr int longest_episode = 16;
constexpr bool needs_memory = true;

struct State {
    int sign;     // -1 or 1
    int steps;    // env steps of this episode
    int correct;  // 1 once it was given rightly
};

struct Params {
    int length = 16;  // env steps of an episode (PufferLib's default is 4)
};
constexpr sweep::Bounds bounds[] = {{1, 1000}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::quantity(-1.0f, 1.0f); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.sign = rng.below(2) == 0 ? -1 : 1;
    s.steps = 0;
    s.correct = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng&) {
    s.steps++;
    if (s.steps < p.length) return {0.0f, false, false};
    s.correct = action == (s.sign > 0);
    return {static_cast<float>(s.correct), true, false};
}

SWEEP_FN float metric(const State& s, const Params&) { return static_cast<float>(s.correct); }

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.steps == 0 ? static_cast<float>(s.sign) : 0.0f;
}

}  // namespace memory
