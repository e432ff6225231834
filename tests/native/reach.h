// Reach: a point in a walled field goes to a target, by so much along each side of it, each with bounds of its own.
#pragma once
#include "environment.h"

namespace reach {

struct State {
    float x, y;               // of the target, from the point
    int elapsed;              // env steps of this episode
};

struct Params {};

constexpr int observation_size = 3, longest_episode = 15;
constexpr sweep::Bounds actions[] = {{-0.5, 0.5}, {-0.2, 0.6}};   // how far along x and y in one env step

SWEEP_FN constexpr sweep::Input input(int i) { return i < 2 ? sweep::quantity(-2, 2) : sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) { s = {rng.uniform(-1, 1), rng.uniform(-0.4f, 1.2f), 0}; }

SWEEP_FN sweep::Outcome step(State& s, const Params&, const float* action, sweep::Rng&) {
    s.x = sweep::clamp(s.x - action[0], -2.0f, 2.0f);
    s.y = sweep::clamp(s.y - action[1], -2.0f, 2.0f);
    const float square = s.x * s.x + s.y * s.y;
    const bool there = square < 0.01f;
    return {there ? 1.0f : -0.2f * square, there, !there && ++s.elapsed >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.x;
    observation[1] = s.y;
    observation[2] = s.x * s.y > 0;
}

}  // namespace reach
