// MinAtar's Freeway: on 10 x 10 cells, a chicken crosses eight lanes of cars, again and again; each crossing pays 1.
//
// Rules: github.com/kenjyoung/MinAtar 1.0.15, reproduced from recorded transitions. The actions are its minimal set:
// stay, up, down (its other three stay too, and published PPO agents leave them out). The chicken moves every third env
// step at most; a car sends it back to the start, and a crossing draws new speeds for all cars. With probability
// `sticky` the action before is repeated; an episode begins with stay, while MinAtar remembers the last action of the
// episode before. It lasts 2,501 env steps and then terminates, as in MinAtar; the time is not observed.
#pragma once

#include "board.h"
#include "environment.h"

namespace freeway_minatar {

enum Channel { chicken, car, speed, channels = speed + 5 };  // a trail in one of five tells how fast the car is
constexpr sweep::Image image = {10, 10, channels};
constexpr int observation_size = 10 * 10 * channels;
constexpr int actions = 3;  // stay, up, down
constexpr int longest_episode = 2501;

constexpr int chicken_speed = 3, column = 4, start = 9;

struct State {
    int pos;                    // row of the chicken, in column 4; 9 at the start
    int move_timer;             // env steps until it can move
    int time_left;              // env steps until the end, less 1
    int action;                 // the last one, which may be repeated
    sweep::uint8 x[8];          // columns of the cars in rows 1 to 8
    sweep::uint8 wait[8];       // env steps until each moves
    sweep::uint8 speed[8];      // 1 to 5: env steps from one move to the next, less 1
    sweep::uint8 right[8];      // 1: it goes right
};

struct Params {
    float sticky = 0.1f;  // probability that the action before is repeated
    int ramping = 1;      // no effect: this game's difficulty does not rise
};
constexpr sweep::Bounds bounds[] = {{0, 1}, {0, 1}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

SWEEP_FN void draw_speeds(State& s, sweep::Rng& rng) {
    for (int i = 0; i < 8; i++) {
        const int drawn = rng.below(10);
        s.speed[i] = s.wait[i] = drawn % 5 + 1;
        s.right[i] = drawn / 5;
    }
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    draw_speeds(s, rng);
    for (int i = 0; i < 8; i++) s.x[i] = 0;
    s.pos = start;
    s.move_timer = chicken_speed;
    s.time_left = 2500;
    s.action = 0;
}

SWEEP_FN bool is_hit(const State& s) { return s.pos < start && s.x[s.pos - 1] == column; }

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    if (rng.chance(p.sticky)) action = s.action;
    s.action = action;
    if (action != 0 && s.move_timer == 0) {
        s.move_timer = chicken_speed;
        if (action == 1) s.pos--;
        else if (s.pos < start) s.pos++;
    }
    const bool crossed = s.pos == 0;
    if (crossed) {
        draw_speeds(s, rng);
        s.pos = start;
    }
    if (is_hit(s)) s.pos = start;
    for (int i = 0; i < 8; i++) {
        const int ahead = s.right[i] ? (s.x[i] == 9 ? 0 : s.x[i] + 1) : (s.x[i] == 0 ? 9 : s.x[i] - 1);
        const bool moves = s.wait[i] == 0;
        s.x[i] = moves ? ahead : s.x[i];
        s.wait[i] = moves ? s.speed[i] : s.wait[i] - 1;
    }
    if (is_hit(s)) s.pos = start;
    if (s.move_timer > 0) s.move_timer--;
    s.time_left--;
    return {crossed ? 1.0f : 0.0f, s.time_left < 0, false};
}

SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    sweep::clear_board(observation, observation_size);
    observation[(10 * s.pos + column) * channels + chicken] = 1;
    for (int i = 0; i < 8; i++) {
        sweep::uint8* row = observation + 10 * (i + 1) * channels;
        row[s.x[i] * channels + car] = 1;
        const int back = s.right[i] ? (s.x[i] == 0 ? 9 : s.x[i] - 1) : (s.x[i] == 9 ? 0 : s.x[i] + 1);
        row[back * channels + speed + s.speed[i] - 1] = 1;
    }
}

constexpr sweep::Picture picture = {10.0f, 10.0f};

SWEEP_FN void draw(const State& s, const Params& p, sweep::Canvas& c) {
    constexpr sweep::uint32 colours[channels] = {0x1b1e3b, 0x16534c, 0x447731, 0xa1794a, 0xd484a9, 0xc6b4ee, 0xcbe8f0};
    sweep::uint8 board[observation_size];
    observe(s, p, board);
    sweep::draw_board(c, board, image, colours);
}

}  // namespace freeway_minatar
