/* Vectors of V floats, by the vector extensions that GCC and Clang share: no instruction set is named.
 *
 * Every activation is laid out [channel][row][column][BLOCK]: the rows of a batch are innermost, so that a vector
 * holds the same number of V rows of the batch. BLOCK rows go through the net at a time, in groups of LANES. A
 * shorter block is filled up with rows of zeros, whose gradient is zero.
 *
 * All kernels are inlined into calls with constant shapes: what looks like a general loop is compiled for the net.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* A tile: so many rows of a matrix times so many vectors are summed in registers at a time. */
#define TILE_ROWS 6
#define TILE_VECTORS 2
#define LANES (TILE_VECTORS * V)

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float vector __attribute__((vector_size(4 * V), may_alias));
typedef float loose __attribute__((vector_size(4 * V), aligned(4), may_alias)); /* at any address */
typedef int32_t mask __attribute__((vector_size(4 * V), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t four_places __attribute__((vector_size(16)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (four_places){__VA_ARGS__})
#endif

/* a where the mask is set, else 0 */
INLINE vector keep(mask where, vector a) { return (vector)((mask)a & where); }

/* Not max(a, 0): what is not a number must stay so, or a diverged run would look healthy. */
INLINE vector relu(vector a) { return keep(~(a < 0.0f), a); }

INLINE vector larger(vector a, vector b) {
    mask first = a >= b;
    return (vector)(((mask)a & first) | ((mask)b & ~first));
}

INLINE float sum_of(vector a) {
    float total = 0;
    UNROLL for (int i = 0; i < V; i++) total += a[i];
    return total;
}

INLINE int at_least(int a, int b) { return a > b ? a : b; }
INLINE int at_most(int a, int b) { return a < b ? a : b; }

/* to[j][i] = from[i][j] for four rows i and four columns j. */
INLINE void transpose_four(const float *from, int from_stride, float *to, int to_stride) {
    four a = *(const four *)from, b = *(const four *)(from + from_stride);
    four c = *(const four *)(from + 2 * from_stride), d = *(const four *)(from + 3 * from_stride);
    four ab_low = SHUFFLE(a, b, 0, 4, 1, 5), ab_high = SHUFFLE(a, b, 2, 6, 3, 7);
    four cd_low = SHUFFLE(c, d, 0, 4, 1, 5), cd_high = SHUFFLE(c, d, 2, 6, 3, 7);
    *(four *)to = SHUFFLE(ab_low, cd_low, 0, 1, 4, 5);
    *(four *)(to + to_stride) = SHUFFLE(ab_low, cd_low, 2, 3, 6, 7);
    *(four *)(to + 2 * to_stride) = SHUFFLE(ab_high, cd_high, 0, 1, 4, 5);
    *(four *)(to + 3 * to_stride) = SHUFFLE(ab_high, cd_high, 2, 3, 6, 7);
}

/* to[j][i] = from[i][j]. Rows are taken by four: there is something to read and room to write after the last. */
INLINE void transpose(const float *from, int from_stride, float *to, int to_stride, int rows, int columns) {
    for (int i = 0; i < rows; i += 4) {
        int j = 0;
        for (; j + 4 <= columns; j += 4)
            transpose_four(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
        for (; j < columns; j++)
            for (int k = i; k < i + 4; k++) to[j * to_stride + k] = from[k * from_stride + j];
    }
}

/* A loop over `count` rows in tiles of at most TILE_ROWS that differ by one row at most: 16 = 6 + 5 + 5. The body
 * is compiled for both sizes, with ROWS a constant. */
#define TILES(count) (((count) + TILE_ROWS - 1) / TILE_ROWS)
#define FOR_TILES(first, count, CALL)                                                                       \
    do {                                                                                                    \
        const int many = TILES(count), least = (count) / many, larger_ones = (count) % many;                \
        for (int tile_ = 0; tile_ < larger_ones; tile_++) {                                                 \
            const int ROWS = least + 1, first = tile_ * ROWS;                                               \
            CALL;                                                                                           \
        }                                                                                                   \
        for (int tile_ = larger_ones; tile_ < many; tile_++) {                                              \
            const int ROWS = least, first = larger_ones + tile_ * ROWS;                                     \
            CALL;                                                                                           \
        }                                                                                                   \
    } while (0)
