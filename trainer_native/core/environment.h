// The table of C functions that an environment's header becomes, and through which the trainer plays it.
//
// A header is compiled alone, together with table.h, into a shared library that exports one function,
// `const EnvironmentTable* sweep_environment()`. The trainer is compiled once and only ever sees this table.
#pragma once

#include "rng.h"

namespace sweep {

constexpr int environment_abi = 1;

// One number of an observation: a flag passes to the network as it is, a quantity is standardised by its bounds.
struct Input {
    float low, high;
    bool is_flag;
};
SWEEP_FN constexpr Input flag() { return {0.0f, 1.0f, true}; }
SWEEP_FN constexpr Input quantity(float low, float high) { return {low, high, false}; }

// What one env step gave, beside the new state.
struct Outcome {
    float reward;      // in the game's own units
    bool terminated;   // the episode ended by the rules: nothing follows
    bool truncated;    // the episode was cut by a time limit: what follows is bootstrapped
};

// The legal values of one field of an environment's Params, both ends included.
struct Bounds {
    double low, high;
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
    int observation_size, actions; // floats per observation; discrete actions 0 .. actions - 1
    int longest_episode;           // env steps after which an episode ends at the latest, with default params
    int state_size, params_size;   // bytes
    int state_fields, params_fields;
    const Field* state_field;
    const Field* params_field;
    const Bounds* params_bounds;   // [params_fields]
    const void* default_params;    // [params_size]
    const Input* inputs;           // [observation_size]

    // Each works on n copies that lie side by side: states [n * state_size], rngs [n], and so on.
    void (*reset)(void* states, const void* params, Rng* rngs, int n);
    void (*step)(void* states, const void* params, const int* actions, Rng* rngs, Outcome* outcomes, int n);
    // Row i of the observations starts at observations + i * stride (in floats).
    void (*observe)(const void* states, const void* params, float* observations, int stride, int n);
};

}  // namespace sweep
