// MountainCarContinuous-v0, as gymnasium plays it: a weak car rocks in a valley to get up its right side, with little fuel.
//
// Rules: Moore (1990), with a force that may be chosen; constants and the limit of 999 frames from gymnasium. The action is
// the force, as a share of the motor's. Each frame costs a tenth of its square; the goal pays 100. An env step is a frame,
// or as many as `frameskip` says.
#pragma once

#include "mountain_car.h"

namespace mountain_car_continuous {

constexpr int observation_size = 2;
constexpr sweep::Bounds actions[] = {{-1, 1}};  // force, positive is right
constexpr int frame_limit = 999;                // then an episode is truncated
constexpr int longest_episode = 999;

constexpr float leftmost = -1.2f, rightmost = 0.6f, goal = 0.45f;  // m
constexpr float fastest = 0.07f;                                   // m per frame
constexpr float power = 0.0015f, gravity = 0.0025f;                // m per frame^2

struct State {
    float position;  // m, the valley's bottom is at -pi / 6
    float velocity;  // m per frame
    int frames;      // frames of this episode
};

struct Params {
    int frameskip = 1;  // frames that an action is held
};
constexpr sweep::Bounds bounds[] = {{1, 64}};

SWEEP_FN constexpr sweep::Input input(int i) {
    return i == 0 ? sweep::quantity(leftmost, rightmost) : sweep::quantity(-fastest, fastest);
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.position = rng.uniform(-0.6f, -0.4f);
    s.velocity = 0.0f;
    s.frames = 0;
}

// One frame; whether it reached the goal.
SWEEP_FN bool drive(State& s, float force) {
    const float velocity = sweep::clamp(s.velocity + (power * force - gravity * sweep::cos(3.0f * s.position)), -fastest, fastest);
    s.position = sweep::clamp(s.position + velocity, leftmost, rightmost);
    s.velocity = s.position == leftmost && velocity < 0.0f ? 0.0f : velocity;  // the left end is a wall
    s.frames++;
    return s.position >= goal && s.velocity >= 0.0f;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& params, const float* action, sweep::Rng&) {
    const float force = action[0];
    const int start = s.frames;
    bool there = false;
    for (int i = 0; i < params.frameskip && !there && s.frames < frame_limit; i++) there = drive(s, force);
    const float fuel = 0.1f * force * force * static_cast<float>(s.frames - start);
    return {(there ? 100.0f : 0.0f) - fuel, there, !there && s.frames >= frame_limit};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.position;
    observation[1] = s.velocity;
}

constexpr sweep::Picture picture = mountain_car::picture;

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) { mountain_car::draw_car(s.position, goal, c); }

}  // namespace mountain_car_continuous
