// Histograms: each row's derivatives are added to the slots of its codes.
//
// First and second derivative are one 64-bit word, g << 32 | h. Sums of words are sums of both as long as neither
// overflows its half, so after `most` rows they are moved to int64. Where rows are counted a slot is two words, of g
// and of count << 40 | h, which are added as one vector.

typedef int64_t pair __attribute__((vector_size(16)));
#define AHEAD 24
#define H_BITS 40
#define INLINE static inline __attribute__((always_inline))

#define ADD_ROWS(NAME, CODE)                                                                                       \
    INLINE void NAME##_any(const CODE *codes, const int64_t *words, const int32_t *order, int64_t n, void *sums,    \
                           int64_t stride, const int64_t places, const int counted) {                              \
        int64_t *one = sums;                                                                                       \
        pair *two = sums;                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            int64_t ahead = order[i + AHEAD];                                                                      \
            __builtin_prefetch(codes + ahead * stride);                                                            \
            __builtin_prefetch(codes + ahead * stride + places - 1);                                               \
            __builtin_prefetch(words + ahead);                                                                     \
            int64_t row = order[i], word = words[row];                                                             \
            const CODE *code = codes + row * stride;                                                               \
            if (counted) {                                                                                         \
                pair both = {word >> 32, (word & 0xffffffff) | ((int64_t)1 << H_BITS)};                            \
                _Pragma("GCC unroll 32") for (int64_t k = 0; k < places; k++) two[code[k]] += both;                \
            } else {                                                                                               \
                _Pragma("GCC unroll 32") for (int64_t k = 0; k < places; k++) one[code[k]] += word;                \
            }                                                                                                      \
        }                                                                                                          \
    }
ADD_ROWS(narrow, uint16_t)
ADD_ROWS(wide, uint32_t)

#define CASE(K)                                                                                                    \
    case K:                                                                                                        \
        if (counted)                                                                                               \
            narrow_any(codes, words, order, n, sums, K, K, 1);                                                     \
        else                                                                                                       \
            narrow_any(codes, words, order, n, sums, K, K, 0);                                                     \
        break;

// `order` must have AHEAD more entries that are numbers of rows.
static void add_rows(const Binned *b, const int64_t *words, const int32_t *order, int64_t n, void *sums, int counted) {
    int64_t places = b->places;
    if (b->wide) {
        if (counted)
            wide_any(b->codes, words, order, n, sums, places, places, 1);
        else
            wide_any(b->codes, words, order, n, sums, places, places, 0);
        return;
    }
    const uint16_t *codes = b->codes;
    switch (places) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19) CASE(20) CASE(21) CASE(22) CASE(23) CASE(24)
        default:
            if (counted)
                narrow_any(codes, words, order, n, sums, places, places, 1);
            else
                narrow_any(codes, words, order, n, sums, places, places, 0);
    }
}

// Move packed sums to int64 [channels][slots] and leave zeros; `fresh`: there is nothing yet to add to.
static void flush(void *sums, int64_t *to, int64_t slots, int64_t channels, int fresh) {
    if (channels == 2) {
        int64_t *one = sums, *g = to, *h = to + slots;
        if (fresh)
            for (int64_t s = 0; s < slots; s++) {
                g[s] = one[s] >> 32;
                h[s] = one[s] & 0xffffffff;
                one[s] = 0;
            }
        else
            for (int64_t s = 0; s < slots; s++) {
                g[s] += one[s] >> 32;
                h[s] += one[s] & 0xffffffff;
                one[s] = 0;
            }
        return;
    }
    int64_t *two = sums, *g = to, *h = to + slots, *n = to + 2 * slots, mask = ((int64_t)1 << H_BITS) - 1;
    for (int64_t s = 0; s < slots; s++) {
        int64_t a = two[2 * s], c = two[2 * s + 1];
        g[s] = (fresh ? 0 : g[s]) + a;
        h[s] = (fresh ? 0 : h[s]) + (c & mask);
        n[s] = (fresh ? 0 : n[s]) + (int64_t)((uint64_t)c >> H_BITS);
        two[2 * s] = two[2 * s + 1] = 0;
    }
}

// How many rows may be added before packed sums could overflow.
static int64_t most_rows(int64_t greatest_g, int64_t greatest_h, int64_t channels) {
    int64_t by_g = ((int64_t)1 << 31) - 1, by_h = ((int64_t)1 << 32) - 1, most = (int64_t)1 << 23;
    if (channels == 3) {
        by_g = INT64_MAX;
        by_h = ((int64_t)1 << H_BITS) - 1;
    }
    if (greatest_g && by_g / greatest_g < most) most = by_g / greatest_g;
    if (greatest_h && by_h / greatest_h < most) most = by_h / greatest_h;
    return most;
}
