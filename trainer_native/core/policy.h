// From what the network gives to a distribution over actions, and from observations to actions.
//
// Discrete actions: each has a softmax over its own columns of logits, and several are independent. Continuous ones: the
// columns are the means of normal numbers, in units where the bounds of each action are ±1; their deviations are weights
// of the network, the same for every state. What is drawn is clipped to ±1, or passes a tanh, on its way to the game, and
// log-probabilities are of what was drawn: a tanh would add the same to the old and the new one, whose difference is all
// that is asked for. Log-probabilities and entropies are sums over the numbers of an action.
//
// Rows are worked on 64 at a time, one column of logits after another, so that the elementary functions run in vectors.
// A lane has rows of its own in each 64, so nothing of a chunk is exchanged.
#pragma once

#include "net.h"
#include "rng.h"

namespace sweep {

constexpr int chunk_rows = 64;
constexpr int most_actions = 64;

// Numbers of actions, as many to a row as an action has: one of the two.
struct ActionRows {
    int* chosen;    // [rows, k]: of discrete actions; else null
    float* drawn;   // [rows, k]: of continuous ones, before they are clipped or squashed; else null

    SWEEP_FN ActionRows from(long first) const { return {chosen ? chosen + first : nullptr, drawn ? drawn + first : nullptr}; }
};

// 64 rows' logits (or means) and values as columns, and what follows from them for the discrete action at hand.
struct Columns {
    float logit[most_actions + 1][chunk_rows];   // column `actions` is the value
    float weight[most_actions][chunk_rows];      // e^(logit − highest logit)
    float largest[chunk_rows], sum[chunk_rows], log_sum[chunk_rows];

    // The log-probability of a choice, given by its column: the same expression wherever it is needed.
    SWEEP_FN float log_probability(int column, int row) const { return (logit[column][row] - largest[row]) - log_sum[row]; }
};

// A continuous action at hand. The log-density of a number: the same expression wherever it is needed.
struct Normal {
    float log_std, deviation, inverse;

    SWEEP_FN explicit Normal(float log_std) : log_std(log_std), deviation(exp(log_std)), inverse(exp(-log_std)) {}
    SWEEP_FN float standardised(float drawn, float mean) const { return (drawn - mean) * inverse; }
    SWEEP_FN float log_density(float standardised) const {
        return fma(-0.5f * standardised, standardised, -(log_std + 0.918938533f));   // ½ log 2π
    }
    SWEEP_FN float entropy() const { return log_std + 1.418938533f; }   // ½ + ½ log 2π
};

// `count` rows (at most 64) of logits [count, stride] into columns; rows beyond, up to a multiple of 8, are zero.
inline void read_columns(Block b, int count, int actions, const float* __restrict logits, int stride, Columns& c) {
    const auto transpose = [&](long row) {
        for (int a = 0; a <= actions; a++)
            for (int i = b.lane; i < count; i += b.lanes) c.logit[a][i] = logits[i * row + a];
    };
    if (stride == 8)   // known at compile time
        transpose(8);
    else
        transpose(stride);
    const int columns = padded(count) & ~7;
    if (count < columns)
        for (int a = 0; a <= actions; a++)
            for (int i = b.lane; i < columns; i += b.lanes)
                if (i >= count) c.logit[a][i] = 0.0f;
}

// What follows from columns first .. last − 1, the logits of one discrete action, in `columns` rows.
SWEEP_FN void softmax(Block b, int columns, int first, int last, Columns& c) {
    for (int i = b.lane; i < columns; i += b.lanes) {
        c.largest[i] = c.logit[first][i];
        c.sum[i] = 0.0f;
    }
    for (int a = first + 1; a < last; a++)
        for (int i = b.lane; i < columns; i += b.lanes) c.largest[i] = highest(c.largest[i], c.logit[a][i]);
    for (int a = first; a < last; a++)
        for (int i = b.lane; i < columns; i += b.lanes) {
            const float e = exp(c.logit[a][i] - c.largest[i]);
            c.weight[a][i] = e;
            c.sum[i] += e;
        }
    for (int i = b.lane; i < columns; i += b.lanes) c.log_sum[i] = log(c.sum[i]);
}

// What the network makes of raw observations: (x − middle) / half-range · √3 for quantities, flags as they are.
struct Normaliser {
    float* scale;      // [observation, padded]; 1 where an input passes unchanged, and in the padding
    float* shift;      // [observation, padded]
    int first, last;   // the inputs outside first .. last − 1, both multiples of 8, pass unchanged
    float limit;       // what is standardised is clipped to ± this; 0: not at all
};

inline void normalise(Block b, const Normaliser& n, float* observations, long stride, int rows) {
    for (int r = b.lane; r < rows; r += b.lanes) {
        float* __restrict x = observations + r * stride;
        for (int i = n.first; i < n.last; i += width<narrow>)
            store(x + i, fma(load<narrow>(x + i), load<narrow>(n.scale + i), load<narrow>(n.shift + i)));
        if (n.limit > 0.0f)
            for (int i = n.first; i < n.last; i++)
                x[i] = n.scale[i] == 1.0f && n.shift[i] == 0.0f ? x[i] : clamp(x[i], -n.limit, n.limit);
    }
    b.sync();
}

// Logits and values of `rows` observations (standardised, `stride` floats apart) after one step of the network.
inline void look(Block b, const Shape& n, const float* weights, int rows, const Sight& observations, long stride,
                 const float* keep, float* const* states, float* const* next, Activations a) {
    a.rows = rows;
    network_forward(b, n, weights, 1, rows, {observations, stride, stride, nullptr}, keep, states, next, a);
}

// Chooses one discrete action, whose logits are columns first .. last − 1, for `count` rows: sampled, or the likeliest.
// chosen: [count, k], from the action's own number on.
SWEEP_FN void choose_one(Block b, int count, int columns, int first, int last, Columns& c, bool greedy, Rng* rngs, int k,
                         int* actions, bool is_asked, float* log_probability) {
    softmax(b, columns, first, last, c);
    int chosen[chunk_rows];   // its column
    if (greedy) {
        for (int i = b.lane; i < columns; i += b.lanes) chosen[i] = first;
        for (int a = last - 1; a >= first; a--)
            for (int i = b.lane; i < columns; i += b.lanes) chosen[i] = c.logit[a][i] == c.largest[i] ? a : chosen[i];
    } else {
        float threshold[chunk_rows], passed[chunk_rows];
        for (int i = b.lane; i < columns; i += b.lanes) {
            chosen[i] = first;
            threshold[i] = passed[i] = 0.0f;
        }
        for (int i = b.lane; i < count; i += b.lanes) threshold[i] = rngs[i].uniform() * c.sum[i];
        for (int a = first; a < last - 1; a++)
            for (int i = b.lane; i < columns; i += b.lanes) {
                passed[i] += c.weight[a][i];
                chosen[i] += threshold[i] >= passed[i] ? 1 : 0;
            }
    }
    if (k == 1)   // known at compile time
        for (int i = b.lane; i < count; i += b.lanes) actions[i] = chosen[i];
    else
        for (int i = b.lane; i < count; i += b.lanes) actions[i * k] = chosen[i] - first;
    if (!is_asked) return;
    float own[chunk_rows];
    for (int i = b.lane; i < columns; i += b.lanes) own[i] = c.log_probability(first, i);
    for (int a = first + 1; a < last; a++)
        for (int i = b.lane; i < columns; i += b.lanes) own[i] = chosen[i] == a ? c.log_probability(a, i) : own[i];
    if (first == 0)
        for (int i = b.lane; i < columns; i += b.lanes) log_probability[i] = own[i];
    else
        for (int i = b.lane; i < columns; i += b.lanes) log_probability[i] += own[i];
}

// Draws all continuous actions of `count` rows, [count, k], or takes their means.
SWEEP_FN void draw(Block b, const Shape& n, const float* log_stds, int count, int columns, const Columns& c, bool greedy,
                   Rng* rngs, float* drawn, float* log_probability) {
    const int k = n.action_count;
    for (int i = b.lane; i < columns; i += b.lanes) log_probability[i] = 0.0f;
    for (int j = 0; j < k; j++) {
        const Normal normal(log_stds[j]);
        float first[chunk_rows], second[chunk_rows], number[chunk_rows];
        for (int i = b.lane; i < columns; i += b.lanes) first[i] = second[i] = 0.0f;
        if (!greedy)
            for (int i = b.lane; i < count; i += b.lanes) {
                first[i] = rngs[i].uniform();
                second[i] = rngs[i].uniform();
            }
        const float deviation = greedy ? 0.0f : normal.deviation;
        for (int i = b.lane; i < columns; i += b.lanes) {
            number[i] = fma(deviation, normal_of(first[i], second[i]), c.logit[j][i]);
            log_probability[i] += normal.log_density(normal.standardised(number[i], c.logit[j][i]));
        }
        for (int i = b.lane; i < count; i += b.lanes) drawn[i * k + j] = number[i];
    }
}

// Actions for each row of a.logits: sampled with the row's own stream, or the likeliest. Also their log-probability and the
// value, where there is room for them.
inline void choose(Block b, const Shape& n, const float* weights, int rows, const float* logits, bool greedy, Rng* rngs,
                   const ActionRows& actions, float* log_probabilities, float* values) {
    Columns c;
    const int k = n.action_count;
    for (int start = 0; start < rows; start += chunk_rows) {
        const int count = rows - start < chunk_rows ? rows - start : chunk_rows, columns = padded(count) & ~7;
        read_columns(b, count, n.actions, logits + long(start) * n.outputs(), n.outputs(), c);
        float log_probability[chunk_rows];
        const ActionRows own = actions.from(long(start) * k);
        if (n.continuous)
            draw(b, n, weights + n.log_stds(), count, columns, c, greedy, rngs + start, own.drawn, log_probability);
        else
            for (int j = 0, first = 0; j < k; first += n.choices[j++])
                choose_one(b, count, columns, first, first + n.choices[j], c, greedy, rngs + start, k, own.chosen + j,
                           log_probabilities != nullptr, log_probability);
        if (!log_probabilities) continue;
        for (int i = b.lane; i < count; i += b.lanes) {
            log_probabilities[start + i] = log_probability[i];
            values[start + i] = c.logit[n.actions][i];
        }
    }
    b.sync();
}

}  // namespace sweep
