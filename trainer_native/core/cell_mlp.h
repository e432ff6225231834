// A multilayer perceptron: out = activation(W x). No memory; there to show what memory costs.
#pragma once

#include "layer.h"

namespace sweep {

inline void activate(Block b, bool relu, long count, float* x) {
    if (relu)
        for (long i = b.lane; i < count; i += b.lanes) x[i] = highest(x[i], 0.0f);
    else
        for (long i = b.lane; i < count; i += b.lanes) x[i] = tanh(x[i]);
    b.sync();
}

// From the gradient of what left an activation to that of what entered it, which takes the place of `y`, what left it.
inline void activate_backward(Block b, bool relu, long count, const float* __restrict gradient, float* __restrict y) {
    if (relu)
        for (long i = b.lane; i < count; i += b.lanes) y[i] = y[i] > 0.0f ? gradient[i] : 0.0f;
    else
        for (long i = b.lane; i < count; i += b.lanes) y[i] = gradient[i] * fma(-y[i], y[i], 1.0f);
    b.sync();
}

inline void mlp_forward(Block b, const LayerWeights& w, bool relu, int rows, int hidden, const float* x, float* out) {
    product(b, rows, hidden, hidden, x, hidden, w.matrix, w.biased, out, hidden);
    activate(b, relu, long(rows) * hidden, out);
}

// Backwards through one layer. gradient [rows, H]: of what leaves it on entry, of x on return. out: what left it on entry.
// Adds to the weights' gradients.
inline void mlp_backward(Block b, const LayerWeights& transposed, const LayerGradients& to, bool relu, int rows,
                         int hidden, const float* x, float* out, float* gradient) {
    activate_backward(b, relu, long(rows) * hidden, gradient, out);
    weight_gradient(b, hidden, hidden, rows, x, hidden, out, hidden, to.matrix, to.bias);
    matmul(b, rows, hidden, hidden, out, hidden, transposed.matrix, hidden, gradient, hidden);
}

}  // namespace sweep
