// MinAtar's Asterix: on 10 x 10 cells, collect the gold that crosses the screen and touch no enemy; gold pays 1.
//
// Rules: github.com/kenjyoung/MinAtar 1.0.15, reproduced from recorded transitions. The actions are its minimal set:
// stay, left, up, right, down (its sixth, fire, stays too, and published PPO agents leave it out). With probability
// `sticky` the action before is repeated; an episode begins with stay, while MinAtar remembers the last action of the
// episode before. An enemy's touch ends the episode; ours also ends, truncated, after 5,000 env steps.
#pragma once

#include "board.h"
#include "environment.h"

namespace asterix {

enum Channel { player, enemy, trail, gold, channels };
constexpr sweep::Image image = {10, 10, channels};
constexpr int observation_size = 10 * 10 * channels;
constexpr int actions = 5;  // stay, left, up, right, down
constexpr int longest_episode = 5000;

constexpr int ramp_interval = 100, slowest_spawn = 10, slowest_move = 5;  // env steps
enum Kind { nothing, an_enemy, some_gold };

struct State {
    int player_x, player_y;   // column, and row 1 to 8
    int spawn_speed;          // env steps from one arrival to the next
    int spawn_timer;          // env steps until the next
    int move_speed;           // env steps from one move of all that cross to the next
    int move_timer;           // env steps until the next
    int ramp_timer;           // env steps until it gets harder, -1: now
    int ramp_index;           // how often it has
    int action;               // the last one, which may be repeated
    int steps;                // env steps of this episode
    sweep::uint8 kind[8];     // in rows 1 to 8: 0 nothing, 1 an enemy, 2 gold
    sweep::uint8 x[8];        // its column
    sweep::uint8 right[8];    // 1: it goes right
};

struct Params {
    float sticky = 0.1f;  // probability that the action before is repeated
    int ramping = 1;      // 1: arrivals come faster and faster
};
constexpr sweep::Bounds bounds[] = {{0, 1}, {0, 1}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng&) {
    s.player_x = s.player_y = 5;
    s.spawn_speed = s.spawn_timer = slowest_spawn;
    s.move_speed = s.move_timer = slowest_move;
    s.ramp_timer = ramp_interval;
    s.ramp_index = 0;
    s.action = 0;
    s.steps = 0;
    for (int i = 0; i < 8; i++) s.kind[i] = s.x[i] = s.right[i] = 0;
}

// Something new in a free row, each as likely; nothing where all are taken.
SWEEP_FN void spawn(State& s, sweep::Rng& rng) {
    const bool right = rng.below(2) != 0, is_gold = rng.below(3) == 0;
    int free = 0;
    for (int i = 0; i < 8; i++) free += s.kind[i] == nothing;
    if (free == 0) return;
    int skip = rng.below(free), row = 0;
    while (s.kind[row] != nothing || skip-- > 0) row++;
    s.kind[row] = is_gold ? some_gold : an_enemy;
    s.x[row] = right ? 0 : 9;
    s.right[row] = right;
}

// Takes the gold that the player stands on, and says whether it was an enemy.
SWEEP_FN bool touch(State& s, float& reward) {
    const int row = s.player_y - 1;
    if (s.kind[row] == nothing || s.x[row] != s.player_x) return false;
    if (s.kind[row] == an_enemy) return true;
    s.kind[row] = nothing;
    reward += 1.0f;
    return false;
}

SWEEP_FN void move(State& s) {
    for (int i = 0; i < 8; i++) {
        const sweep::uint8 leaves = s.x[i] == (s.right[i] ? 9 : 0);
        s.x[i] = leaves ? s.x[i] : s.x[i] + 2 * s.right[i] - 1;
        s.kind[i] = leaves ? 0 : s.kind[i];
    }
}

SWEEP_FN void ramp(State& s) {
    if (s.spawn_speed <= 1 && s.move_speed <= 1) return;
    if (s.ramp_timer >= 0) {
        s.ramp_timer--;
        return;
    }
    if (s.move_speed > 1 && s.ramp_index % 2 != 0) s.move_speed--;
    if (s.spawn_speed > 1) s.spawn_speed--;
    s.ramp_index++;
    s.ramp_timer = ramp_interval;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    if (rng.chance(p.sticky)) action = s.action;
    s.action = action;
    s.steps++;
    if (s.spawn_timer == 0) {
        spawn(s, rng);
        s.spawn_timer = s.spawn_speed;
    }
    if (action == 1 && s.player_x > 0) s.player_x--;
    if (action == 2 && s.player_y > 1) s.player_y--;
    if (action == 3 && s.player_x < 9) s.player_x++;
    if (action == 4 && s.player_y < 8) s.player_y++;

    float reward = 0.0f;
    bool caught = touch(s, reward);
    if (s.move_timer == 0) {
        s.move_timer = s.move_speed;
        move(s);
        caught |= touch(s, reward);
    }
    s.spawn_timer--;
    s.move_timer--;
    if (p.ramping) ramp(s);
    return {reward, caught, !caught && s.steps >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    sweep::clear_board(observation, observation_size);
    observation[(10 * s.player_y + s.player_x) * channels + player] = 1;
    for (int i = 0; i < 8; i++) {
        if (s.kind[i] == nothing) continue;
        sweep::uint8* row = observation + 10 * (i + 1) * channels;
        row[s.x[i] * channels + (s.kind[i] == an_enemy ? enemy : gold)] = 1;
        const int back = s.x[i] - (s.right[i] ? 1 : -1);
        if (back >= 0 && back <= 9) row[back * channels + trail] = 1;
    }
}

constexpr sweep::Picture picture = {10.0f, 10.0f};

SWEEP_FN void draw(const State& s, const Params& p, sweep::Canvas& c) {
    constexpr sweep::uint32 colours[channels] = {0x163d4e, 0x54792f, 0xd07e93, 0xc1caf3};
    sweep::uint8 board[observation_size];
    observe(s, p, board);
    sweep::draw_board(c, board, image, colours);
}

}  // namespace asterix
