// The table of C functions that an environment's header becomes, and through which the trainer plays it.
//
// A header is compiled alone, together with table.h, into a shared library that exports one function,
// `const EnvironmentTable* sweep_environment()`. The trainer is compiled once and only ever sees this table.
#pragma once

#include "rng.h"

namespace sweep {

constexpr int environment_abi = 2;

// One number of an observation: a flag passes to the network as it is, all else is standardised by its bounds.
struct Input {
    float low, high;
    bool is_flag;
    bool is_open;   // the bounds say what is typical: it may leave them
};
SWEEP_FN constexpr Input flag() { return {0.0f, 1.0f, true, false}; }
SWEEP_FN constexpr Input quantity(float low, float high) { return {low, high, false, false}; }   // never outside
SWEEP_FN constexpr Input typical(float low, float high) { return {low, high, false, true}; }     // mostly within

// An observation that is an image: [height][width][channels], row by row.
struct Image {
    int height, width, channels;
};

// What one env step gave, beside the new state.
struct Outcome {
    float reward;      // in the game's own units
    bool terminated;   // the episode ended by the rules: nothing follows
    bool truncated;    // the episode was cut by a time limit: what follows is bootstrapped
};

// The legal values of one field of an environment's Params, or of one continuous action, both ends included.
struct Bounds {
    double low, high;
};

// The size of a game's picture, in units of its own; y points down.
struct Picture {
    float width, height;
};

// What draw() leaves on a canvas: later marks lie on top. Colours are 0xRRGGBB, the background is black.
struct Mark {
    int shape;            // 0 rectangle, 1 disc (x, y its centre, w its radius), 2 line (from x, y to w, h)
    float x, y, w, h;
    float thickness;      // of a line
    uint32 colour;
};
struct Canvas {
    Mark* marks;
    int count, room;      // marks beyond the room are dropped

    SWEEP_FN void rectangle(float x, float y, float w, float h, uint32 colour) { add({0, x, y, w, h, 0.0f, colour}); }
    SWEEP_FN void disc(float x, float y, float radius, uint32 colour) { add({1, x, y, radius, 0.0f, 0.0f, colour}); }
    SWEEP_FN void line(float x1, float y1, float x2, float y2, float thickness, uint32 colour) {
        add({2, x1, y1, x2, y2, thickness, colour});
    }
    SWEEP_FN void add(const Mark& mark) {
        if (count < room) marks[count++] = mark;
    }
};

// One field of State or Params: where it lies and what it is.
struct Field {
    const char* name;
    int offset, count;   // bytes from the start; elements (1: a scalar)
    char type;           // 'f' float, 'd' double, 'i' int32, 'u' uint32, 'b' int8, 'B' uint8, 'q' int64, 'Q' uint64, '?' bool
};

struct EnvironmentTable {
    int abi;                       // environment_abi at build time
    const char* name;
    int observation_size;          // numbers per observation
    int observation_bytes;         // 1: they are bytes, not floats
    Image image;                   // zeros: it is none
    int needs_memory;              // 1: what is seen does not say all there is to know
    int actions;                   // outputs of a policy: choices in all, or continuous actions
    int action_count;              // numbers per action
    const int* choices;            // [action_count]: of each discrete action; null where they are continuous
    const Bounds* action_bounds;   // [action_count]: of each continuous action; null where they are discrete
    int longest_episode;           // env steps after which an episode ends at the latest, with default params
    int state_size, params_size;   // bytes
    int state_fields, params_fields;
    const Field* state_field;
    const Field* params_field;
    const Bounds* params_bounds;   // [params_fields]
    const void* default_params;    // [params_size]
    const Input* inputs;           // [observation_size]
    Picture picture;               // zeros: it has none

    // Each works on n copies that lie side by side: states [n * state_size], rngs [n], and so on.
    void (*reset)(void* states, const void* params, Rng* rngs, int n);
    // actions [n, action_count]: int32, or floats within their bounds.
    void (*step)(void* states, const void* params, const void* actions, Rng* rngs, Outcome* outcomes, int n);
    // Row i of the observations starts at observations + i * stride (in numbers).
    void (*observe)(const void* states, const void* params, void* observations, int stride, int n);
    // 0 .. 1 of each episode, asked of its last state; null where the game has none.
    void (*metric)(const void* states, const void* params, float* metrics, int n);
    // One state; null where the game has no picture.
    void (*draw)(const void* state, const void* params, Canvas* canvas);
};

}  // namespace sweep
