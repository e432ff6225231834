// MinAtar's Seaquest: on 10 x 10 cells, a submarine shoots fish and submarines, rescues divers and surfaces for air.
//
// Rules: github.com/kenjyoung/MinAtar 1.0.15, reproduced from recorded transitions. Actions: stay, left, up, right,
// down, fire. Each hit pays 1; surfacing with six divers pays a point for each cell of the oxygen gauge, and each
// surfacing makes the game harder. As in the reference, surfacing with six divers leaves -1 aboard, so that the next
// times need none. With probability `sticky` the action before is repeated; an episode begins with stay, while MinAtar
// remembers the last action of the episode before. A collision, no oxygen, or surfacing without divers ends the
// episode; ours also ends, truncated, after 5,000 env steps.
#pragma once

#include "board.h"
#include "environment.h"

namespace seaquest {

using sweep::uint8;
enum Channel {
    sub_front, sub_back, friendly_bullet, trail, enemy_bullet, enemy_fish, enemy_sub, oxygen_gauge, diver_gauge, diver,
    channels
};
constexpr sweep::Image image = {10, 10, channels};
constexpr int observation_size = 10 * 10 * channels;
constexpr int actions = 6;  // stay, left, up, right, down, fire
constexpr int longest_episode = 5000;

constexpr int most_oxygen = 200, slowest_spawn = 20, diver_spawn = 30, slowest_move = 5, fastest_move = 2;  // env steps
constexpr int shot_cool_down = 5, bullet_interval = 10, diver_move = 5;
// More than can ever be: what crosses takes 61 env steps at first, when there is one arrival in 20, and 31 at last.
constexpr int most_shots = 4, most = 32, most_divers = 4;

struct State {
    int x, y;                        // the submarine's front: column, and row 0 (the surface) to 8
    int right;                       // 1: it faces right
    int oxygen;                      // env steps under water that are left
    int aboard;                      // divers; -1 or less after six were brought up
    int surfaced;                    // 1: it has been at the surface since its last stop there
    int shot_timer;                  // env steps until it can fire
    int spawn_timer;                 // env steps until an enemy comes
    int diver_timer;                 // env steps until a diver comes
    int spawn_speed;                 // env steps from one enemy to the next
    int move_speed;                  // env steps between two moves of an enemy
    int ramp_index;                  // how often it got harder
    int action;                      // the last one, which may be repeated
    int steps;                       // env steps of this episode
    int shots;                       // bullets of the player
    int bullets;                     // bullets of the enemies
    int fish;                        // how many there are
    int subs;                        // how many enemy submarines there are
    int divers;                      // how many swim
    uint8 shot_at[most_shots];       // cells, 10 * row + column; the lists are in order of arrival
    uint8 shot_right[most_shots];    // 1: it goes right
    uint8 bullet_at[most];           // cells
    uint8 bullet_right[most];        // 1: it goes right
    uint8 fish_at[most];             // cells
    uint8 fish_right[most];          // 1: it goes right
    uint8 fish_wait[most];           // env steps until it moves
    uint8 sub_at[most];              // cells
    uint8 sub_right[most];           // 1: it goes right
    uint8 sub_wait[most];            // env steps until it moves
    uint8 sub_reload[most];          // env steps until it fires
    uint8 diver_at[most_divers];     // cells
    uint8 diver_right[most_divers];  // 1: it swims right
    uint8 diver_wait[most_divers];   // env steps until it moves
};

struct Params {
    float sticky = 0.1f;  // probability that the action before is repeated
    int ramping = 1;      // 1: each surfacing makes the enemies more and faster
};
constexpr sweep::Bounds bounds[] = {{0, 1}, {0, 1}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng&) {
    s = {};
    s.x = 5;
    s.oxygen = most_oxygen;
    s.surfaced = 1;
    s.spawn_timer = s.spawn_speed = slowest_spawn;
    s.diver_timer = diver_spawn;
    s.move_speed = slowest_move;
}

// -- what crosses the screen -------------------------------------------------------------------------------------

SWEEP_FN void cut(uint8* list, int count, int at) {
    for (int i = at; i + 1 < count; i++) list[i] = list[i + 1];
}
SWEEP_FN void remove_shot(State& s, int i) {
    cut(s.shot_at, s.shots, i);
    cut(s.shot_right, s.shots--, i);
}
SWEEP_FN void remove_bullet(State& s, int i) {
    cut(s.bullet_at, s.bullets, i);
    cut(s.bullet_right, s.bullets--, i);
}
SWEEP_FN void remove_fish(State& s, int i) {
    cut(s.fish_at, s.fish, i);
    cut(s.fish_right, s.fish, i);
    cut(s.fish_wait, s.fish--, i);
}
SWEEP_FN void remove_sub(State& s, int i) {
    cut(s.sub_at, s.subs, i);
    cut(s.sub_right, s.subs, i);
    cut(s.sub_wait, s.subs, i);
    cut(s.sub_reload, s.subs--, i);
}
SWEEP_FN void remove_diver(State& s, int i) {
    cut(s.diver_at, s.divers, i);
    cut(s.diver_right, s.divers, i);
    cut(s.diver_wait, s.divers--, i);
}

// The first of a list that is in this cell; -1: none.
SWEEP_FN int found(const uint8* list, int count, int cell) {
    for (int i = 0; i < count; i++)
        if (list[i] == cell) return i;
    return -1;
}

// Moves by a column; false where that is off the screen.
SWEEP_FN bool move(uint8& cell, bool right) {
    if (cell % 10 == (right ? 9 : 0)) return false;
    cell = right ? cell + 1 : cell - 1;
    return true;
}

// An enemy in a random row; none where another goes the other way there.
SWEEP_FN void spawn_enemy(State& s, sweep::Rng& rng) {
    const bool right = rng.below(2) != 0, is_sub = rng.below(3) == 0;
    const int row = 1 + rng.below(8);
    for (int i = 0; i < s.fish; i++)
        if (s.fish_at[i] / 10 == row && s.fish_right[i] != right) return;
    for (int i = 0; i < s.subs; i++)
        if (s.sub_at[i] / 10 == row && s.sub_right[i] != right) return;
    const int cell = 10 * row + (right ? 0 : 9);
    if (is_sub && s.subs < most) {
        s.sub_at[s.subs] = cell;
        s.sub_right[s.subs] = right;
        s.sub_wait[s.subs] = s.move_speed;
        s.sub_reload[s.subs++] = bullet_interval;
    } else if (!is_sub && s.fish < most) {
        s.fish_at[s.fish] = cell;
        s.fish_right[s.fish] = right;
        s.fish_wait[s.fish++] = s.move_speed;
    }
}

SWEEP_FN void spawn_diver(State& s, sweep::Rng& rng) {
    const bool right = rng.below(2) != 0;
    const int row = 1 + rng.below(8);
    if (s.divers == most_divers) return;
    s.diver_at[s.divers] = 10 * row + (right ? 0 : 9);
    s.diver_right[s.divers] = right;
    s.diver_wait[s.divers++] = diver_move;
}

// -- an env step, part by part; the later of a list go first, as in the reference -----------------------------------

// The number of hits.
SWEEP_FN int move_shots(State& s) {
    int hits = 0;
    for (int i = s.shots - 1; i >= 0; i--) {
        if (!move(s.shot_at[i], s.shot_right[i])) {
            remove_shot(s, i);
            continue;
        }
        const int fish = found(s.fish_at, s.fish, s.shot_at[i]);
        const int sub = fish >= 0 ? -1 : found(s.sub_at, s.subs, s.shot_at[i]);
        if (fish >= 0) remove_fish(s, fish);
        if (sub >= 0) remove_sub(s, sub);
        if (fish >= 0 || sub >= 0) {
            remove_shot(s, i);
            hits++;
        }
    }
    return hits;
}

SWEEP_FN void move_divers(State& s, int own) {
    for (int i = s.divers - 1; i >= 0; i--) {
        bool gone = false, picked = s.diver_at[i] == own && s.aboard < 6;
        if (!picked) {
            if (s.diver_wait[i] == 0) {
                s.diver_wait[i] = diver_move;
                gone = !move(s.diver_at[i], s.diver_right[i]);
                picked = !gone && s.diver_at[i] == own && s.aboard < 6;
            } else {
                s.diver_wait[i]--;
            }
        }
        if (picked) s.aboard++;
        if (picked || gone) remove_diver(s, i);
    }
}

// What came of an enemy's turn.
enum Turn { stays, gone, collides, shot };

SWEEP_FN Turn move_enemy(State& s, uint8& cell, uint8& wait, bool right, int own) {
    if (wait != 0) {
        wait--;
        return stays;
    }
    wait = s.move_speed;
    if (!move(cell, right)) return gone;
    if (cell == own) return collides;
    const int hit = found(s.shot_at, s.shots, cell);
    if (hit < 0) return stays;
    remove_shot(s, hit);
    return shot;
}

// True where one meets the player.
SWEEP_FN bool move_subs(State& s, int own, int& hits) {
    bool collision = false;
    for (int i = s.subs - 1; i >= 0; i--) {
        collision |= s.sub_at[i] == own;
        const Turn turn = move_enemy(s, s.sub_at[i], s.sub_wait[i], s.sub_right[i], own);
        collision |= turn == collides;
        hits += turn == shot;
        if (s.sub_reload[i] != 0) {
            s.sub_reload[i]--;
        } else {  // also one that has just been shot
            s.sub_reload[i] = bullet_interval;
            if (turn != gone && s.bullets < most) {
                s.bullet_at[s.bullets] = s.sub_at[i];
                s.bullet_right[s.bullets++] = s.sub_right[i];
            }
        }
        if (turn == gone || turn == shot) remove_sub(s, i);
    }
    return collision;
}

SWEEP_FN bool move_fish(State& s, int own, int& hits) {
    bool collision = false;
    for (int i = s.fish - 1; i >= 0; i--) {
        collision |= s.fish_at[i] == own;
        const Turn turn = move_enemy(s, s.fish_at[i], s.fish_wait[i], s.fish_right[i], own);
        collision |= turn == collides;
        hits += turn == shot;
        if (turn == gone || turn == shot) remove_fish(s, i);
    }
    return collision;
}

SWEEP_FN bool move_bullets(State& s, int own) {
    bool collision = false;
    for (int i = s.bullets - 1; i >= 0; i--) {
        collision |= s.bullet_at[i] == own;
        if (!move(s.bullet_at[i], s.bullet_right[i])) remove_bullet(s, i);
        else collision |= s.bullet_at[i] == own;
    }
    return collision;
}

// What surfacing pays.
SWEEP_FN int surface(State& s, const Params& p) {
    int points = 0;
    s.surfaced = 1;
    if (s.aboard == 6) {
        s.aboard = 0;
        points = s.oxygen * 10 / most_oxygen;
    }
    s.oxygen = most_oxygen;
    s.aboard--;
    if (p.ramping && (s.spawn_speed > 1 || s.move_speed > fastest_move)) {
        if (s.move_speed > fastest_move && s.ramp_index % 2 != 0) s.move_speed--;
        if (s.spawn_speed > 1) s.spawn_speed--;
        s.ramp_index++;
    }
    return points;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    if (rng.chance(p.sticky)) action = s.action;
    s.action = action;
    s.steps++;
    if (s.spawn_timer == 0) {
        spawn_enemy(s, rng);
        s.spawn_timer = s.spawn_speed;
    }
    if (s.diver_timer == 0) {
        spawn_diver(s, rng);
        s.diver_timer = diver_spawn;
    }
    if (action == 5 && s.shot_timer == 0 && s.shots < most_shots) {
        s.shot_at[s.shots] = 10 * s.y + s.x;
        s.shot_right[s.shots++] = s.right;
        s.shot_timer = shot_cool_down;
    }
    if (action == 1 || action == 3) s.right = action == 3;
    if (action == 1 && s.x > 0) s.x--;
    if (action == 3 && s.x < 9) s.x++;
    if (action == 2 && s.y > 0) s.y--;
    if (action == 4 && s.y < 8) s.y++;

    const int own = 10 * s.y + s.x;
    int reward = move_shots(s);
    move_divers(s, own);
    bool over = move_subs(s, own, reward);
    over |= move_bullets(s, own);
    over |= move_fish(s, own, reward);

    if (s.spawn_timer > 0) s.spawn_timer--;
    if (s.diver_timer > 0) s.diver_timer--;
    if (s.shot_timer > 0) s.shot_timer--;
    over |= s.oxygen <= 0;
    if (s.y > 0) {
        s.oxygen--;
        s.surfaced = 0;
    } else if (!s.surfaced) {
        if (s.aboard == 0) over = true;
        else reward += surface(s, p);
    }
    return {static_cast<float>(reward), over, !over && s.steps >= longest_episode};
}

// -- what is seen ------------------------------------------------------------------------------------------------

SWEEP_FN void show(uint8* observation, int channel, const uint8* cells, const uint8* right, int count) {
    for (int i = 0; i < count; i++) {
        observation[cells[i] * channels + channel] = 1;
        if (cells[i] % 10 != (right[i] ? 0 : 9)) observation[(cells[i] + (right[i] ? -1 : 1)) * channels + trail] = 1;
    }
}

SWEEP_FN void observe(const State& s, const Params&, uint8* observation) {
    sweep::clear_board(observation, observation_size);
    const int own = 10 * s.y + s.x;
    observation[own * channels + sub_front] = 1;
    observation[(own + (s.right ? -1 : 1)) * channels + sub_back] = 1;
    const int full = s.oxygen > 0 ? s.oxygen * 10 / most_oxygen : 0;
    for (int column = 0; column < full; column++) observation[(90 + column) * channels + oxygen_gauge] = 1;
    for (int column = 9 - s.aboard; column < 9; column++) observation[(90 + column) * channels + diver_gauge] = 1;
    for (int i = 0; i < s.shots; i++) observation[s.shot_at[i] * channels + friendly_bullet] = 1;
    for (int i = 0; i < s.bullets; i++) observation[s.bullet_at[i] * channels + enemy_bullet] = 1;
    show(observation, enemy_fish, s.fish_at, s.fish_right, s.fish);
    show(observation, enemy_sub, s.sub_at, s.sub_right, s.subs);
    show(observation, diver, s.diver_at, s.diver_right, s.divers);
}

constexpr sweep::Picture picture = {10.0f, 10.0f};

SWEEP_FN void draw(const State& s, const Params& p, sweep::Canvas& c) {
    constexpr sweep::uint32 colours[channels] = {0x19122b, 0x17344c, 0x185b48, 0x3c7632, 0x7e7a36,
                                                  0xbc7967, 0xd486af, 0xcaa9e7, 0xc2d2f3, 0xd6f0ef};
    uint8 board[observation_size];
    observe(s, p, board);
    sweep::draw_board(c, board, image, colours);
}

}  // namespace seaquest
