// Memory chain: a bit is shown at the start, time runs down in sight, and the bit is asked for at the end.
//
// Rules: bsuite's MemoryChain with one bit, as in its experiment memory_len (Osband et al. 2020), and gymnax's
// MemoryChain-bsuite, which plays the same game. The right answer at the end pays 1, a wrong one -1, all else nothing. Their
// observation is one env step late: the first env step shows the bit a second time, an episode has memory_length + 1 env
// steps, and when the answer is given 1 / memory_length of the time is still left in sight.
#pragma once

#include "environment.h"

namespace memory_chain {

constexpr int observation_size = 3;
constexpr int actions = 2;  // it was 0, it was 1
constexpr int longest_episode = 6;
constexpr bool needs_memory = true;

struct State {
    int bit;      // 0 or 1
    int steps;    // env steps of this episode
    int correct;  // 1 once it was given rightly
};

struct Params {
    int memory_length = 5;  // env steps before the last one
};
constexpr sweep::Bounds bounds[] = {{1, 1000}};

// Time left, which bit is asked for (of one bit always the first, 0), and the bit as -1 or 1.
SWEEP_FN constexpr sweep::Input input(int i) {
    return i == 0 ? sweep::quantity(0.0f, 1.0f) : i == 1 ? sweep::flag() : sweep::quantity(-1.0f, 1.0f);
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.bit = rng.below(2);
    s.steps = 0;
    s.correct = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng&) {
    s.steps++;
    if (s.steps <= p.memory_length) return {0.0f, false, false};
    s.correct = action == s.bit;
    return {s.correct ? 1.0f : -1.0f, true, false};
}

SWEEP_FN float metric(const State& s, const Params&) { return static_cast<float>(s.correct); }

SWEEP_FN void observe(const State& s, const Params& p, float* observation) {
    const int shown = s.steps == 0 ? 0 : s.steps - 1;
    observation[0] = 1.0f - static_cast<float>(shown) / static_cast<float>(p.memory_length);
    observation[1] = 0.0f;
    observation[2] = shown == 0 ? static_cast<float>(2 * s.bit - 1) : 0.0f;
}

}  // namespace memory_chain
