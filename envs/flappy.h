// Flappy Bird, as flappy-bird-gymnasium plays it: flap through the gaps between pipes that come along.
//
// Rules: flappy-bird-gymnasium 0.4.0's FlappyBird-v0 with use_lidar=False (after github.com/sourabhv/FlapPyBird), held
// against recorded transitions. Actions: glide, flap. A frame pays 0.1, one that passes a pipe 1 and one above the screen
// -0.5; a crash costs 1 and ends the episode. Lengths are pixels, y points down, a frame is 1/30 s. Observed, as there: of
// the three pipes in order their left side and the gap's upper and lower end, a pipe beyond the screen as one at its edge
// without a gap; the bird's height, speed and rotation. Not as there: an episode is truncated after 2,000 frames, 52 pipes.
#pragma once

#include "environment.h"

namespace flappy {

constexpr int pipes = 3;
constexpr int observation_size = 3 * pipes + 3;
constexpr int actions = 2;
constexpr int longest_episode = 2000;
constexpr int most_pipes = 52;         // that come by in so many frames

constexpr float width = 288.0f, height = 512.0f, ground = 404.48f;
constexpr float pipe_width = 52.0f, pipe_speed = 4.0f, pipe_gap = 100.0f;
constexpr float new_pipe_x = width + pipe_width + 57.6f;
constexpr float bird_x = 57.0f, bird_width = 34.0f, bird_height = 24.0f;

struct State {
    float y;             // px, the bird's top
    float speed;         // px per frame, down
    float rotation;      // degrees, upwards
    float pipe_x[pipes]; // px, the left side, in order
    float gap_y[pipes];  // px, the gap's upper end
    int score;           // pipes passed
    int frames;          // frames of this episode
};

struct Params {};

SWEEP_FN constexpr sweep::Input input(int i) {
    return i < 3 * pipes ? (i % 3 == 0 ? sweep::quantity(-56.0f / width, 1.0f)
                            : i % 3 == 1 ? sweep::quantity(0.0f, 170.0f / height) : sweep::quantity(200.0f / height, 1.0f))
           : i == 3 * pipes ? sweep::typical(-57.0f / height, ground / height)   // a last flap lifts it by 45 px more
           : i == 3 * pipes + 1 ? sweep::quantity(-0.9f, 1.0f) : sweep::quantity(-1.0f, 0.5f);
}

SWEEP_FN float random_gap(sweep::Rng& rng) { return 100.0f + 10.0f * static_cast<float>(rng.below(8)); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.y = (height - bird_height) / 2;
    s.speed = -9.0f;
    s.rotation = 45.0f;
    for (int i = 0; i < pipes; i++) {
        s.pipe_x[i] = width + static_cast<float>(i) * width / 2;
        s.gap_y[i] = random_gap(rng);
    }
    s.score = s.frames = 0;
}

SWEEP_FN bool hits_pipe(const State& s) {
    bool hit = false;
    for (int i = 0; i < pipes; i++) {
        const float x = static_cast<float>(static_cast<int>(s.pipe_x[i]));   // pipes are met at whole pixels
        const bool beside = (x < bird_x + bird_width) & (bird_x < x + pipe_width);
        hit |= beside & ((s.y < s.gap_y[i]) | (s.y + bird_height > s.gap_y[i] + pipe_gap));
    }
    return hit;
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng& rng) {
    const bool flaps = (action == 1) & (s.y > -2 * bird_height);
    const float bird_middle = bird_x + bird_width / 2;
    bool passes = false;
    for (int i = 0; i < pipes; i++) {
        const float middle = s.pipe_x[i] + pipe_width / 2;
        passes |= (middle <= bird_middle) & (bird_middle < middle + pipe_speed);
    }
    s.score += passes;
    s.speed = flaps ? -9.0f : sweep::lowest(s.speed + 1.0f, 10.0f);
    s.rotation = flaps ? 45.0f : sweep::highest(s.rotation - 3.0f, -90.0f);
    s.y += sweep::lowest(s.speed, ground - s.y - bird_height);
    for (int i = 0; i < pipes; i++) s.pipe_x[i] -= pipe_speed;
    if (s.pipe_x[0] < -pipe_width) {
        for (int i = 0; i + 1 < pipes; i++) {
            s.pipe_x[i] = s.pipe_x[i + 1];
            s.gap_y[i] = s.gap_y[i + 1];
        }
        s.pipe_x[pipes - 1] = new_pipe_x;
        s.gap_y[pipes - 1] = random_gap(rng);
    }
    s.frames++;
    const bool crashed = (s.y + bird_height >= ground - 1.0f) | hits_pipe(s);
    const float reward = crashed ? -1.0f : s.y < 0.0f ? -0.5f : passes ? 1.0f : 0.1f;
    if (crashed) s.speed = 0.0f;
    return {reward, crashed, !crashed && s.frames >= longest_episode};
}

// Pipes passed, as a share of those that come by.
SWEEP_FN float metric(const State& s, const Params&) {
    return sweep::lowest(static_cast<float>(s.score) / most_pipes, 1.0f);
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    for (int i = 0; i < pipes; i++) {
        const bool seen = s.pipe_x[i] <= width;
        observation[3 * i] = (seen ? s.pipe_x[i] : width) / width;
        observation[3 * i + 1] = (seen ? s.gap_y[i] : 0.0f) / height;
        observation[3 * i + 2] = (seen ? s.gap_y[i] + pipe_gap : height) / height;
    }
    observation[3 * pipes] = s.y / height;
    observation[3 * pipes + 1] = s.speed / 10.0f;
    observation[3 * pipes + 2] = s.rotation / 90.0f;
}

constexpr sweep::Picture picture = {width, height};

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    c.rectangle(0, 0, width, height, 0x4EC0CA);
    for (int i = 0; i < pipes; i++) {
        c.rectangle(s.pipe_x[i], 0, pipe_width, s.gap_y[i], 0x73BF2E);
        c.rectangle(s.pipe_x[i], s.gap_y[i] + pipe_gap, pipe_width, ground - s.gap_y[i] - pipe_gap, 0x73BF2E);
    }
    c.rectangle(0, ground, width, height - ground, 0xDED895);
    c.rectangle(bird_x, s.y, bird_width, bird_height, 0xD4BF27);
    c.rectangle(bird_x + bird_width - 8, s.y + 12 - s.rotation / 8, 12, 6, 0xFC7858);
}

}  // namespace flappy
