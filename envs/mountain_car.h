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

constexpr sweep::Picture picture = {rightmost - leftmost, 1.2f};

// How far down the picture the valley's floor is; its height is 0.55 + 0.45 sin(3 position).
SWEEP_FN float floor_at(float position) { return 0.7f - 0.45f * sweep::sin(3.0f * position); }

SWEEP_FN void draw_car(float position, float flag, sweep::Canvas& c) {
    constexpr int pieces = 36;
    for (int i = 0; i < pieces; i++) {
        const float from = leftmost + picture.width * i / pieces, to = leftmost + picture.width * (i + 1) / pieces;
        c.line(from - leftmost, floor_at(from), to - leftmost, floor_at(to), 0.01f, 0x5A6472);
    }
    const float pole = flag - leftmost, ground = floor_at(flag);
    c.line(pole, ground, pole, ground - 0.16f, 0.01f, 0xF2F2F2);
    c.rectangle(pole, ground - 0.16f, 0.08f, 0.05f, 0xE0B070);
    c.disc(position - leftmost, floor_at(position) - 0.045f, 0.04f, 0x4C9BE8);
}

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) { draw_car(s.position, goal, c); }

}  // namespace mountain_car
