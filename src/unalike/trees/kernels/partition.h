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

// How many codes are looked up before they are compared: a vector that is read where bytes have just been written waits.
#define LOOKED_UP 512

#define LOOK_UP(NAME, CODE)                                                                                        \
    INLINE void NAME(const CODE *column, const int32_t *order, int64_t n, CODE *codes) {                           \
        int64_t i = 0;                                                                                             \
        for (; i + 4 <= n; i += 4) {                                                                               \
            codes[i] = column[order[i]];                                                                           \
            codes[i + 1] = column[order[i + 1]];                                                                   \
            codes[i + 2] = column[order[i + 2]];                                                                   \
            codes[i + 3] = column[order[i + 3]];                                                                   \
        }                                                                                                          \
        for (; i < n; i++) codes[i] = column[order[i]];                                                            \
    }
LOOK_UP(look_up_narrow, uint8_t)
LOOK_UP(look_up_wide, uint16_t)

#ifdef __AVX512BW__
// Which of 64 codes (of two bytes: 32) go left, as bits. Codes less `first` may wrap around: a column has at most one
// code less than there are numbers, so none of another column comes to lie among its own.
INLINE uint64_t which_go_left(const void *codes, const int bytes, Side s) {
    __m512i c = _mm512_loadu_si512(codes);
    if (bytes == 1) {
        uint32_t to = s.to < 0xff ? s.to : 0xff;
        c = _mm512_sub_epi8(c, _mm512_set1_epi8((char)s.first));
        return _mm512_cmplt_epu8_mask(c, _mm512_set1_epi8((char)s.lefts)) |
               (_mm512_cmpge_epu8_mask(c, _mm512_set1_epi8((char)s.from)) &
                _mm512_cmple_epu8_mask(c, _mm512_set1_epi8((char)to)));
    }
    uint32_t to = s.to < 0xffff ? s.to : 0xffff;
    c = _mm512_sub_epi16(c, _mm512_set1_epi16((short)s.first));
    return _mm512_cmplt_epu16_mask(c, _mm512_set1_epi16((short)s.lefts)) |
           (_mm512_cmpge_epu16_mask(c, _mm512_set1_epi16((short)s.from)) &
            _mm512_cmple_epu16_mask(c, _mm512_set1_epi16((short)to)));
}

// The rows of whole vectors of codes. Sixteen are written at a time; what is beyond those that count stays within the
// first `i + 16` places, which have been read.
INLINE int64_t divide_vectors(const void *codes, const int bytes, const int32_t *order, int64_t from, int64_t n, Side s,
                              int32_t *lefts, int32_t *rights) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int64_t vector = 64 / bytes;
    int64_t l = 0;
    for (int64_t i = 0; i < n; i += vector) {
        uint64_t left = which_go_left((const char *)codes + i * bytes, bytes, s);
        _Pragma("GCC unroll 4") for (int64_t k = 0; k < vector; k += 16) {
            __m512i rows = order ? _mm512_loadu_si512(order + i + k)
                                 : _mm512_add_epi32(_mm512_set1_epi32((int)(from + i + k)), lanes);
            __mmask16 here = (__mmask16)(left >> k);
            _mm512_storeu_si512(lefts + l, _mm512_maskz_compress_epi32(here, rows));
            _mm512_storeu_si512(rights + i + k - l, _mm512_maskz_compress_epi32((__mmask16)~here, rows));
            l += __builtin_popcount(here);
        }
    }
    return l;
}
#define VECTORS(LOOK, CODE)                                                                                        \
    CODE codes[LOOKED_UP];                                                                                         \
    const int64_t vector = 64 / sizeof(CODE);                                                                      \
    while (i + vector <= n) {                                                                                      \
        int64_t now = (n - i < LOOKED_UP ? n - i : LOOKED_UP) / vector * vector;                                   \
        if (order) LOOK(column, order + i, now, codes);                                                            \
        l += divide_vectors(order ? codes : column + from + i, sizeof(CODE), order ? order + i : NULL, from + i,   \
                            now, s, lefts + l, rights + i - l);                                                    \
        i += now;                                                                                                  \
    }
#else
#define VECTORS(LOOK, CODE)
#endif

#define DIVIDE(NAME, LOOK, CODE)                                                                                   \
    INLINE int64_t NAME(const CODE *column, const int32_t *order, int64_t from, int64_t n, Side s, int32_t *lefts, \
                        int32_t *rights) {                                                                         \
        int64_t l = 0, i = 0;                                                                                      \
        VECTORS(LOOK, CODE)                                                                                        \
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
DIVIDE(divide_narrow, look_up_narrow, uint8_t)
DIVIDE(divide_wide, look_up_wide, uint16_t)

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

// Note for each row the leaf that it ends in, which is one of two.
#define SETTLE(NAME, LOOK, CODE)                                                                                   \
    static void NAME(const CODE *column, const int32_t *order, int64_t n, Side s, uint16_t left, uint16_t right,   \
                     uint16_t *leaf) {                                                                             \
        CODE codes[LOOKED_UP];                                                                                     \
        uint16_t ends[LOOKED_UP];                                                                                  \
        for (int64_t from = 0; from < n; from += LOOKED_UP, order += LOOKED_UP) {                                  \
            int64_t now = n - from < LOOKED_UP ? n - from : LOOKED_UP;                                             \
            LOOK(column, order, now, codes);                                                                       \
            for (int64_t i = 0; i < now; i++) ends[i] = goes_left(codes[i], s) ? left : right;                     \
            for (int64_t i = 0; i < now; i++) leaf[order[i]] = ends[i];                                            \
        }                                                                                                          \
    }
SETTLE(settle_narrow, look_up_narrow, uint8_t)
SETTLE(settle_wide, look_up_wide, uint16_t)
