// MountainCar-v0, as gymnasium plays it: a weak car rocks in a valley to get up its right side.
//
// Rules: Moore (1990), Sutton and Barto; constants and the limit of 200 frames from gymnasium. The actions push left, not
// at all, and right. Each frame costs 1, the last one too. An env step is a frame, or as many as `frameskip` says.
#pragma once

#include "environment.h"
#include "math.h"

namespace mountain_car {

constexpr int observation_size = 2;
constexpr int actions = 3;  // push left, none, push right
constexpr int frame_limit = 200;  // then an episode is truncated
constexpr int longest_episode = 200;

constexpr float leftmost = -1.2f, rightmost = 0.6f, goal = 0.5f;  // m
constexpr float fastest = 0.07f;                                  // m per frame
constexpr float push = 0.001f, gravity = 0.0025f;                 // m per frame^2

struct State {
    float position;  // m, the valley's bottom is at -pi / 6
    float velocity;  // m per frame
    int frames;      // frames of this episode
};

struct Params {
    int frameskip = 1;  // frames that an action is held
};
constexpr sweep::Bounds bounds[] = {{1, 32}};

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
    const float velocity = sweep::clamp(s.velocity + (force - gravity * sweep::cos(3.0f * s.position)), -fastest, fastest);
    s.position = sweep::clamp(s.position + velocity, leftmost, rightmost);
    s.velocity = s.position == leftmost && velocity < 0.0f ? 0.0f : velocity;  // the left end is a wall
    s.frames++;
    return s.position >= goal && s.velocity >= 0.0f;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& params, int action, sweep::Rng&) {
    const float force = push * static_cast<float>(action - 1);
    const int start = s.frames;
    bool there = false;
    for (int i = 0; i < params.frameskip && !there && s.frames < frame_limit; i++) there = drive(s, force);
    return {static_cast<float>(start - s.frames), there, !there && s.frames >= frame_limit};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.position;
    observation[1] = s.velocity;
}

}  // namespace mountain_car
