// A game under watch: its copies and calls, memory between guards, calls that do not return, and lines of JSON.
//
// For fuzz.cpp alone, as are the other headers of that name.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "environment.h"

// Of the address sanitizer's run time; null where this program is linked without it.
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(void const volatile*, size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(void const volatile*, size_t);
__attribute__((weak)) void __sanitizer_print_stack_trace();
}

namespace {

using namespace sweep;

// -- what is written to stdout -----------------------------------------------------------------------------------

int report = 1;

void say(const char* format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    line[n] = '\n';
    if (write(report, line, n + 1) != n + 1) _exit(4);
}

// A number as Python's json reads it.
std::string number(double x) {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
    char text[40];
    snprintf(text, sizeof(text), "%.9g", x);
    return text;
}

// -- a watch on calls that do not return -------------------------------------------------------------------------

const char* volatile calling = "nothing";   // the function of the header that is being called
volatile long calls = 0;
long calls_before = -1;
int hung_seconds = 0, hang_limit = 10;      // CPU seconds

void tick(int) {
    if (calls != calls_before) {
        calls_before = calls;
        hung_seconds = 0;
    } else if (++hung_seconds >= hang_limit) {
        say("{\"fault\": \"hang\", \"who\": \"%s\", \"seconds\": %d}", calling, hung_seconds);
        if (__sanitizer_print_stack_trace) __sanitizer_print_stack_trace();
        _exit(3);
    }
}

void watch() {
    signal(SIGPROF, tick);
    const itimerval second = {{1, 0}, {1, 0}};
    setitimer(ITIMER_PROF, &second, nullptr);
}

void enter(const char* who) {
    calling = who;
    calls = calls + 1;
}

// Ends the process where a call first makes what is not a number (SWEEP_TRAP=nan) or infinite: its place is then reported.
int trapped = 0;

struct Trap {
#ifdef __GLIBC__
    Trap() { if (trapped) { feclearexcept(FE_ALL_EXCEPT); feenableexcept(trapped); } }
    ~Trap() { if (trapped) fedisableexcept(trapped); }
#else
    ~Trap() {}
#endif
};

// -- memory between guards ---------------------------------------------------------------------------------------

constexpr int guard = 1024;                     // bytes before and behind
constexpr unsigned char guard_byte = 0xD5;
constexpr uint64 guard_word = 0xD5D5D5D5D5D5D5D5ull;

struct Guarded {
    unsigned char* whole = nullptr;
    size_t size = 0, room = 0;

    explicit Guarded(size_t bytes) : size(bytes), room((bytes + 2 * guard + 63) / 64 * 64) {
        whole = static_cast<unsigned char*>(aligned_alloc(64, room));
        memset(whole, guard_byte, room);
        fence();
    }
    ~Guarded() {
        if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(whole, room);
        free(whole);
    }
    Guarded(const Guarded&) = delete;
    unsigned char* data() const { return whole + guard; }
    void fence() const {
        if (!__asan_poison_memory_region) return;
        __asan_poison_memory_region(whole, guard);
        __asan_poison_memory_region(data() + size, room - guard - size);
    }
    // Whether both guards are whole; else the first and last byte written, counted from the start of the data.
    bool intact(long* first, long* last) const {
        const size_t words = (guard + size + 7) / 8;   // up to the first whole word behind
        bool all = true;
        for (size_t i = 0; i < guard / 8; i++) all = all && word(i) == guard_word;
        for (size_t i = words; i < room / 8; i++) all = all && word(i) == guard_word;
        for (size_t i = guard + size; i < words * 8; i++) all = all && whole[i] == guard_byte;
        if (all) return true;
        bool found = false;
        for (long i = -guard; i < static_cast<long>(room) - guard; i++) {
            if ((i >= 0 && i < static_cast<long>(size)) || whole[guard + i] == guard_byte) continue;
            if (!found) *first = i;
            *last = i;
            found = true;
        }
        return false;
    }
    void mend() const {
        if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(whole, room);
        memset(whole, guard_byte, guard);
        memset(data() + size, guard_byte, room - guard - size);
        fence();
    }

private:
    uint64 word(size_t i) const {
        uint64 w;
        __builtin_memcpy(&w, whole + 8 * i, 8);
        return w;
    }
};

// -- the game ------------------------------------------------------------------------------------------------------

const EnvironmentTable* game;
int observation_bytes_each = 4;

int bytes_of(char type) { return type == 'd' || type == 'q' || type == 'Q' ? 8 : type == 'b' || type == 'B' || type == '?' ? 1 : 4; }

struct Params {
    std::vector<unsigned char> bytes;
    std::string text;   // as JSON: what differs from the defaults
};

Params default_params() {
    const auto* at = static_cast<const unsigned char*>(game->default_params);
    return {{at, at + game->params_size}, "{}"};
}

double uniform(Rng& rng) { return (rng.next() + 0.5) * 0x1p-32; }

void put(unsigned char* at, char type, double x) {
    auto as = [&](auto value) { memcpy(at, &value, sizeof(value)); };
    switch (type) {
        case 'f': as(static_cast<float>(x)); break;
        case 'd': as(x); break;
        case 'i': as(static_cast<int>(x)); break;
        case 'u': as(static_cast<unsigned>(x)); break;
        case 'b': as(static_cast<signed char>(x)); break;
        case 'B': as(static_cast<unsigned char>(x)); break;
        case 'q': as(static_cast<long long>(x)); break;
        case 'Q': as(static_cast<unsigned long long>(x)); break;
        default: as(x != 0.0); break;
    }
}

double get(const unsigned char* at, char type) {
    auto as = [&](auto value) { memcpy(&value, at, sizeof(value)); return static_cast<double>(value); };
    switch (type) {
        case 'f': return as(0.0f);
        case 'd': return as(0.0);
        case 'i': return as(0);
        case 'u': return as(0u);
        case 'b': return as(static_cast<signed char>(0));
        case 'q': return as(0ll);
        case 'Q': return as(0ull);
        default: return as(static_cast<unsigned char>(0));
    }
}

// Legal params: all at their lowest (kind 0), all at their highest (1), else each drawn by itself.
Params some_params(int kind, Rng& rng) {
    Params p = default_params();
    p.text = "{";
    for (int i = 0; i < game->params_fields; i++) {
        const Field& f = game->params_field[i];
        const Bounds bounds = game->params_bounds[i];
        double x = kind == 0 ? bounds.low : kind == 1 ? bounds.high : bounds.low + uniform(rng) * (bounds.high - bounds.low);
        if (f.type != 'f' && f.type != 'd') x = std::min(bounds.high, std::floor(kind < 2 ? x : x + uniform(rng)));
        put(p.bytes.data() + f.offset, f.type, x);
        p.text += std::string(i ? ", \"" : "\"") + f.name + "\": " + number(get(p.bytes.data() + f.offset, f.type));
    }
    p.text += "}";
    return p;
}

// Numbers of one action: any choice; anything within the bounds, often a bound itself.
void some_action(unsigned char* to, Rng& rng) {
    for (int k = 0; k < game->action_count; k++) {
        if (game->choices) {
            const int drawn = rng.below(game->choices[k]);
            memcpy(to + 4 * k, &drawn, 4);
        } else {
            const Bounds b = game->action_bounds[k];
            const double x = uniform(rng), edge = uniform(rng);
            const float drawn = static_cast<float>(edge < 0.05 ? b.low : edge > 0.95 ? b.high : b.low + x * (b.high - b.low));
            memcpy(to + 4 * k, &drawn, 4);
        }
    }
}

constexpr int manners = 4;   // how actions are drawn: 0 and 1 each for itself, 2 repeated for some steps, 3 one per episode

struct Copy {
    Guarded state, seen, action;
    Rng rng, choice;
    int manner;
    bool ended = true;
    long steps = 0;      // of the episode
    double total = 0.0;  // of its rewards

    Copy(uint64 seed, int number)
        : state(game->state_size), seen(size_t(game->observation_size) * observation_bytes_each), action(4 * game->action_count),
          rng(stream(seed, 2 * number)), choice(stream(seed, 2 * number + 1)), manner(number % manners) {
        memset(state.data(), 0, state.size);
        memset(seen.data(), 0, seen.size);
        memset(action.data(), 0, action.size);
    }
    double observation(int i) const {
        if (game->observation_bytes) return seen.data()[i];
        float x;
        memcpy(&x, seen.data() + size_t(i) * 4, 4);
        return x;
    }
    void draw_action() {
        const double again = uniform(choice);
        if (steps > 0 && (manner == 3 || (manner == 2 && again < 0.9))) return;
        some_action(action.data(), choice);
    }
};

void call_reset(Copy& c, const Params& p) {
    enter("reset");
    const Trap trap;
    game->reset(c.state.data(), p.bytes.data(), &c.rng, 1);
    c.ended = false;
    c.steps = 0;
    c.total = 0.0;
}

Outcome call_step(Copy& c, const Params& p) {
    Outcome outcome = {};
    enter("step");
    const Trap trap;
    game->step(c.state.data(), p.bytes.data(), c.action.data(), &c.rng, &outcome, 1);
    c.steps++;
    c.total += outcome.reward;
    c.ended = outcome.terminated || outcome.truncated;
    return outcome;
}

void call_observe(Copy& c, const Params& p) {
    enter("observe");
    const Trap trap;
    game->observe(c.state.data(), p.bytes.data(), c.seen.data(), game->observation_size, 1);
}

}  // namespace
