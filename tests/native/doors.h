// Doors: a walk between two walls, where each env step has a way to go and the number of a door to open.
#pragma once
#include "environment.h"

namespace doors {

struct State {
    int place;     // cells from the left wall
    int door;      // the one that leads on
    int elapsed;   // env steps of this episode
};

struct Params {};

constexpr int observation_size = 5, longest_episode = 20, goal = 4;
constexpr int actions[] = {2, 4};   // left or right; a door

SWEEP_FN constexpr sweep::Input input(int i) { return i == 0 ? sweep::quantity(0, goal) : sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) { s = {rng.below(3), rng.below(4), 0}; }

SWEEP_FN sweep::Outcome step(State& s, const Params&, const int* action, sweep::Rng& rng) {
    const bool open = action[1] == s.door;
    s.place += !open ? 0 : action[0] == 1 ? 1 : s.place > 0 ? -1 : 0;
    s.door = rng.below(4);
    const bool there = s.place == goal;
    return {there ? 1.0f : open ? 0.0f : -0.1f, there, !there && ++s.elapsed >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.place;
    for (int i = 0; i < 4; i++) observation[1 + i] = i == s.door;
}

}  // namespace doors
