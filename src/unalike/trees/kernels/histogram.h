// Histograms: each row's derivatives are added to the slots of its codes.
//
// First and second derivative are one 64-bit word, g << 32 | h. Sums of words are sums of both as long as neither
// overflows its half, so after `most` rows they are moved to int64. Where rows are counted a slot is two words, of g
// and of count << 40 | h, which are added as one vector.

typedef int64_t pair __attribute__((vector_size(16)));
#define AHEAD 24
#define H_BITS 40
#define INLINE static inline __attribute__((always_inline))

// Places with codes of one byte lie this far apart, so that a slot's address is a constant and the code.
#define APART 264

#define ADD_ROWS(NAME, CODE, AT)                                                                                   \
    INLINE void NAME(const CODE *codes, const int64_t *words, const int32_t *order, int64_t n, void *sums,          \
                     const int32_t *base, const int64_t places, const int counted) {                               \
        int64_t *one = sums;                                                                                       \
        pair *two = sums;                                                                                          \
        (void)base;                                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            int64_t ahead = order[i + AHEAD];                                                                      \
            __builtin_prefetch(codes + ahead * places);                                                            \
            __builtin_prefetch(words + ahead);                                                                     \
            int64_t row = order[i], word = words[row];                                                             \
            const CODE *code = codes + row * places;                                                               \
            if (counted) {                                                                                         \
                pair both = {word >> 32, (word & 0xffffffff) | ((int64_t)1 << H_BITS)};                            \
                _Pragma("GCC unroll 32") for (int64_t k = 0; k < places; k++) two[(AT) + code[k]] += both;         \
            } else {                                                                                               \
                _Pragma("GCC unroll 32") for (int64_t k = 0; k < places; k++) one[(AT) + code[k]] += word;         \
            }                                                                                                      \
        }                                                                                                          \
    }
ADD_ROWS(add_narrow, uint8_t, k *APART)
ADD_ROWS(add_wide, uint16_t, base[k])

#define BOTH(ADD, CODES, K)                                                                                        \
    if (counted)                                                                                                   \
        ADD(CODES, words, order, n, sums, b->base, K, 1);                                                          \
    else                                                                                                           \
        ADD(CODES, words, order, n, sums, b->base, K, 0);
#define CASE(K)                                                                                                    \
    case K:                                                                                                        \
        BOTH(add_narrow, b->codes, K) break;

// `order` must have AHEAD more entries that are numbers of rows.
static void add_rows(const Binned *b, const int64_t *words, const int32_t *order, int64_t n, void *sums, int counted) {
    if (b->wide) {
        BOTH(add_wide, b->codes, b->places)
        return;
    }
    switch (b->places) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19) CASE(20) CASE(21) CASE(22) CASE(23) CASE(24)
        default:
            BOTH(add_narrow, b->codes, b->places)
    }
}

// How many packed slots there are.
static int64_t packed_slots(const Binned *b) { return b->wide ? b->slots : b->places * APART; }

static void flush_place(void *sums, int64_t n, int64_t *to, int64_t slots, int64_t channels) {
    int64_t *restrict g = to, *restrict h = to + slots, mask = ((int64_t)1 << H_BITS) - 1;
    if (channels == 2) {
        int64_t *restrict one = sums;
        for (int64_t s = 0; s < n; s++) {
            g[s] += one[s] >> 32;
            h[s] += one[s] & 0xffffffff;
            one[s] = 0;
        }
        return;
    }
    int64_t *restrict two = sums, *restrict rows = to + 2 * slots;
    for (int64_t s = 0; s < n; s++) {
        int64_t a = two[2 * s], c = two[2 * s + 1];
        g[s] += a;
        h[s] += c & mask;
        rows[s] += (int64_t)((uint64_t)c >> H_BITS);
        two[2 * s] = two[2 * s + 1] = 0;
    }
}

// Add packed sums to int64 [channels][slots] and leave zeros; `fresh`: there is nothing yet to add to.
static void flush(const Binned *b, void *sums, int64_t *to, int64_t channels, int fresh) {
    if (fresh) memset(to, 0, sizeof(int64_t) * (size_t)(b->slots * channels));
    for (int64_t k = 0; k < b->places; k++) {
        int64_t from = b->wide ? b->base[k] : k * APART;
        char *packed = (char *)sums + from * (channels == 3 ? 16 : 8);
        flush_place(packed, b->base[k + 1] - b->base[k], to + b->base[k], b->slots, channels);
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
