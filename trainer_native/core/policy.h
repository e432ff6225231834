// From logits to a distribution over actions, and from observations to actions.
//
// Rows are worked on 64 at a time, one column of logits after another, so that the elementary functions run in vectors.
// A lane has rows of its own in each 64, so nothing of a chunk is exchanged.
#pragma once

#include "net.h"
#include "rng.h"

namespace sweep {

constexpr int chunk_rows = 64;
constexpr int most_actions = 64;

// 64 rows' logits and values as columns, and what follows from them.
struct Columns {
    float logit[most_actions + 1][chunk_rows];   // column `actions` is the value
    float weight[most_actions][chunk_rows];      // e^(logit − highest logit)
    float largest[chunk_rows], sum[chunk_rows], log_sum[chunk_rows];

    // The log-probability of an action: the same expression wherever it is needed.
    SWEEP_FN float log_probability(int action, int row) const { return (logit[action][row] - largest[row]) - log_sum[row]; }
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
    for (int i = b.lane; i < columns; i += b.lanes) {
        c.largest[i] = c.logit[0][i];
        c.sum[i] = 0.0f;
    }
    for (int a = 1; a < actions; a++)
        for (int i = b.lane; i < columns; i += b.lanes) c.largest[i] = highest(c.largest[i], c.logit[a][i]);
    for (int a = 0; a < actions; a++)
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
inline void look(Block b, const Shape& n, const float* weights, int rows, const float* observations, long stride,
                 const float* keep, float* const* states, float* const* next, Activations a) {
    a.rows = rows;
    network_forward(b, n, weights, 1, rows, {observations, stride, stride, nullptr}, keep, states, next, a);
}

// An action for each row of a.logits: sampled with the row's own stream, or the likeliest. Also the action's
// log-probability and the value, where there is room for them.
inline void choose(Block b, const Shape& n, int rows, const float* logits, bool greedy, Rng* rngs, int* actions,
                   float* log_probabilities, float* values) {
    Columns c;
    for (int start = 0; start < rows; start += chunk_rows) {
        const int count = rows - start < chunk_rows ? rows - start : chunk_rows, columns = padded(count) & ~7;
        read_columns(b, count, n.actions, logits + long(start) * n.outputs(), n.outputs(), c);
        int chosen[chunk_rows];
        float chosen_logit[chunk_rows];
        if (greedy) {
            for (int i = b.lane; i < columns; i += b.lanes) chosen[i] = 0;
            for (int a = n.actions - 1; a >= 0; a--)
                for (int i = b.lane; i < columns; i += b.lanes) chosen[i] = c.logit[a][i] == c.largest[i] ? a : chosen[i];
        } else {
            float threshold[chunk_rows], passed[chunk_rows];
            for (int i = b.lane; i < columns; i += b.lanes) {
                chosen[i] = 0;
                threshold[i] = passed[i] = 0.0f;
            }
            for (int i = b.lane; i < count; i += b.lanes) threshold[i] = rngs[start + i].uniform() * c.sum[i];
            for (int a = 0; a < n.actions - 1; a++)
                for (int i = b.lane; i < columns; i += b.lanes) {
                    passed[i] += c.weight[a][i];
                    chosen[i] += threshold[i] >= passed[i] ? 1 : 0;
                }
        }
        for (int i = b.lane; i < count; i += b.lanes) actions[start + i] = chosen[i];
        if (!log_probabilities) continue;
        for (int i = b.lane; i < columns; i += b.lanes) chosen_logit[i] = c.log_probability(0, i);
        for (int a = 1; a < n.actions; a++)
            for (int i = b.lane; i < columns; i += b.lanes)
                chosen_logit[i] = chosen[i] == a ? c.log_probability(a, i) : chosen_logit[i];
        for (int i = b.lane; i < count; i += b.lanes) {
            log_probabilities[start + i] = chosen_logit[i];
            values[start + i] = c.logit[n.actions][i];
        }
    }
    b.sync();
}

}  // namespace sweep
