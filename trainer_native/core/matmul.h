// Matrix products that keep a block of the result in registers.
//
// Each output accumulates over k in order, with one fused multiply-add per term. So neither the vector width nor the way
// rows are grouped shows in a result: a batch equals its rows, a scan equals its steps, bit for bit.
#pragma once

#include "vector.h"

namespace sweep {

// How a product reads its left matrix: rows as they lie, or columns (the transposed matrix, without transposing it).
enum class Left { rows, columns };
// Where the sum of an output starts: at 0; at the row above the right matrix, its bias; at what stands in the result.
enum class Result { written, biased, added };

#ifdef SWEEP_NO_VECTORS

// As below: the same sums, one output after another.
template <Left left = Left::rows, Result result = Result::written>
inline void matmul(Block block, int rows, int columns, int terms, const float* a, long lda, const float* b, long ldb,
                   float* c, long ldc) {
    for (int i = block.lane; i < rows * columns; i += block.lanes) {
        const int row = i / columns, column = i % columns;
        float sum = result == Result::added ? c[row * ldc + column] : result == Result::biased ? b[column - ldb] : 0.0f;
        for (int k = 0; k < terms; k++)
            sum = fma(left == Left::rows ? a[row * lda + k] : a[k * lda + row], b[k * ldb + column], sum);
        c[row * ldc + column] = sum;
    }
    block.sync();
}

#else

// One block of `Rows` by `Vectors` registers: C[Rows, Vectors * width] from k terms.
template <class V, int Rows, int Vectors, Left left, Result result>
SWEEP_FN void matmul_block(int terms, const float* a, long lda, const float* b, long ldb, float* c, long ldc) {
    V sum[Rows][Vectors];
#pragma GCC unroll 16
    for (int i = 0; i < Rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; j++)
            sum[i][j] = result == Result::added    ? load<V>(c + i * ldc + j * width<V>)
                        : result == Result::biased ? load<V>(b - ldb + j * width<V>)
                                                   : V{};
#pragma GCC unroll 4
    for (int k = 0; k < terms; k++) {
        V row[Vectors];
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; j++) row[j] = load<V>(b + k * ldb + j * width<V>);
#pragma GCC unroll 16
        for (int i = 0; i < Rows; i++) {
            const V x = broadcast<V>(left == Left::rows ? a[i * lda + k] : a[k * lda + i]);
#pragma GCC unroll 4
            for (int j = 0; j < Vectors; j++) sum[i][j] = fma(x, row[j], sum[i][j]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < Rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; j++) store(c + i * ldc + j * width<V>, sum[i][j]);
}

// The block that takes what blocks of `rows` leave.
constexpr int smaller(int rows) { return rows > 8 ? 8 : rows > 4 ? 4 : rows / 2; }

// All rows of one panel of columns, `Rows` at a time, then smaller blocks; a block too few, where the rest then comes out
// even for the smaller ones.
template <class V, int Rows, int Vectors, Left left, Result result>
inline void matmul_panel(int rows, int terms, const float* a, long lda, const float* b, long ldb, float* c, long ldc) {
    const long step = left == Left::rows ? lda : 1;
    int last = rows - rows % Rows, i = 0;
    if constexpr (Rows > 1)
        if (last > 0 && rows % Rows % smaller(Rows) != 0 && (rows % Rows + Rows) % smaller(Rows) == 0) last -= Rows;
    for (; i < last; i += Rows)
        matmul_block<V, Rows, Vectors, left, result>(terms, a + i * step, lda, b, ldb, c + i * ldc, ldc);
    if constexpr (Rows > 1)
        if (i < rows)
            matmul_panel<V, smaller(Rows), Vectors, left, result>(rows - i, terms, a + i * step, lda, b, ldb, c + i * ldc,
                                                                  ldc);
}

// Rows of a block: enough sums in flight to hide the latency of a multiply-add, and all of them in registers, beside
// `vectors` of the right matrix and one broadcast.
constexpr int block_rows(int vectors, Left left) {
    if (registers == 32) return vectors == 1 ? 12 : vectors == 2 ? 12 : 8;
    return vectors == 1 ? (left == Left::rows ? 8 : 12) : vectors == 2 ? 6 : 4;
}

// A panel of the right matrix is copied where its rows lie so far apart that they would push each other out of the
// first-level cache, and where enough rows of the left one come to pay for it.
constexpr int cached_floats = 4096, most_terms = 256;

template <class V, int Vectors, Left left, Result result>
inline void matmul_columns(int rows, int terms, const float* a, long lda, const float* b, long ldb, float* c, long ldc) {
    constexpr int columns = Vectors * width<V>;
    if (rows < 48 || terms * ldb <= cached_floats || terms < 32) {
        matmul_panel<V, block_rows(Vectors, left), Vectors, left, result>(rows, terms, a, lda, b, ldb, c, ldc);
        return;
    }
    alignas(64) float room[(most_terms + 1) * columns];
    float* panel = room + columns;
    for (int k = result == Result::biased ? -1 : 0; k < terms; k++)
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; j++)
            store(panel + k * columns + j * width<V>, load<V>(b + k * ldb + j * width<V>));
    matmul_panel<V, block_rows(Vectors, left), Vectors, left, result>(rows, terms, a, lda, panel, columns, c, ldc);
}

template <class V, Left left, Result result>
inline int matmul_panels(int rows, int columns, int terms, const float* a, long lda, const float* b, long ldb, float* c,
                         long ldc, int j) {
    constexpr int w = width<V>;
    while (columns - j >= w) {
        const int vectors = (columns - j) / w;
        if (vectors == 3 || vectors >= 5) {
            matmul_columns<V, 3, left, result>(rows, terms, a, lda, b + j, ldb, c + j, ldc);
            j += 3 * w;
        } else if (vectors >= 2) {
            matmul_columns<V, 2, left, result>(rows, terms, a, lda, b + j, ldb, c + j, ldc);
            j += 2 * w;
        } else {
            matmul_columns<V, 1, left, result>(rows, terms, a, lda, b + j, ldb, c + j, ldc);
            j += w;
        }
    }
    return j;
}

template <Left left, Result result>
inline void matmul_part(int rows, int columns, int terms, const float* a, long lda, const float* b, long ldb, float* c,
                        long ldc) {
    int j = 0;
    if constexpr (width<wide> > width<narrow>)
        j = matmul_panels<wide, left, result>(rows, columns, terms, a, lda, b, ldb, c, ldc, j);
    matmul_panels<narrow, left, result>(rows, columns, terms, a, lda, b, ldb, c, ldc, j);
}

// C[rows, columns] = A[rows, terms] · B[terms, columns], row after row at distances lda, ldb, ldc (in floats).
// Left::columns: A is given as its transpose, [terms, rows]. `columns` is a multiple of 8.
template <Left left = Left::rows, Result result = Result::written>
inline void matmul(Block block, int rows, int columns, int terms, const float* a, long lda, const float* b, long ldb,
                   float* c, long ldc) {
    const Range mine = share_of(block, rows);
    const int count = mine.last - mine.first;
    const long step = left == Left::rows ? lda : 1, along = left == Left::rows ? 1 : lda;
    a += mine.first * step;
    c += mine.first * ldc;
    // A chunk of rows stays in the cache while the panels of B pass over it. Where A comes in columns, the terms are the
    // long side (the rows of a minibatch): a chunk of them, added to what came before.
    const int most_rows = left == Left::rows ? 96 : count, some_terms = left == Left::rows ? most_terms : 128;
    const int first = terms < some_terms ? terms : some_terms;
    for (int i = 0; i < count; i += most_rows)
        matmul_part<left, result>(count - i < most_rows ? count - i : most_rows, columns, first, a + i * step, lda, b, ldb,
                                  c + i * ldc, ldc);
    for (int k = first; k < terms; k += some_terms)
        for (int i = 0; i < count; i += most_rows)
            matmul_part<left, Result::added>(count - i < most_rows ? count - i : most_rows, columns,
                                             terms - k < some_terms ? terms - k : some_terms, a + i * step + k * along,
                                             lda, b + k * ldb, ldb, c + i * ldc, ldc);
    block.sync();
}

#endif

// to[columns, rows] = the transpose of from[rows, columns].
inline void transpose(Block b, int rows, int columns, const float* from, long from_stride, float* to, long to_stride) {
    for (int i = b.lane; i < rows; i += b.lanes)
        for (int j = 0; j < columns; j++) to[j * to_stride + i] = from[i * from_stride + j];
    b.sync();
}

}  // namespace sweep
