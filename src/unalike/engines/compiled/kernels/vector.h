/* Vectors of V floats, by the vector extensions that GCC and Clang share: no instruction set is named.
 *
 * Every activation is laid out [channel][row][column][BLOCK]: the rows of a batch are innermost, so that a vector
 * holds the same number of V rows of the batch. BLOCK rows go through the net at a time, in groups of LANES; of a
 * shorter block the last V or fewer are a group of one vector. It is filled up with rows of zeros, whose gradient
 * is zero.
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
#define PREFETCH(at) __builtin_prefetch(at)

typedef float vector __attribute__((vector_size(4 * V), may_alias));
typedef float loose __attribute__((vector_size(4 * V), aligned(4), may_alias)); /* at any address */
typedef int32_t mask __attribute__((vector_size(4 * V), may_alias));
typedef uint32_t bits __attribute__((vector_size(4 * V), may_alias));
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

INLINE vector either(mask where, vector a, vector b) {
    return (vector)(((mask)a & where) | ((mask)b & ~where));
}

INLINE vector larger(vector a, vector b) {
    return either(a >= b, a, b);
}

/* The lanes before `count`. */
INLINE mask lanes_before(int count) {
    mask number;
    UNROLL for (int i = 0; i < V; i++) number[i] = i;
    return number < count;
}

/* e^x for x of at most 0, to 1e-7 of itself; below -86 it is e^-86. What is not a number stays so. */
INLINE vector exponential(vector x) {
    const vector shift = (vector){0} + 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    x = either(x < -86.0f, (vector){0} - 86.0f, x);
    vector whole = x * 1.44269504f + shift;
    const bits power = ((bits)whole + 127u) << 23;
    whole -= shift;
    vector r = x - whole * 0.693359375f; /* log 2 in two parts */
    r += whole * 2.12194440e-4f;
    vector p = (vector){0} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * r * r + r + 1.0f) * (vector)power;
}

/* log x for x of at least 1e-30, to 1e-7. What is not a number stays so. */
INLINE vector logarithm(vector x) {
    const mask power = ((mask)x - 0x3f3504f3) >> 23; /* x = 2^power m, m from sqrt(1/2) to sqrt(2) */
    const vector whole = __builtin_convertvector(power, vector);
    const vector f = (vector)((bits)x - ((bits)power << 23)) - 1.0f;
    vector p = (vector){0} + 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    const vector square = f * f;
    const vector low = p * f * square - whole * 2.12194440e-4f - 0.5f * square;
    return f + low + whole * 0.693359375f + (x - x);
}

INLINE float sum_of(vector a) {
    float total = 0;
    UNROLL for (int i = 0; i < V; i++) total += a[i];
    return total;
}

INLINE int at_least(int a, int b) { return a > b ? a : b; }
INLINE int at_most(int a, int b) { return a < b ? a : b; }

/* The lanes that `count` numbers need. */
INLINE int lanes_for(int count) { return (count + V - 1) / V * V; }

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

/* A loop over `lanes` lanes, a multiple of V, in groups of LANES and then of V. The body is compiled for both,
 * with VECTORS a constant. */
#define FOR_LANES(first, lanes, CALL)                                                                       \
    do {                                                                                                    \
        int first = 0;                                                                                      \
        for (; first + LANES <= (lanes); first += LANES) {                                                  \
            const int VECTORS = TILE_VECTORS;                                                               \
            CALL;                                                                                           \
        }                                                                                                   \
        for (; first < (lanes); first += V) {                                                               \
            const int VECTORS = 1;                                                                          \
            CALL;                                                                                           \
        }                                                                                                   \
    } while (0)
