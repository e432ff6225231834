// Freeway, as PufferLib 3.0 plays it: cross ten lanes of traffic, again and again, for 136 seconds.
//
// Rules: github.com/PufferAI/PufferLib 3.0, ocean/freeway (after the Atari 2600's), held against recorded transitions.
// Actions: stay, up, down. A lane reached pays 0.1 and the far side 1 more; a hit costs 0.01 and throws the player back
// by a lane and a half in 40 frames, or with difficulty 1 to the start. Lengths are pixels, y points down, a frame is 1/60
// s. Not as there: a car that would begin beyond the road's end begins where it comes in again (there a frame later); with
// level -1 each episode draws one of the eight (there each copy, for good); the changing speeds of levels 4 to 7 are as in
// level's beginning when an episode begins (there they go on from the last).
#pragma once

#include "environment.h"

namespace freeway {

constexpr int lanes = 10, cars_per_lane = 3, cars = lanes * cars_per_lane, levels = 8;
constexpr int observation_size = 4 + cars;
constexpr int actions = 3;
constexpr int longest_episode = 2040;

constexpr int frame_limit = 136 * 60, speeds_change_every = 360, stunned_for = 40;
constexpr float width = 1216.0f, height = 720.0f, lane_height = 64.0f;
constexpr float road_start = height / 2 + lanes * lane_height / 2;   // its lower edge
constexpr float player_x = width / 4, player_half = 32.0f, car_half_height = 20.0f;
constexpr float stride = 1.0f / 3.5f * height / 60.0f;               // px per frame
constexpr float thrown = 1.5f * lane_height / stunned_for;           // px per frame
constexpr float start_y = height - player_half;

// How much of the road's width a car drives in a second, by its speed 0 .. 5.
constexpr double growth = 1.35;
constexpr float pace[6] = {
    static_cast<float>(1.0f / 13.0f), static_cast<float>(growth / 13.0f), static_cast<float>(growth * growth / 13.0f),
    static_cast<float>(growth * growth * growth / 13.0f), static_cast<float>(growth * growth * growth * growth / 13.0f),
    static_cast<float>(growth * growth * growth * growth * growth / 13.0f)};

// By level modulo 4: cars in each lane, their speed, whether they are trucks (twice as long), and where in the road's width
// the second and third begin. From lane 5 on they drive to the left.
constexpr int car_count[4][lanes] = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 2, 2, 3, 2, 1, 2, 3, 2, 2},
                                     {3, 3, 1, 3, 1, 1, 3, 1, 3, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
constexpr int first_speed[4][lanes] = {{0, 1, 2, 3, 4, 4, 3, 2, 1, 0}, {0, 1, 3, 4, 5, 5, 4, 3, 1, 0},
                                       {0, 1, 3, 4, 5, 5, 4, 3, 1, 0}, {5, 4, 2, 4, 5, 5, 4, 2, 4, 5}};
constexpr bool is_truck[4][lanes] = {{}, {0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, {0, 0, 0, 0, 1, 0, 0, 0, 0, 0},
                                     {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
constexpr float second_car[4][lanes] = {{}, {0.0f, 0.1f, 0.2f, 0.1f, 0.4f, 0.0f, 0.4f, 0.1f, 0.2f, 0.1f},
                                        {0.2f, 0.2f, 0.0f, 0.2f, 0.0f, 0.0f, 0.2f, 0.0f, 0.2f, 0.2f}, {}};
constexpr float third_car[4][lanes] = {{}, {0.0f, 0.0f, 0.0f, 0.2f, 0.0f, 0.0f, 0.0f, 0.2f, 0.0f, 0.0f},
                                       {0.4f, 0.4f, 0.0f, 0.4f, 0.0f, 0.0f, 0.4f, 0.0f, 0.4f, 0.4f}, {}};
constexpr int human_score[levels] = {25, 20, 18, 20, 25, 18, 15, 18};

struct State {
    float player_y;     // px, the middle
    int lane;           // lanes reached in this crossing
    int stunned;        // frames until the player moves again
    int score;          // crossings
    int level;          // 0 .. 7
    int frames;         // frames of this episode
    int speed[lanes];   // 0 .. 5
    float car_x[cars];  // px, the middle; lane by lane from below, 0 where there is none
};

struct Params {
    int level = 0;       // 0 .. 7: more and faster cars; from 4 on they change their speeds; -1: drawn anew each episode
    int difficulty = 0;  // 1: a hit throws back to the start
    int frameskip = 4;   // frames that an action is held
};
constexpr sweep::Bounds bounds[] = {{-1, 7}, {0, 1}, {1, 8}};

SWEEP_FN constexpr sweep::Input input(int i) {
    constexpr float beyond = 64.0f / width;  // half a truck
    return i == 0 ? sweep::quantity(player_half / height, start_y / height)
         : i == 1 ? sweep::quantity(0.0f, 1.0f)
         : i == 2 ? sweep::typical(0.0f, 2.0f)   // crossings, as a share of a person's best
         : i == 3 ? sweep::flag()
                  : sweep::quantity(-beyond, 1.0f + beyond);
}

// A car's place once it has left the road at one end: it comes in at the other.
SWEEP_FN float on_road(float x, float half_length) {
    return x > width + half_length ? x - width : x < -half_length ? x + width : x;
}
SWEEP_FN float half_length_in(int level, int lane) { return is_truck[level & 3][lane] ? 64.0f : 32.0f; }

SWEEP_FN void reset(State& s, const Params& params, sweep::Rng& rng) {
    s.player_y = start_y;
    s.lane = s.stunned = s.score = s.frames = 0;
    s.level = params.level < 0 ? rng.below(levels) : params.level;
    const int map = s.level & 3;
    for (int lane = 0; lane < lanes; lane++) {
        s.speed[lane] = first_speed[map][lane];
        const float shift = width * rng.uniform();
        const float begin[cars_per_lane] = {0.0f, second_car[map][lane] * width, third_car[map][lane] * width};
        for (int i = 0; i < cars_per_lane; i++) {
            const float x = (lane < lanes / 2 ? begin[i] : width - begin[i]) + shift;
            s.car_x[lane * cars_per_lane + i] =
                i < car_count[map][lane] ? on_road(x, half_length_in(s.level, lane)) : 0.0f;
        }
    }
}

SWEEP_FN bool is_hit(const State& s) {
    // The player is wide enough for two lanes at most: those that begin below its upper end.
    const int upper = static_cast<int>((road_start - lane_height / 2 + player_half + car_half_height - s.player_y) / lane_height);
    bool hit = false;
    for (int lane = upper - 1; lane <= upper; lane++) {
        if (lane < 0 || lane >= lanes) continue;
        const float y = road_start - lane_height * static_cast<float>(lane) - lane_height / 2;
        if (!((s.player_y - player_half < y + car_half_height) & (s.player_y + player_half > y - car_half_height))) continue;
        const float half = half_length_in(s.level, lane);
        for (int i = 0; i < car_count[s.level & 3][lane]; i++) {
            const float x = s.car_x[lane * cars_per_lane + i];
            hit |= (player_x - player_half < x + half) & (player_x + player_half > x - half);
        }
    }
    return hit;
}

// One frame of the player; what it earns is added to `reward`.
SWEEP_FN void move_player(State& s, float move, int difficulty, float& reward) {
    if (s.stunned == 0) {
        s.player_y -= move;
    } else {
        s.stunned--;
        if (difficulty == 0) s.player_y += thrown;
    }
    s.player_y = sweep::clamp(s.player_y, player_half, start_y);
    if (s.stunned == 0 && is_hit(s)) {
        s.stunned = stunned_for;
        reward += -0.01f;
        if (difficulty == 1) {
            s.player_y = start_y;
            s.stunned = 0;
        }
    }
    if (s.player_y <= road_start - static_cast<float>(s.lane + 1) * lane_height) {
        s.lane++;
        reward = static_cast<float>(reward + 0.1);
        if (s.lane == lanes) {
            s.player_y = start_y;
            s.stunned = s.lane = 0;
            s.score++;
            reward += 1.0f;
        }
    }
}

SWEEP_FN void change_speeds(State& s, sweep::Rng& rng) {
    for (int lane = 0; lane < lanes; lane++) {
        const int first = first_speed[s.level & 3][lane], change = rng.below(3) - 1;
        int speed = s.speed[lane];
        speed = speed < first - 2 ? first - 2 : speed > first + 2 ? first + 2 : speed;
        speed += change;
        s.speed[lane] = speed < 0 ? 0 : speed > 5 ? 5 : speed;
    }
}

SWEEP_FN sweep::Outcome step(State& s, const Params& params, int action, sweep::Rng& rng) {
    const float move = action == 1 ? stride : action == 2 ? -stride : 0.0f;
    float speed[cars], half[cars];
    for (int i = 0; i < cars; i++) {
        const int lane = i / cars_per_lane;
        const float px = pace[s.speed[lane]] / 60.0f * width;
        speed[i] = i % cars_per_lane < car_count[s.level & 3][lane] ? (lane < lanes / 2 ? px : -px) : 0.0f;
        half[i] = half_length_in(s.level, lane);
    }
    float reward = 0.0f;
    for (int frame = 0; frame < params.frameskip; frame++) {
        move_player(s, move, params.difficulty, reward);
        for (int i = 0; i < cars; i++) s.car_x[i] = on_road(s.car_x[i] + speed[i], half[i]);
    }
    s.frames += params.frameskip;
    const bool over = s.frames >= frame_limit;
    if (s.level >= 4 && !over && s.frames % speeds_change_every == 0) change_speeds(s, rng);
    return {reward, over, false};
}

// Crossings, as a share of a person's best at this level.
SWEEP_FN float metric(const State& s, const Params&) {
    return sweep::lowest(static_cast<float>(s.score) / static_cast<float>(human_score[s.level]), 1.0f);
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.player_y / height;
    observation[1] = static_cast<float>(s.lane) / lanes;
    observation[2] = static_cast<float>(s.score) / static_cast<float>(human_score[s.level]);
    observation[3] = s.stunned > 0 ? 1.0f : 0.0f;
    for (int i = 0; i < cars; i++) observation[4 + i] = s.car_x[i] / width;
}

constexpr sweep::Picture picture = {width, height};

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    constexpr float road_end = road_start - lanes * lane_height;
    constexpr sweep::uint32 colours[5] = {0xBB4444, 0xFF8C00, 0xCCCC00, 0x44AA44, 0x4466DD};
    c.rectangle(0, 0, width, height, 0x667766);
    c.rectangle(0, road_end, width, road_start - road_end, 0x333333);
    for (int lane = 1; lane < lanes; lane++)
        c.rectangle(0, road_start - lane * lane_height - 2, width, 4, lane == lanes / 2 ? 0xEBEB64 : 0x555555);
    for (int i = 0; i < cars; i++) {
        const int lane = i / cars_per_lane;
        if (i % cars_per_lane >= car_count[s.level & 3][lane]) continue;
        const float half = half_length_in(s.level, lane), y = road_start - lane_height * lane - lane_height / 2;
        c.rectangle(s.car_x[i] - half, y - car_half_height, 2 * half, 2 * car_half_height, colours[lane % 5]);
    }
    c.disc(player_x, s.player_y, player_half, s.stunned > 0 ? 0xFF5555 : 0xF1F1F1);
    for (int i = 0; i < s.score; i++) c.rectangle(8.0f + 20 * i, 6, 14, 14, 0xF1F1F1);
}

}  // namespace freeway
