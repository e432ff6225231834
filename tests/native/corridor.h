// Corridor: a walk between two walls that time cuts short: every way to end in few env steps, and no Params.
#pragma once
#include "environment.h"

namespace corridor {

constexpr int longest = 13;   // env steps of an episode

struct State {
    int place;     // cells from the middle
    int elapsed;   // env steps of this episode
};

struct Params {};

constexpr int observation_size = 2, actions = 3, longest_episode = longest;

SWEEP_FN constexpr sweep::Input input(int i) { return i == 0 ? sweep::quantity(-4, 4) : sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.place = rng.below(3) - 1;
    s.elapsed = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng& rng) {
    s.place += action - 1;
    if (rng.uniform() < 0.1f) s.place = -s.place;
    const bool out = s.place > 4 || s.place < -4;
    return {out ? -1.0f : 0.25f * s.place, out, !out && ++s.elapsed >= longest};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.place;
    observation[1] = s.place > 0;
}

// How near the middle it ended.
SWEEP_FN float metric(const State& s, const Params&) { return 1.0f - 0.2f * (s.place < 0 ? -s.place : s.place); }

}  // namespace corridor
