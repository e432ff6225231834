// Turns an environment's header into an EnvironmentTable.
//
// Included once, after the header and after the macros that name what C++ cannot list by itself:
//   SWEEP_GAME            the header's namespace
//   SWEEP_STATE_FIELDS    X(field) for each field of State, in order
//   SWEEP_PARAMS_FIELDS   X(field) for each field of Params, in order; not defined where there is none
// trainer_native/environments.py writes those lines and compiles the result.
#pragma once

#include "environment.h"

namespace sweep {

template <class T> struct Element { using Type = T; static constexpr int count = 1; };
template <class T, decltype(sizeof(0)) n> struct Element<T[n]> {
    using Type = typename Element<T>::Type;
    static constexpr int count = static_cast<int>(n) * Element<T>::count;
};

template <class T> constexpr char type_letter = 0;
template <> constexpr char type_letter<float> = 'f';
template <> constexpr char type_letter<double> = 'd';
template <> constexpr char type_letter<bool> = '?';
template <> constexpr char type_letter<char> = 'b';
template <> constexpr char type_letter<signed char> = 'b';
template <> constexpr char type_letter<unsigned char> = 'B';
template <> constexpr char type_letter<int> = 'i';
template <> constexpr char type_letter<unsigned int> = 'u';
template <> constexpr char type_letter<long> = sizeof(long) == 8 ? 'q' : 'i';
template <> constexpr char type_letter<unsigned long> = sizeof(long) == 8 ? 'Q' : 'u';
template <> constexpr char type_letter<long long> = 'q';
template <> constexpr char type_letter<unsigned long long> = 'Q';

template <class T> constexpr Field field(const char* name, decltype(sizeof(0)) offset) {
    constexpr char letter = type_letter<typename Element<T>::Type>;
    static_assert(letter != 0, "a field of State or Params is a number (float, double, bool, or an integer of 8, 32 or "
                               "64 bits) or an array of numbers");
    return {name, static_cast<int>(offset), Element<T>::count, letter};
}

template <class T, int n> constexpr int length(const T (&)[n]) { return n; }

template <int n> struct Inputs { Input input[n]; };

namespace table {

namespace game = SWEEP_GAME;
using State = game::State;
using Params = game::Params;

static_assert(__is_trivially_copyable(State), "State must be plain data (trivially copyable)");
static_assert(__is_trivially_copyable(Params), "Params must be plain data (trivially copyable)");
static_assert(game::observation_size > 0, "observation_size must be at least 1");
static_assert(game::actions > 1, "actions must be at least 2");
static_assert(game::longest_episode > 0, "longest_episode must be at least 1 env step");

#define X(name) field<decltype(State::name)>(#name, __builtin_offsetof(State, name)),
constexpr Field state_fields[] = {SWEEP_STATE_FIELDS};
#undef X
#ifdef SWEEP_PARAMS_FIELDS
#define X(name) field<decltype(Params::name)>(#name, __builtin_offsetof(Params, name)),
constexpr Field params_fields[] = {SWEEP_PARAMS_FIELDS};
#undef X
static_assert(length(game::bounds) == length(params_fields),
              "bounds must list one {low, high} for each field of Params, in order");
#endif

constexpr Params default_params = {};
constexpr Inputs<game::observation_size> inputs = [] {
    Inputs<game::observation_size> all = {};
    for (int i = 0; i < game::observation_size; i++) all.input[i] = game::input(i);
    return all;
}();

inline void reset(void* states, const void* params, Rng* rngs, int n) {
    State* state = static_cast<State*>(states);
    const Params p = *static_cast<const Params*>(params);
    for (int i = 0; i < n; i++) game::reset(state[i], p, rngs[i]);
}

inline void step(void* states, const void* params, const int* actions, Rng* rngs, Outcome* outcomes, int n) {
    State* state = static_cast<State*>(states);
    const Params p = *static_cast<const Params*>(params);
    for (int i = 0; i < n; i++) outcomes[i] = game::step(state[i], p, actions[i], rngs[i]);
}

inline void observe(const void* states, const void* params, float* observations, int stride, int n) {
    const State* state = static_cast<const State*>(states);
    const Params p = *static_cast<const Params*>(params);
    for (int i = 0; i < n; i++) game::observe(state[i], p, observations + static_cast<int64>(i) * stride);
}

#define SWEEP_TEXT_OF(x) #x
#define SWEEP_TEXT(x) SWEEP_TEXT_OF(x)

constexpr EnvironmentTable whole = {
    environment_abi,
    SWEEP_TEXT(SWEEP_GAME),
    game::observation_size,
    game::actions,
    game::longest_episode,
    sizeof(State),
    sizeof(Params),
    length(state_fields),
#ifdef SWEEP_PARAMS_FIELDS
    length(params_fields),
    state_fields,
    params_fields,
    game::bounds,
#else
    0,
    state_fields,
    nullptr,
    nullptr,
#endif
    &default_params,
    inputs.input,
    reset,
    step,
    observe,
};

}  // namespace table

}  // namespace sweep

extern "C" __attribute__((visibility("default"))) const sweep::EnvironmentTable* sweep_environment() {
    return &sweep::table::whole;
}
