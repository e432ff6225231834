// What the layers of every cell are made of: a product with its bias, and the gradients of both.
#pragma once

#include "math.h"
#include "matmul.h"
#include "shape.h"

namespace sweep {

// A loop with more constants than registers to spare is a function of its own: inlined into a larger one it keeps fewer.
#define SWEEP_OWN inline __attribute__((noinline))

// One layer's weights, or their transposes, or (LayerGradients) their gradients. What a layer has not is null.
struct LayerWeights {
    const float *matrix, *recurrent;
    bool biased;
};
struct LayerGradients {
    float *matrix, *recurrent, *bias;
};

// C[rows, columns] = A · W, plus the bias where there is one: the row above W, with which the sum of each output starts.
inline void product(Block b, int rows, int columns, int terms, const float* a, long lda, const float* w, bool biased,
                    float* c, long ldc) {
    if (biased)
        matmul<Left::rows, Result::biased>(b, rows, columns, terms, a, lda, w, columns, c, ldc);
    else
        matmul(b, rows, columns, terms, a, lda, w, columns, c, ldc);
}

// Adds the sums of the columns of `from` [rows, columns], each in order of the rows, to `to`.
SWEEP_OWN void add_column_sums(Block b, int rows, int columns, const float* __restrict from, long stride, float* __restrict to) {
    for (int i = 0; i < rows; i++)
        for (int j = b.lane; j < columns; j += b.lanes) to[j] += from[i * stride + j];
    b.sync();
}

// Adds the gradient of W and of its bias: x [rows, in] is what W was multiplied by, y [rows, out] the gradient of that.
inline void weight_gradient(Block b, int in, int out, int rows, const float* x, long ldx, const float* y, long ldy,
                            float* matrix, float* bias) {
    matmul<Left::columns, Result::added>(b, in, out, rows, x, ldx, y, ldy, matrix, out);
    if (bias) add_column_sums(b, rows, out, y, ldy, bias);
}

}  // namespace sweep
