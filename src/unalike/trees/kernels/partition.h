// Rows to the left and to the right of a split, in their order.

typedef struct {
    uint32_t first, lefts, from, to;  // codes from `first` on: the lowest `lefts` and those from..to go left
} Side;

static Side side_of(const Binned *b, int64_t feature, int32_t bin, int missing_left) {
    int32_t first = b->first[feature], used = b->used[feature], missing = missing_bin(b, feature), lefts = 0;
    while (lefts < used && b->slot_bin[first + lefts] <= bin) lefts++;
    int has_missing = used && b->slot_bin[first + used - 1] == missing;
    int plain_left = b->plain[feature] == missing ? missing_left : b->plain[feature] <= bin;
    int to_left = has_missing && missing_left;
    Side s = {(uint32_t)first, (uint32_t)lefts, 1, 0};
    if (plain_left) {
        s.from = (uint32_t)(used - to_left);
        s.to = UINT32_MAX;
    } else if (to_left)
        s.from = s.to = (uint32_t)(used - 1);
    return s;
}

#define DIVIDE(NAME, CODE)                                                                                         \
    static int64_t NAME(const CODE *column, const int32_t *order, int64_t n, Side s, int32_t *lefts,               \
                        int32_t *rights) {                                                                         \
        int64_t l = 0, r = 0;                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            int32_t row = order[i];                                                                                \
            uint32_t c = (uint32_t)column[row] - s.first;                                                          \
            int64_t left = (c < s.lefts) | ((c >= s.from) & (c <= s.to));                                          \
            lefts[l] = row;                                                                                        \
            rights[r] = row;                                                                                       \
            l += left;                                                                                             \
            r += 1 - left;                                                                                         \
        }                                                                                                          \
        return l;                                                                                                  \
    }
DIVIDE(divide_narrow, uint16_t)
DIVIDE(divide_wide, uint32_t)

// The rows that go left; `lefts` may be `order` itself.
static int64_t divide(const Binned *b, int64_t feature, const int32_t *order, int64_t n, Side s, int32_t *lefts,
                      int32_t *rights) {
    int64_t at = (int64_t)b->place[feature] * b->rows;
    if (b->wide) return divide_wide((const uint32_t *)b->columns + at, order, n, s, lefts, rights);
    return divide_narrow((const uint16_t *)b->columns + at, order, n, s, lefts, rights);
}
