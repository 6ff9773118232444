// Binned rows, as Python hands them over, and the memory that is kept from one tree to the next.
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 64
#define MOST_CHANNELS 3

// Rows by bin. A row is `places` codes, each a slot of the short histogram counted from its place's base; see bins.py.
typedef struct {
    int64_t rows, places, slots, features, wide;
    const void *codes;    // [rows][places], uint8, or uint16 where `wide`
    const void *columns;  // the same as [places][rows]
    const int32_t *place, *first, *used, *plain, *before;
    const int32_t *base;  // [places + 1], where each place's slots begin
    const int32_t *slot_bin;
    const int64_t *slot_full, *offsets;
} Binned;

typedef struct {
    int64_t depth, most_leaves, by_leaf, channels, least_sum, least_rows, bounded;
    double l2, gain, eta, lower, upper;
} Settings;

static inline int32_t missing_bin(const Binned *b, int64_t feature) {
    return (int32_t)(b->offsets[feature + 1] - b->offsets[feature] - 1);
}

// Memory that grows where it must and is used again for the next tree: fresh pages are dear.
typedef struct {
    void *memory;
    size_t size;
} Room;

static void *room(Room *r, size_t size) {
    if (r->size < size) {
        free(r->memory);
        r->memory = NULL;
        r->size = 0;
        if (posix_memalign(&r->memory, 64, size + 64)) return r->memory = NULL;
        r->size = size;
    }
    return r->memory;
}

typedef struct {
    int64_t slots, channels;
    int64_t **free_sums;  // histograms that nobody uses now
    int64_t free_count, free_room, identity_rows;
    Room identity, words, order, lefts, rights, private, search, nodes, parts, pieces, partial, picked, leaf, leaf_value;
    int failed;
} Arena;

Arena *arena_new(void) { return calloc(1, sizeof(Arena)); }

static void drop_sums(Arena *a) {
    for (int64_t i = 0; i < a->free_count; i++) free(a->free_sums[i]);
    a->free_count = 0;
}

void arena_free(Arena *a) {
    drop_sums(a);
    free(a->free_sums);
    Room *rooms[] = {&a->identity, &a->words, &a->order, &a->lefts, &a->rights,
                     &a->private,  &a->search, &a->nodes, &a->parts, &a->pieces, &a->partial,
                     &a->picked,   &a->leaf, &a->leaf_value};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]->memory);
    free(a);
}

// All rows in their order; `more` entries behind them are 0.
static const int32_t *identity(Arena *a, int64_t rows, int64_t more) {
    if (a->identity_rows == rows) return a->identity.memory;
    int32_t *to = room(&a->identity, 4 * (size_t)(rows + more));
    if (!to) return NULL;
    for (int64_t i = 0; i < rows; i++) to[i] = (int32_t)i;
    memset(to + rows, 0, 4 * (size_t)more);
    a->identity_rows = rows;
    return to;
}

// A histogram of sums: [channels][slots] of int64.
static int64_t *take_sums(Arena *a) {
    if (a->free_count) return a->free_sums[--a->free_count];
    void *memory = NULL;
    if (posix_memalign(&memory, 64, sizeof(int64_t) * (size_t)(a->slots * a->channels) + 64)) a->failed = 1;
    return memory;
}

static void give_sums(Arena *a, int64_t *sums) {
    if (!sums) return;
    if (a->free_count == a->free_room) {
        int64_t more = a->free_room ? 2 * a->free_room : 64;
        int64_t **bigger = realloc(a->free_sums, sizeof(int64_t *) * (size_t)more);
        if (!bigger) {
            free(sums);
            return;
        }
        a->free_sums = bigger;
        a->free_room = more;
    }
    a->free_sums[a->free_count++] = sums;
}

static void prepare(Arena *a, int64_t slots, int64_t channels) {
    if (a->slots != slots || a->channels != channels) drop_sums(a);
    a->slots = slots;
    a->channels = channels;
    a->failed = 0;
}
