// PufferNet: a linear encoder, L layers of MinGRU with a highway, a linear decoder to action logits and the value.
//
// Layer: (u, f, p) = W x, one product of width 3H; h' = u σ(f) + h (1 − σ(f)); out = x (1 − σ(p)) + h' σ(p).
// MinGRU: Feng et al., "Were RNNs all we needed?" (arXiv 2410.01201); highway: Srivastava et al. (arXiv 1505.00387).
// No biases: one constant input stands for them. Acting is the same function as training, with one step.
#pragma once

#include "math.h"
#include "matmul.h"

namespace sweep {

SWEEP_FN constexpr int padded(int n) { return (n + 7) & ~7; }

// The sizes of a network. Rows are padded to a multiple of 8 floats; what pads is zero and stays zero.
struct Shape {
    int inputs;    // what the encoder reads: the observation, and the constant where there is one
    int hidden;    // H, a multiple of 8
    int layers;    // L
    int actions;   // A

    SWEEP_FN int stride() const { return padded(inputs); }         // floats from one input row to the next
    SWEEP_FN int outputs() const { return padded(actions + 1); }   // floats of a decoder row: logits, value, padding
    SWEEP_FN long encoder() const { return 0; }                                                  // [stride, H]
    SWEEP_FN long layer(int l) const { return long(stride()) * hidden + 3L * hidden * hidden * l; }   // [H, 3H]
    SWEEP_FN long decoder() const { return layer(layers); }                                      // [H, outputs]
    SWEEP_FN long weights() const { return decoder() + long(hidden) * outputs(); }               // floats in all
    SWEEP_FN long parameters() const {
        return long(inputs) * hidden + 3L * hidden * hidden * layers + long(hidden) * (actions + 1);
    }
};

// Rows of the functions below are numbered t · sequences + s: step t of sequence s.

// One layer's recurrence over `steps`. gates [rows, 3H]: W x on entry; u, σ(f), σ(p) on return. keep [rows]: 0 where an
// episode begins, else 1. state [sequences, H]: h before the first step. h [rows, H]: h after each step; may be `state`
// itself where steps is 1. out [rows, H].
SWEEP_FN void cell_forward(Block b, int steps, int sequences, int hidden, float* __restrict gates,
                           const float* __restrict x, const float* __restrict keep, const float* state, float* h,
                           float* __restrict out) {
    if (hidden < 8) __builtin_unreachable();
    hidden &= ~7;
    for (int t = 0; t < steps; t++) {
        const float* before = t == 0 ? state : h + long(t - 1) * sequences * hidden;
        for (int s = b.lane; s < sequences; s += b.lanes) {
            const long row = long(t) * sequences + s;
            float* __restrict u = gates + row * 3 * hidden;
            float* __restrict f = u + hidden;
            float* __restrict p = f + hidden;
            const float* __restrict in = x + row * hidden;
            const float* previous = before + long(s) * hidden;
            float* next = h + row * hidden;
            float* __restrict y = out + row * hidden;
            const float kept = keep[row];
#pragma GCC ivdep
            for (int j = 0; j < hidden; j++) {
                const float forget = sigmoid(f[j]), highway = sigmoid(p[j]);
                const float old = previous[j] * kept;
                const float now = fma(forget, u[j] - old, old);
                f[j] = forget;
                p[j] = highway;
                next[j] = now;
                y[j] = fma(highway, now - in[j], in[j]);
            }
        }
        b.sync();
    }
}

// Backwards through one layer's recurrence. gates: u, σ(f), σ(p) on entry; the gradients of W x on return.
// gradient [rows, H]: that of `out` on entry; on return that part of the gradient of x which does not pass through W.
// carry [sequences, H]: scratch. The gradient ends at the state the sequence started from.
SWEEP_FN void cell_backward(Block b, int steps, int sequences, int hidden, float* __restrict gates,
                            const float* __restrict x, const float* __restrict keep, const float* __restrict state,
                            const float* __restrict h, float* __restrict gradient, float* __restrict carry) {
    if (hidden < 8) __builtin_unreachable();
    hidden &= ~7;
    for (int i = b.lane; i < sequences * hidden; i += b.lanes) carry[i] = 0.0f;
    b.sync();
    for (int t = steps - 1; t >= 0; t--) {
        const float* before = t == 0 ? state : h + long(t - 1) * sequences * hidden;
        for (int s = b.lane; s < sequences; s += b.lanes) {
            const long row = long(t) * sequences + s;
            float* __restrict u = gates + row * 3 * hidden;
            float* __restrict f = u + hidden;
            float* __restrict p = f + hidden;
            const float* __restrict in = x + row * hidden;
            const float* __restrict previous = before + long(s) * hidden;
            const float* __restrict now = h + row * hidden;
            float* __restrict g = gradient + row * hidden;
            float* __restrict c = carry + long(s) * hidden;
            const float kept = keep[row];
#pragma GCC ivdep
            for (int j = 0; j < hidden; j++) {
                const float forget = f[j], highway = p[j], old = previous[j] * kept, dy = g[j];
                const float dh = fma(dy, highway, c[j]);
                const float du = dh * forget;
                p[j] = dy * (now[j] - in[j]) * (highway * (1.0f - highway));
                f[j] = dh * (u[j] - old) * (forget * (1.0f - forget));
                u[j] = du;
                c[j] = (dh - du) * kept;
                g[j] = dy * (1.0f - highway);
            }
        }
        b.sync();
    }
}

// Room for `rows` rows of one forward pass: what a backward pass needs of it, layer by layer.
struct Activations {
    float* x;        // [layers + 1, rows, H]: what enters each layer, and what leaves the last
    float* gates;    // [layers, rows, 3H]
    float* h;        // [layers, rows, H]: each layer's state after each row's step
    float* logits;   // [rows, outputs]: action logits, then the value
    int rows;

    SWEEP_FN float* x_of(const Shape& n, int l) const { return x + long(l) * rows * n.hidden; }
    SWEEP_FN float* gates_of(const Shape& n, int l) const { return gates + 3L * l * rows * n.hidden; }
    SWEEP_FN float* h_of(const Shape& n, int l) const { return h + long(l) * rows * n.hidden; }
    // Room for one row in what has room for `rows`: no two share a float.
    SWEEP_FN Activations part(const Shape& n, int row) const {
        return {x + long(row) * (n.layers + 1) * n.hidden, gates + 3L * row * n.layers * n.hidden,
                h + long(row) * n.layers * n.hidden, logits + long(row) * n.outputs(), 1};
    }
};

// From the encoder's output (in a.x) to the logits of steps · sequences rows. states: one pointer per layer, h before
// the first step, [sequences, H]; `next`: where each layer's states go, or null for the room in `a`.
inline void layers_forward(Block b, const Shape& n, const float* weights, int steps, int sequences, const float* keep,
                           float* const* states, float* const* next, const Activations& a) {
    const int rows = steps * sequences, hidden = n.hidden;
    for (int l = 0; l < n.layers; l++) {
        matmul(b, rows, 3 * hidden, hidden, a.x_of(n, l), hidden, weights + n.layer(l), 3 * hidden, a.gates_of(n, l),
               3 * hidden);
        cell_forward(b, steps, sequences, hidden, a.gates_of(n, l), a.x_of(n, l), keep, states[l],
                     next ? next[l] : a.h_of(n, l), a.x_of(n, l + 1));
    }
    matmul(b, rows, n.outputs(), hidden, a.x_of(n, n.layers), hidden, weights + n.decoder(), n.outputs(), a.logits,
           n.outputs());
}

// The transposes that a backward pass multiplies by; made once per gradient step.
struct Transposes {
    float* layers;    // [layers, 3H, H]
    float* decoder;   // [outputs, H]
};

inline void make_transposes(Block b, const Shape& n, const float* weights, const Transposes& to) {
    const int hidden = n.hidden;
    for (int l = 0; l < n.layers; l++)
        transpose(b, hidden, 3 * hidden, weights + n.layer(l), 3 * hidden, to.layers + 3L * hidden * hidden * l, hidden);
    transpose(b, hidden, n.outputs(), weights + n.decoder(), n.outputs(), to.decoder, hidden);
}

// From the gradient of the logits (in a.logits) to the gradient of the encoder's output (left in a.x_of(layers)),
// adding the gradients of all weights but the encoder's to `gradients`. carry: scratch, [sequences, H].
inline void layers_backward(Block b, const Shape& n, const Transposes& transposed, int steps, int sequences,
                            const float* keep, float* const* states, const Activations& a, float* gradients,
                            float* carry) {
    const int rows = steps * sequences, hidden = n.hidden;
    float* top = a.x_of(n, n.layers);
    matmul<Left::columns, Result::added>(b, hidden, n.outputs(), rows, top, hidden, a.logits, n.outputs(),
                                         gradients + n.decoder(), n.outputs());
    matmul(b, rows, hidden, n.actions + 1, a.logits, n.outputs(), transposed.decoder, hidden, top, hidden);
    for (int l = n.layers - 1; l >= 0; l--) {
        cell_backward(b, steps, sequences, hidden, a.gates_of(n, l), a.x_of(n, l), keep, states[l], a.h_of(n, l),
                      top, carry);
        matmul<Left::columns, Result::added>(b, hidden, 3 * hidden, rows, a.x_of(n, l), hidden, a.gates_of(n, l),
                                             3 * hidden, gradients + n.layer(l), 3 * hidden);
        matmul<Left::rows, Result::added>(b, rows, hidden, 3 * hidden, a.gates_of(n, l), 3 * hidden,
                                          transposed.layers + 3L * hidden * hidden * l, hidden, top, hidden);
    }
}

// Uniform in ± gain / √fan_in, gain √2 in the encoder and 1 elsewhere; padding zero. One lane's work.
inline void initialise(const Shape& n, float* weights, Rng& rng) {
    for (long i = 0; i < n.weights(); i++) weights[i] = 0.0f;
    const auto fill = [&](float* w, int rows, int columns, int stride, float gain) {
        const float bound = gain / square_root(float(rows));
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++) w[i * stride + j] = rng.uniform(-bound, bound);
    };
    fill(weights + n.encoder(), n.inputs, n.hidden, n.hidden, 1.41421356f);
    for (int l = 0; l < n.layers; l++) fill(weights + n.layer(l), n.hidden, 3 * n.hidden, 3 * n.hidden, 1.0f);
    fill(weights + n.decoder(), n.hidden, n.actions + 1, n.outputs(), 1.0f);
}

}  // namespace sweep
