// Rows to the left and to the right of a split, in their order.

typedef struct {
    uint32_t first, lefts, from, to;  // codes from `first` on: the lowest `lefts`, and from..to, go left
} Side;

static Side side_of(const Binned *b, int64_t feature, int32_t bin, int missing_left) {
    int32_t first = b->first[feature], used = b->used[feature], missing = missing_bin(b, feature), lefts = 0;
    while (lefts < used && b->slot_bin[first + lefts] <= bin) lefts++;
    int has_missing = used && b->slot_bin[first + used - 1] == missing;
    int plain_left = b->plain[feature] == missing ? missing_left : b->plain[feature] <= bin;
    int to_left = has_missing && missing_left;
    Side s = {(uint32_t)(first - b->base[b->place[feature]]), (uint32_t)lefts, 1, 0};
    if (plain_left) {
        s.from = (uint32_t)(used - to_left);
        s.to = UINT32_MAX;
    } else if (to_left)
        s.from = s.to = (uint32_t)(used - 1);
    return s;
}

INLINE int64_t goes_left(uint32_t code, Side s) {
    uint32_t c = code - s.first;
    return (c < s.lefts) | ((c >= s.from) & (c <= s.to));
}

#ifdef __AVX512F__
// Sixteen rows at a time; what is written beyond what counts stays within the first `i + 16` places, which are read.
INLINE int64_t divide_sixteens(const void *column, const int bytes, const int32_t *order, int64_t from, int64_t n,
                               Side s, int32_t *lefts, int32_t *rights, int64_t *done) {
    const __m512i first = _mm512_set1_epi32((int)s.first), count = _mm512_set1_epi32((int)s.lefts);
    const __m512i low = _mm512_set1_epi32((int)s.from), high = _mm512_set1_epi32((int)s.to);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int64_t l = 0, i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512i rows, c;
        if (!order) {
            rows = _mm512_add_epi32(_mm512_set1_epi32((int)(from + i)), lanes);
            c = bytes == 1 ? _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)((const char *)column + from + i)))
                           : _mm512_cvtepu16_epi32(
                                 _mm256_loadu_si256((const void *)((const char *)column + 2 * (from + i))));
        } else {
            rows = _mm512_loadu_si512(order + i);
            c = bytes == 1 ? _mm512_and_si512(_mm512_i32gather_epi32(rows, column, 1), _mm512_set1_epi32(0xff))
                           : _mm512_and_si512(_mm512_i32gather_epi32(rows, column, 2), _mm512_set1_epi32(0xffff));
        }
        c = _mm512_sub_epi32(c, first);
        __mmask16 left = _mm512_cmplt_epu32_mask(c, count) |
                         (_mm512_cmpge_epu32_mask(c, low) & _mm512_cmple_epu32_mask(c, high));
        _mm512_storeu_si512(lefts + l, _mm512_maskz_compress_epi32(left, rows));
        _mm512_storeu_si512(rights + i - l, _mm512_maskz_compress_epi32((__mmask16)~left, rows));
        l += __builtin_popcount(left);
    }
    *done = i;
    return l;
}
#define SIXTEENS(CODE) l = divide_sixteens(column, sizeof(CODE), order, from, n, s, lefts, rights, &i)
#else
#define SIXTEENS(CODE)
#endif

#define DIVIDE(NAME, CODE)                                                                                         \
    INLINE int64_t NAME(const CODE *column, const int32_t *order, int64_t from, int64_t n, Side s, int32_t *lefts, \
                        int32_t *rights) {                                                                         \
        int64_t l = 0, i = 0;                                                                                      \
        SIXTEENS(CODE);                                                                                            \
        int64_t r = i - l;                                                                                         \
        for (; i < n; i++) {                                                                                       \
            int32_t row = order ? order[i] : (int32_t)(from + i);                                                  \
            int64_t left = goes_left(column[row], s);                                                              \
            lefts[l] = row;                                                                                        \
            rights[r] = row;                                                                                       \
            l += left;                                                                                             \
            r += 1 - left;                                                                                         \
        }                                                                                                          \
        return l;                                                                                                  \
    }
DIVIDE(divide_narrow, uint8_t)
DIVIDE(divide_wide, uint16_t)

// The rows that go left; `lefts` may be `order` itself. Where `order` is NULL: the rows from `from` on.
static int64_t divide(const Binned *b, int64_t feature, const int32_t *order, int64_t from, int64_t n, Side s,
                      int32_t *lefts, int32_t *rights) {
    int64_t at = (int64_t)b->place[feature] * b->rows;
    if (b->wide) {
        const uint16_t *column = (const uint16_t *)b->columns + at;
        return order ? divide_wide(column, order, 0, n, s, lefts, rights)
                     : divide_wide(column, NULL, from, n, s, lefts, rights);
    }
    const uint8_t *column = (const uint8_t *)b->columns + at;
    return order ? divide_narrow(column, order, 0, n, s, lefts, rights)
                 : divide_narrow(column, NULL, from, n, s, lefts, rights);
}

// Add one of two values to the margins of rows, by the side that they are on.
#define SETTLE(NAME, CODE)                                                                                         \
    static void NAME(const CODE *column, const int32_t *order, int64_t n, Side s, double left, double right,       \
                     double *margins, int64_t stride) {                                                            \
        const double value[2] = {right, left};                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            __builtin_prefetch(margins + order[i + AHEAD] * stride, 1);                                            \
            int64_t row = order[i];                                                                                \
            margins[row * stride] += value[goes_left(column[row], s)];                                              \
        }                                                                                                          \
    }
SETTLE(settle_narrow, uint8_t)
SETTLE(settle_wide, uint16_t)
