// Plays a compiled environment with random actions; writes what it does wrong and what a policy would see.
//
// A program of its own, best linked with the sanitizers that the environment's library is built with:
//   fuzz LIBRARY PART env_steps copies seed hang_seconds
// It is compiled without them: the environment is watched, not this program.
// Each copy's State and each observation lies between guards of its own, so that a write beyond either is seen here and,
// under an address sanitizer, with the line that does it. One JSON object per line goes to stdout as soon as it is known,
// since the environment may end the process. trainer_native/fuzz.py builds this, runs its parts and reads the lines.
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

// -- faults, each told when it is first met ----------------------------------------------------------------------

std::set<std::string> told;

bool first_time(const std::string& fault, const std::string& what) { return told.insert(fault + " " + what).second; }

// Where in the play: part of each fault's line.
std::string place(const Copy& c, const Params& p) {
    return "\"step\": " + std::to_string(c.steps) + ", \"params\": " + p.text;
}

void check_guards(Copy& c, const Params& p, const char* who) {
    const struct { const Guarded& memory; const char* what; int unit; } parts[] = {
        {c.state, "State", 1}, {c.seen, "observation", observation_bytes_each}, {c.action, "action", 4}};
    for (const auto& part : parts) {
        long first = 0, last = 0;
        if (part.memory.intact(&first, &last)) continue;
        part.memory.mend();
        if (first_time(who, part.what))
            say("{\"fault\": \"outside\", \"who\": \"%s\", \"what\": \"%s\", \"first\": %ld, \"last\": %ld, %s}", who, part.what,
                long(std::floor(double(first) / part.unit)), long(std::floor(double(last) / part.unit)), place(c, p).c_str());
    }
}

void check_state(const Copy& c, const Params& p, const char* who) {
    for (int i = 0; i < game->state_fields; i++) {
        const Field& f = game->state_field[i];
        if (f.type != 'f' && f.type != 'd') continue;
        for (int k = 0; k < f.count; k++) {
            const double x = get(c.state.data() + f.offset + k * bytes_of(f.type), f.type);
            if (!std::isfinite(x) && first_time("state", f.name))
                say("{\"fault\": \"state\", \"who\": \"%s\", \"what\": \"%s\", \"index\": %d, \"value\": %s, %s}", who, f.name,
                    f.count > 1 ? k : -1, number(x).c_str(), place(c, p).c_str());
        }
    }
}

// Observes twice over different bytes: a number that keeps them was not written, one that differs depends on them.
void check_observe(Copy& c, const Params& p) {
    static std::vector<unsigned char> before;
    memset(c.seen.data(), 0x5A, c.seen.size);
    call_observe(c, p);
    before.assign(c.seen.data(), c.seen.data() + c.seen.size);
    memset(c.seen.data(), 0xA5, c.seen.size);
    call_observe(c, p);
    check_guards(c, p, "observe");
    bool good = memcmp(before.data(), c.seen.data(), before.size()) == 0;
    for (int i = 0; i < game->observation_size; i++) {
        const double x = c.observation(i);
        good &= x - x == 0.0 && (!game->inputs[i].is_flag || x == 0.0 || x == 1.0);
    }
    if (good) return;
    const int each = observation_bytes_each;
    for (int i = 0; i < game->observation_size; i++) {
        const unsigned char *one = before.data() + size_t(i) * each, *two = c.seen.data() + size_t(i) * each;
        const double x = c.observation(i);
        if (memcmp(one, two, each) != 0) {
            bool kept = true;
            for (int k = 0; k < each; k++) kept = kept && one[k] == 0x5A && two[k] == 0xA5;
            if (first_time(kept ? "unwritten" : "reads", std::to_string(i)))
                say("{\"fault\": \"%s\", \"index\": %d, %s}", kept ? "unwritten" : "reads", i, place(c, p).c_str());
            memset(c.seen.data() + size_t(i) * each, 0, each);
        } else if (!std::isfinite(x)) {
            if (first_time("observation", std::to_string(i)))
                say("{\"fault\": \"observation\", \"index\": %d, \"value\": %s, %s}", i, number(x).c_str(), place(c, p).c_str());
        } else if (game->inputs[i].is_flag && x != 0.0 && x != 1.0 && first_time("flag", std::to_string(i))) {
            say("{\"fault\": \"flag\", \"index\": %d, \"value\": %s, %s}", i, number(x).c_str(), place(c, p).c_str());
        }
    }
}

void check_outcome(const Copy& c, const Params& p, const Outcome& outcome) {
    if (!std::isfinite(outcome.reward) && first_time("reward", ""))
        say("{\"fault\": \"reward\", \"value\": %s, %s}", number(outcome.reward).c_str(), place(c, p).c_str());
    if (outcome.terminated && outcome.truncated && first_time("both", ""))
        say("{\"fault\": \"both\", %s}", place(c, p).c_str());
}

// Of the episode that has just ended; NaN where the game has none.
double check_metric(const Copy& c, const Params& p) {
    if (!game->metric) return NAN;
    float x = NAN;
    enter("metric");
    game->metric(c.state.data(), p.bytes.data(), &x, 1);
    if (!(x >= 0.0f && x <= 1.0f) && first_time("metric", ""))
        say("{\"fault\": \"metric\", \"value\": %s, %s}", number(x).c_str(), place(c, p).c_str());
    return x;
}

// Marks that cannot be drawn; a picture is looked at now and then.
void check_picture(const Copy& c, const Params& p) {
    if (!game->draw || c.steps % 64 != 0) return;
    static std::vector<Mark> marks(4096);
    Canvas canvas = {marks.data(), 0, static_cast<int>(marks.size())};
    enter("draw");
    game->draw(c.state.data(), p.bytes.data(), &canvas);
    for (int i = 0; i < canvas.count; i++) {
        const Mark& m = marks[i];
        const bool whole = std::isfinite(m.x) && std::isfinite(m.y) && std::isfinite(m.w) && std::isfinite(m.h) && std::isfinite(m.thickness);
        if (!whole && first_time("mark", ""))
            say("{\"fault\": \"mark\", \"index\": %d, %s}", i, place(c, p).c_str());
    }
}

void begin(Copy& c, const Params& p) {
    call_reset(c, p);
    check_guards(c, p, "reset");
    check_state(c, p, "reset");
    check_observe(c, p);
    check_picture(c, p);
}

Outcome act(Copy& c, const Params& p) {
    c.draw_action();
    const Outcome outcome = call_step(c, p);
    check_guards(c, p, "step");
    check_state(c, p, "step");
    check_outcome(c, p, outcome);
    check_observe(c, p);
    check_picture(c, p);
    return outcome;
}

// -- what a policy would see ---------------------------------------------------------------------------------------

struct Seen {
    Input input = {};
    double slack = 0.0;   // a bound that is a rounded decimal is met to within a rounding
    double low = HUGE_VAL, high = -HUGE_VAL, sum = 0.0, squares = 0.0, first = 0.0, farthest = 0.0;
    long count = 0, counted = 0, outside = 0;

    explicit Seen(const Input& of) : input(of), slack(1e-5 * std::max(1e-6, double(of.high) - of.low)) {}
    // The range is that of all that is seen, the mean that of what `counts`.
    void add(double x, bool counts) {
        if (!(x - x == 0.0)) return;
        if (count == 0) first = x;
        low = x < low ? x : low;
        high = x > high ? x : high;
        count++;
        if (counts) {
            const double shifted = x - first;   // a constant has no deviation, whatever its size
            sum += shifted;
            squares += shifted * shifted;
            counted++;
        }
        const double beyond = std::max(input.low - x, x - input.high);
        if (beyond <= slack || input.is_open || beyond <= slack + 1e-6 * std::abs(x)) return;
        outside++;
        farthest = std::max(farthest, beyond);
    }
    void tell(int i) const {
        const double mean = counted ? sum / counted : NAN, spread = counted ? std::sqrt(std::max(0.0, squares / counted - mean * mean)) : NAN;
        say("{\"input\": %d, \"flag\": %s, \"open\": %s, \"low\": %s, \"high\": %s, \"lowest\": %s, \"highest\": %s, \"mean\": %s, "
            "\"deviation\": %s, \"constant\": %s, \"count\": %ld, \"outside\": %ld, \"farthest\": %s}",
            i, input.is_flag ? "true" : "false", input.is_open ? "true" : "false", number(input.low).c_str(), number(input.high).c_str(),
            number(low).c_str(), number(high).c_str(), number(first + mean).c_str(), number(spread).c_str(), low < high ? "false" : "true",
            count, outside, number(farthest).c_str());
    }
};

std::vector<Seen> nothing_seen() {
    std::vector<Seen> all;
    for (int i = 0; i < game->observation_size; i++) all.emplace_back(game->inputs[i]);
    return all;
}

struct Episodes {
    std::vector<long> lengths;
    long steps = 0, rewarded = 0, terminated = 0, truncated = 0, metrics = 0;
    double total = 0.0, lowest = HUGE_VAL, highest = -HUGE_VAL, metric = 0.0;

    void tell() {
        std::sort(lengths.begin(), lengths.end());
        const size_t n = lengths.size();
        const std::string sizes = n == 0 ? "\"shortest\": null, \"median_length\": null, \"longest\": null"
                                         : "\"shortest\": " + std::to_string(lengths[0]) + ", \"median_length\": " +
                                               std::to_string(lengths[n / 2]) + ", \"longest\": " + std::to_string(lengths[n - 1]);
        say("{\"episodes\": %zu, \"env_steps\": %ld, \"rewarded\": %ld, \"terminated\": %ld, \"truncated\": %ld, %s, "
            "\"mean_return\": %s, \"lowest_return\": %s, \"highest_return\": %s, \"mean_metric\": %s}",
            n, steps, rewarded, terminated, truncated, sizes.c_str(), number(n ? total / n : NAN).c_str(),
            number(n ? lowest : NAN).c_str(), number(n ? highest : NAN).c_str(), number(metrics ? metric / metrics : NAN).c_str());
    }
};

// Default params. Ranges are those of all copies, the rest that of copies whose actions are drawn each for itself.
void play(long env_steps, int copies, uint64 seed) {
    const Params p = default_params();
    std::vector<Seen> seen = nothing_seen();
    Episodes episodes;
    for (int number = 0; number < copies; number++) {
        Copy c(seed, number);
        const bool counts = c.manner < 2;
        auto look = [&] {
            for (int i = 0; i < game->observation_size; i++) seen[i].add(c.observation(i), counts);
        };
        const long due = env_steps * (number + 1) / copies - env_steps * number / copies;
        for (long step = 0; step < due; step++) {
            if (c.ended) {
                begin(c, p);
                look();
            }
            const Outcome outcome = act(c, p);
            if (!outcome.terminated) look();   // nobody acts on what is seen after the end
            if (counts) {
                episodes.steps++;
                episodes.rewarded += outcome.reward != 0.0f;
            }
            if (c.steps > game->longest_episode || (c.steps == game->longest_episode && !c.ended)) {
                if (first_time("endless", ""))
                    say("{\"fault\": \"endless\", \"longest\": %d, %s}", game->longest_episode, place(c, p).c_str());
                c.ended = true;
                continue;   // not an episode that ended
            }
            if (!c.ended) continue;
            const double metric = check_metric(c, p);
            if (!counts) continue;
            if (std::isfinite(metric)) {
                episodes.metric += metric;
                episodes.metrics++;
            }
            episodes.lengths.push_back(c.steps);
            (outcome.terminated ? episodes.terminated : episodes.truncated)++;
            episodes.total += c.total;
            episodes.lowest = std::min(episodes.lowest, c.total);
            episodes.highest = std::max(episodes.highest, c.total);
        }
    }
    for (int i = 0; i < game->observation_size; i++) seen[i].tell(i);
    episodes.tell();
}

// Legal params, drawn anew for each copy.
void play_params(long env_steps, int copies, uint64 seed) {
    Rng rng = stream(seed, 1ull << 40);
    std::vector<Seen> seen = nothing_seen();
    for (int number = 0; number < copies; number++) {
        const Params p = some_params(number, rng);
        Copy c(seed, number);
        for (long step = 0; step < env_steps / copies; step++) {
            if (c.ended) begin(c, p);
            const Outcome outcome = act(c, p);
            if (c.ended) check_metric(c, p);
            if (outcome.terminated) continue;
            for (int i = 0; i < game->observation_size; i++) seen[i].add(c.observation(i), true);
        }
    }
    for (int i = 0; i < game->observation_size; i++) seen[i].tell(i);
}

// A few env steps after the end of each episode: nobody should take them, and a vectorised player may.
void play_on(long env_steps, int copies, uint64 seed) {
    const Params p = default_params();
    for (int number = 0; number < copies; number++) {
        Copy c(seed, number);
        for (long step = 0; step < env_steps / copies; step++) {
            if (c.ended) call_reset(c, p);
            c.draw_action();
            call_step(c, p);
            if (c.steps >= game->longest_episode) c.ended = true;
            if (!c.ended) continue;
            for (int more = 0; more < 3; more++) act(c, p);
            c.ended = true;
        }
    }
}

// -- a function of its seed ----------------------------------------------------------------------------------------

// What a copy was and gave at one env step; fields only, since padding is nobody's.
struct Moment {
    std::vector<double> outcome;            // reward, terminated, truncated
    std::vector<unsigned char> observation;
    std::vector<unsigned char> state;
};

Moment moment(const Copy& c, const Outcome& o) {
    Moment m;
    m.outcome = {o.reward, double(o.terminated), double(o.truncated)};
    m.observation.assign(c.seen.data(), c.seen.data() + c.seen.size);
    for (int i = 0; i < game->state_fields; i++) {
        const Field& f = game->state_field[i];
        const unsigned char* at = c.state.data() + f.offset;
        m.state.insert(m.state.end(), at, at + f.count * bytes_of(f.type));
    }
    return m;
}

using Trace = std::vector<std::vector<Moment>>;   // [copy][env step], the first after the reset

struct Player {
    std::vector<Copy*> copies;
    Params params = default_params();
    Trace trace;

    Player(int n, uint64 seed, unsigned char fill) : trace(n) {
        for (int i = 0; i < n; i++) {
            copies.push_back(new Copy(seed, i));
            memset(copies[i]->state.data(), fill, copies[i]->state.size);
        }
    }
    ~Player() {
        for (Copy* c : copies) delete c;
    }
    void one(int i) {
        Copy& c = *copies[i];
        Outcome outcome = {};
        if (c.ended) {
            call_reset(c, params);
        } else {
            c.draw_action();
            outcome = call_step(c, params);
        }
        call_observe(c, params);
        trace[i].push_back(moment(c, outcome));
        if (c.steps >= game->longest_episode) c.ended = true;
    }
};

// As Player::one on all copies at once, by one call of each function: copies lie side by side, as in training.
void together(Player& player, int n) {
    const int size = game->state_size, row = game->observation_size * observation_bytes_each;
    Guarded states(size_t(size) * n), seen(size_t(row) * n);
    static std::vector<Outcome> outcomes;
    static std::vector<unsigned char> actions;
    const int action_bytes = 4 * game->action_count;
    static std::vector<Rng> rngs;
    std::vector<bool> fresh(n);
    outcomes.assign(n, Outcome{});
    actions.assign(size_t(n) * action_bytes, 0);
    rngs.clear();
    for (int i = 0; i < n; i++) {
        Copy& c = *player.copies[i];
        fresh[i] = c.ended;
        if (c.ended) call_reset(c, player.params);
        else c.draw_action();
        memcpy(states.data() + size_t(i) * size, c.state.data(), size);
        memcpy(actions.data() + size_t(i) * action_bytes, c.action.data(), action_bytes);
        rngs.push_back(c.rng);
    }
    std::vector<unsigned char> begun(states.data(), states.data() + states.size);
    const std::vector<Rng> rngs_begun = rngs;
    enter("step");
    game->step(states.data(), player.params.bytes.data(), actions.data(), rngs.data(), outcomes.data(), n);
    for (int i = 0; i < n; i++) {
        if (!fresh[i]) continue;   // one that has just begun takes no step: as in Player::one
        memcpy(states.data() + size_t(i) * size, begun.data() + size_t(i) * size, size);
        rngs[i] = rngs_begun[i];
        outcomes[i] = {};
    }
    enter("observe");
    game->observe(states.data(), player.params.bytes.data(), seen.data(), game->observation_size, n);
    for (int i = 0; i < n; i++) {
        Copy& c = *player.copies[i];
        memcpy(c.state.data(), states.data() + size_t(i) * size, size);
        memcpy(c.seen.data(), seen.data() + size_t(i) * row, row);
        c.rng = rngs[i];
        if (!fresh[i]) {
            c.steps++;
            c.ended = outcomes[i].terminated || outcomes[i].truncated || c.steps >= game->longest_episode;
        }
        player.trace[i].push_back(moment(c, outcomes[i]));
    }
}

// The first thing in which two traces part, told as `fault`. What was seen counts before what only the State holds.
bool parts(const Trace& a, const Trace& b, const char* fault) {
    for (const bool of_state : {false, true}) {
        for (size_t i = 0; i < a.size(); i++) {
            for (size_t k = 0; k < std::min(a[i].size(), b[i].size()); k++) {
                const Moment &x = a[i][k], &y = b[i][k];
                std::string what;
                if (!of_state) {
                    const char* names[] = {"the reward", "terminated", "truncated"};
                    for (int j = 0; j < 3; j++)
                        if (memcmp(&x.outcome[j], &y.outcome[j], sizeof(double)) != 0 && what.empty()) what = names[j];
                    const int each = observation_bytes_each;
                    for (int j = 0; j < game->observation_size && what.empty(); j++)
                        if (memcmp(x.observation.data() + j * each, y.observation.data() + j * each, each) != 0)
                            what = "observation[" + std::to_string(j) + "]";
                } else {
                    size_t at = 0;
                    for (int j = 0; j < game->state_fields && what.empty(); j++) {
                        const Field& f = game->state_field[j];
                        const size_t bytes = size_t(f.count) * bytes_of(f.type);
                        if (memcmp(x.state.data() + at, y.state.data() + at, bytes) != 0) what = std::string("State.") + f.name;
                        at += bytes;
                    }
                }
                if (what.empty()) continue;
                say("{\"fault\": \"%s\", \"what\": \"%s\", \"seen\": %s, \"copy\": %zu, \"step\": %zu}", fault, what.c_str(),
                    of_state ? "false" : "true", i, k);
                return true;
            }
        }
    }
    return false;
}

uint64 hash(const Trace& trace) {
    uint64 h = 0;
    auto bytes = [&](const void* from, size_t n) {
        for (size_t i = 0; i < n; i++) h = mix(h + 0x9E3779B97F4A7C15ull + static_cast<const unsigned char*>(from)[i]);
    };
    for (const auto& copy : trace)
        for (const Moment& m : copy) {
            bytes(m.outcome.data(), m.outcome.size() * sizeof(double));
            bytes(m.observation.data(), m.observation.size());
            bytes(m.state.data(), m.state.size());
        }
    return h;
}

// The same seed again; the copies one after another, last first; and all in one call.
void repeat(long env_steps, int copies, uint64 seed) {
    const long each = env_steps / copies;
    auto in_turn = [&](Player& player) {
        for (long k = 0; k < each; k++)
            for (int i = 0; i < copies; i++) player.one(i);
    };
    Player first(copies, seed, 0);
    in_turn(first);
    say("{\"trace\": \"%016llx\"}", hash(first.trace));
    Player again(copies, seed, 0);
    in_turn(again);
    if (parts(first.trace, again.trace, "again")) return;
    Player alone(copies, seed, 0);
    for (int i = copies - 1; i >= 0; i--)
        for (long k = 0; k < each; k++) alone.one(i);
    if (parts(first.trace, alone.trace, "order")) return;
    Player all(copies, seed, 0);
    for (long k = 0; k < each; k++) together(all, copies);
    parts(first.trace, all.trace, "order");
}

// The same seed over memory that held something else: what `reset` leaves unset is seen.
void fills(long env_steps, int copies, uint64 seed) {
    const long each = env_steps / copies;
    Player zeros(copies, seed, 0), others(copies, seed, 0x53);   // odd, and no multiple of 3, 5 or 7
    for (int i = 0; i < copies; i++) {
        zeros.one(i);
        others.one(i);
    }
    for (int i = 0, at = 0; i < game->state_fields; i++) {
        const Field& f = game->state_field[i];
        const int bytes = f.count * bytes_of(f.type);
        if (memcmp(zeros.trace[0][0].state.data() + at, others.trace[0][0].state.data() + at, bytes) != 0)
            say("{\"unset\": \"%s\"}", f.name);
        at += bytes;
    }
    for (long k = 1; k < each; k++)
        for (int i = 0; i < copies; i++) {
            zeros.one(i);
            others.one(i);
        }
    // What State holds may differ, and is told above; what is seen may not.
    size_t size = zeros.trace[0][0].state.size();
    for (auto* trace : {&zeros.trace, &others.trace})
        for (auto& copy : *trace)
            for (Moment& m : copy) m.state.assign(size, 0);
    parts(zeros.trace, others.trace, "fill");
}

// -- how fast it is --------------------------------------------------------------------------------------------------

double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

// Env steps per CPU second as in training: copies side by side, each step observed, ended ones reset.
void speed(double seconds, int n, uint64 seed) {
    const Params p = default_params();
    const int size = game->state_size;
    std::vector<unsigned char> states(size_t(size) * n), seen(size_t(game->observation_size) * observation_bytes_each * n);
    std::vector<Outcome> outcomes(n);
    std::vector<Rng> rngs;
    for (int i = 0; i < n; i++) rngs.push_back(stream(seed, i));
    constexpr int rows = 64;
    const size_t action_bytes = 4 * size_t(game->action_count);
    std::vector<unsigned char> actions(rows * n * action_bytes);
    Rng choice = stream(seed, 1ull << 41);
    for (int i = 0; i < rows * n; i++) some_action(actions.data() + i * action_bytes, choice);
    game->reset(states.data(), p.bytes.data(), rngs.data(), n);
    long env_steps = 0;
    const double start = cpu_seconds();
    double used = 0.0;
    while (used < seconds) {
        for (int row = 0; row < rows; row++, env_steps += n) {
            enter("step");
            game->step(states.data(), p.bytes.data(), actions.data() + row * n * action_bytes, rngs.data(), outcomes.data(), n);
            for (int i = 0; i < n; i++)
                if (outcomes[i].terminated || outcomes[i].truncated)
                    game->reset(states.data() + size_t(i) * size, p.bytes.data(), &rngs[i], 1);
            game->observe(states.data(), p.bytes.data(), seen.data(), game->observation_size, n);
        }
        used = cpu_seconds() - start;
    }
    say("{\"env_steps_per_second\": %s, \"copies\": %d}", number(env_steps / used).c_str(), n);
}

void describe() {
    say("{\"abi\": %d, \"observation_size\": %d, \"bytes\": %s, \"image\": [%d, %d, %d], \"actions\": %d, \"action_count\": %d, "
        "\"continuous\": %s, \"longest_episode\": %d, \"state_bytes\": %d, \"params\": %d}",
        game->abi, game->observation_size, game->observation_bytes ? "true" : "false", game->image.height, game->image.width,
        game->image.channels, game->actions, game->action_count, game->choices ? "false" : "true", game->longest_episode,
        game->state_size, game->params_fields);
}

}  // namespace

int main(int count, char** words) {
    if (count != 7) return 5;
    const std::string part = words[2];
    const long env_steps = atol(words[3]);
    const int copies = atoi(words[4]);
    const uint64 seed = strtoull(words[5], nullptr, 10);
    hang_limit = atoi(words[6]);

    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    report = dup(1);   // what the header prints goes nowhere
    dup2(open("/dev/null", O_WRONLY), 1);
    void* library = dlopen(words[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 6;
    }
    game = reinterpret_cast<const EnvironmentTable* (*)()>(dlsym(library, "sweep_environment"))();
    observation_bytes_each = game->observation_bytes ? 1 : 4;
    watch();
    const char* trap = getenv("SWEEP_TRAP");
    trapped = !trap ? 0 : strcmp(trap, "nan") == 0 ? FE_INVALID : strcmp(trap, "infinite") == 0 ? FE_DIVBYZERO | FE_OVERFLOW : 0;
    if (part == "describe") describe();
    else if (part == "play") play(env_steps, copies, seed);
    else if (part == "params") play_params(env_steps, copies, seed);
    else if (part == "after") play_on(env_steps, copies, seed);
    else if (part == "repeat") repeat(env_steps, copies, seed);
    else if (part == "fills") fills(env_steps, copies, seed);
    else if (part == "speed") speed(1e-3 * env_steps, copies, seed);
    else return 5;
    say("{\"ended\": \"%s\"}", part.c_str());
    _exit(0);   // at once: no code of the header runs any more
}
