// Turns an environment's header into an EnvironmentTable.
//
// Included once, after the header and after the macros that name what C++ cannot list by itself:
//   SWEEP_GAME            the header's namespace
//   SWEEP_STATE_FIELDS    X(field) for each field of State, in order
//   SWEEP_PARAMS_FIELDS   X(field) for each field of Params, in order; not defined where there is none
//   SWEEP_HAS_IMAGE, SWEEP_HAS_NEEDS_MEMORY, SWEEP_HAS_METRIC, SWEEP_HAS_PICTURE   where the header has that optional part
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

// What kind of actions a header's `actions` are: a number of choices, several such numbers, or bounds of continuous ones.
template <class T> struct Actions {
    static_assert(sizeof(T) == 0, "actions are `constexpr int actions = 3;`, several at once `constexpr int actions[] = {3, 2};`, or "
                                  "continuous `constexpr sweep::Bounds actions[] = {{-2, 2}};`");
};
template <> struct Actions<const int> {
    using Type = int;
    static constexpr int count = 1;
    static constexpr int choices(const int& actions, int) { return actions; }
    static constexpr const Bounds* bounds(const int&) { return nullptr; }
    SWEEP_FN static int of(const int* actions, int copy) { return actions[copy]; }
};
template <decltype(sizeof(0)) n> struct Actions<const int[n]> {
    using Type = int;
    static constexpr int count = n;
    static constexpr int choices(const int (&actions)[n], int i) { return actions[i]; }
    static constexpr const Bounds* bounds(const int (&)[n]) { return nullptr; }
    SWEEP_FN static const int* of(const int* actions, int copy) { return actions + static_cast<int64>(copy) * count; }
};
template <decltype(sizeof(0)) n> struct Actions<const Bounds[n]> {
    using Type = float;
    static constexpr int count = n;
    static constexpr int choices(const Bounds (&)[n], int) { return 1; }
    static constexpr const Bounds* bounds(const Bounds (&actions)[n]) { return actions; }
    SWEEP_FN static const float* of(const float* actions, int copy) { return actions + static_cast<int64>(copy) * count; }
};

template <bool in_bytes> struct Pick { using Type = float; };
template <> struct Pick<true> { using Type = uint8; };

namespace table {

namespace game = SWEEP_GAME;
using State = game::State;
using Params = game::Params;

static_assert(__is_trivially_copyable(State), "State must be plain data (trivially copyable)");
static_assert(__is_trivially_copyable(Params), "Params must be plain data (trivially copyable)");
static_assert(game::observation_size > 0, "observation_size must be at least 1");
using Kind = Actions<decltype(game::actions)>;
constexpr const Bounds* action_bounds = Kind::bounds(game::actions);

struct Choices { int of[Kind::count]; };
constexpr Choices choices = [] {
    Choices all = {};
    for (int i = 0; i < Kind::count; i++) all.of[i] = Kind::choices(game::actions, i);
    return all;
}();
constexpr int outputs = [] {
    int sum = 0;
    for (int i = 0; i < Kind::count; i++) sum += choices.of[i];
    return sum;
}();
constexpr bool finite(const Bounds& b) { return -3e38 < b.low && b.low < b.high && b.high < 3e38; }
constexpr bool legal_actions(bool continuous) {
    for (int i = 0; i < Kind::count; i++) {
        if (continuous && action_bounds && !finite(action_bounds[i])) return false;
        if (!continuous && !action_bounds && choices.of[i] < 2) return false;
    }
    return true;
}
static_assert(legal_actions(false), "actions must be at least 2");
static_assert(legal_actions(true), "a continuous action has finite bounds {low, high}, the low one below the high one");
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
constexpr bool bounds_in_order = [] {
    for (int i = 0; i < game::observation_size; i++)
        if (!(inputs.input[i].low <= inputs.input[i].high)) return false;
    return true;
}();
static_assert(bounds_in_order, "the bounds of each input begin with the lowest value: quantity(low, high)");

inline void reset(void* states, const void* params, Rng* rngs, int n) {
    State* state = static_cast<State*>(states);
    const Params p = *static_cast<const Params*>(params);
    for (int i = 0; i < n; i++) game::reset(state[i], p, rngs[i]);
}

inline void step(void* states, const void* params, const void* actions, Rng* rngs, Outcome* outcomes, int n) {
    State* state = static_cast<State*>(states);
    const Params p = *static_cast<const Params*>(params);
    const Kind::Type* action = static_cast<const Kind::Type*>(actions);
    for (int i = 0; i < n; i++) outcomes[i] = game::step(state[i], p, Kind::of(action, i), rngs[i]);
}

template <class Number> concept Observed = requires(const State& state, const Params& params, Number* to) {
    game::observe(state, params, to);
};
constexpr bool in_bytes = Observed<uint8> && !Observed<float>;
constexpr bool bytes_fit = [] {
    for (int i = 0; i < game::observation_size; i++)
        if (inputs.input[i].low < 0.0f || inputs.input[i].high > 255.0f) return false;
    return true;
}();
static_assert(!in_bytes || bytes_fit, "an observation of bytes has inputs within 0 to 255; observe floats where they are not");

template <class Number> inline void observe_as(const void* states, const void* params, void* observations, int stride, int n) {
    const State* state = static_cast<const State*>(states);
    const Params p = *static_cast<const Params*>(params);
    Number* to = static_cast<Number*>(observations);
    for (int i = 0; i < n; i++) game::observe(state[i], p, to + static_cast<int64>(i) * stride);
}
using Number = Pick<in_bytes>::Type;

#ifdef SWEEP_HAS_IMAGE
constexpr Image image = game::image;
static_assert(image.height * image.width * image.channels == game::observation_size,
              "an image's height, width and channels multiply to observation_size");
#else
constexpr Image image = {};
#endif
#ifdef SWEEP_HAS_NEEDS_MEMORY
constexpr bool needs_memory = game::needs_memory;
#else
constexpr bool needs_memory = false;
#endif
#ifdef SWEEP_HAS_METRIC
inline void metric(const void* states, const void* params, float* metrics, int n) {
    const State* state = static_cast<const State*>(states);
    const Params p = *static_cast<const Params*>(params);
    for (int i = 0; i < n; i++) metrics[i] = game::metric(state[i], p);
}
#else
constexpr decltype(EnvironmentTable::metric) metric = nullptr;
#endif
#ifdef SWEEP_HAS_PICTURE
constexpr Picture picture = game::picture;
static_assert(picture.width > 0.0f && picture.height > 0.0f, "a picture has a width and a height above 0");
inline void draw(const void* state, const void* params, Canvas* canvas) {
    game::draw(*static_cast<const State*>(state), *static_cast<const Params*>(params), *canvas);
}
#else
constexpr Picture picture = {};
constexpr decltype(EnvironmentTable::draw) draw = nullptr;
#endif

#define SWEEP_TEXT_OF(x) #x
#define SWEEP_TEXT(x) SWEEP_TEXT_OF(x)

constexpr EnvironmentTable whole = {
    environment_abi,
    SWEEP_TEXT(SWEEP_GAME),
    game::observation_size,
    in_bytes,
    image,
    needs_memory,
    outputs,
    Kind::count,
    action_bounds ? nullptr : choices.of,
    action_bounds,
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
    picture,
    reset,
    step,
    observe_as<Number>,
    metric,
    draw,
};

}  // namespace table

}  // namespace sweep

extern "C" __attribute__((visibility("default"))) const sweep::EnvironmentTable* sweep_environment() {
    return &sweep::table::whole;
}
