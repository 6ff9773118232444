// A tree that grows: its nodes, the rows of each in every part, and the words of the rows.

typedef struct {
    int32_t *feature, *bin, *left, *right;
    uint8_t *missing_left;
    double *value, *gain, *cover;
    int64_t *rows;
} Tree;

typedef struct {
    int64_t sums[MOST_CHANNELS], depth;
    double lower, upper;
    int64_t *hist;
    int last;  // whether it is split, and nobody will ask where its rows are
    uint16_t leaf;
    int32_t parent;
    Found found;
    Side side;
} Node;

// The rows of a thread's task, from..to, and how many of them may be added up before packed sums could overflow.
typedef struct {
    int64_t from, to, chunk;
} Part;

// The rows of a node in a part, as places in the part's order.
typedef struct {
    int32_t start, end;
} Piece;

// What a thread has added up for a node.
typedef struct {
    int64_t *hist;
    int filled;
} Partial;

#define BATCH 64  // nodes whose histograms are added up at a time
typedef struct {
    const Binned *b;
    const Settings *s;
    const int32_t *g, *h;
    const uint8_t *allowed;
    const int8_t *signs;
    Tree *tree;
    Arena *arena;
    Share team;
    Node *nodes;
    int64_t *words;
    const int32_t *all;  // all rows in their order, where none is left out
    int32_t *order, *rights;
    int64_t rows, size, parts;
    Part *part;
    Piece *pieces;  // [nodes][parts]
    char *private, *search;
    size_t private_size, search_size;
    int32_t *wanted, *splits;
    int64_t wanted_count, split_count, batch, batch_count;  // the batch begins at wanted[batch]
    Partial *partial;  // [batch_count][threads]
    atomic_llong sum_g, sum_h;
    const double *before;  // the margins before this tree; they may be `margins` themselves
    double *margins, *leaf_value;
    uint16_t *leaf;
    int64_t stride;
} Growth;

// The rows of a part in the order of nodes; behind each part there are AHEAD more entries, which are 0.
static int32_t *order_of(const Growth *w, int64_t part) { return w->order + w->part[part].from + part * AHEAD; }

static Piece *piece_of(const Growth *w, int64_t node, int64_t part) { return &w->pieces[node * w->parts + part]; }

static const int32_t *rows_of(const Growth *w, int64_t node, int64_t part) {
    const int32_t *first = node == 0 && w->all ? w->all + w->part[part].from : order_of(w, part);
    return first + piece_of(w, node, part)->start;
}

static int64_t leaves(const Growth *w) { return (w->size + 1) / 2; }

static int may_split(const Growth *w, int64_t node) {
    const Node *n = &w->nodes[node];
    const Settings *s = w->s;
    return n->sums[1] >= 2 * s->least_sum && (s->channels == 2 || n->sums[2] >= 2 * s->least_rows) &&
           n->depth < s->depth;
}

static Node blank(void) {
    Node n;
    memset(&n, 0, sizeof n);
    n.parent = -1;
    n.found.feature = -1;
    return n;
}

// Words: both derivatives of a row in one. Sums of all, and the chunk of the part.
static void pack(Growth *w, int64_t part) {
    const int32_t *restrict g = w->g, *restrict h = w->h, *order = w->all ? NULL : order_of(w, part);
    int64_t *restrict words = w->words, sum_g = 0, sum_h = 0, from = w->part[part].from, to = w->part[part].to;
    int32_t most_g = 0, most_h = 0;
#define PACK(ROW)                                                  \
    words[ROW] = (int64_t)((uint64_t)g[ROW] << 32) + h[ROW];       \
    sum_g += g[ROW];                                               \
    sum_h += h[ROW];                                               \
    int32_t size = g[ROW] < 0 ? -g[ROW] : g[ROW];                  \
    most_g = size > most_g ? size : most_g;                        \
    most_h = h[ROW] > most_h ? h[ROW] : most_h;
    if (order)
        for (int64_t i = 0; i < to - from; i++) {
            int64_t row = order[i];
            PACK(row)
        }
    else
        for (int64_t i = from; i < to; i++) {
            PACK(i)
        }
    atomic_fetch_add(&w->sum_g, sum_g);
    atomic_fetch_add(&w->sum_h, sum_h);
    w->part[part].chunk = most_rows(most_g, most_h, w->s->channels);
}

static int start(Growth *w, int64_t most_nodes, const int32_t *rows) {
    Arena *a = w->arena;
    const Binned *b = w->b;
    int64_t threads = w->team.threads, count = w->rows, parts = w->parts = parts_of(count, threads);
    prepare(a, b->slots, w->s->channels);
    w->private_size = (size_t)(packed_slots(b) * (w->s->channels == 3 ? 16 : 8) + 127) / 64 * 64;
    w->search_size = scan_size(b);
    w->words = room(&a->words, 8 * (size_t)b->rows);
    w->order = room(&a->order, 4 * (size_t)(count + parts * AHEAD + 1));
    w->rights = room(&a->rights, 4 * (size_t)(count + 1));
    w->private = room(&a->private, w->private_size * (size_t)threads);
    w->search = room(&a->search, w->search_size * (size_t)threads);
    w->nodes = room(&a->nodes, sizeof(Node) * (size_t)most_nodes);
    w->part = room(&a->parts, sizeof(Part) * (size_t)parts);
    w->pieces = room(&a->pieces, sizeof(Piece) * (size_t)(most_nodes * parts));
    w->wanted = room(&a->picked, 8 * (size_t)most_nodes);
    w->splits = w->wanted + most_nodes;
    w->partial = room(&a->partial, sizeof(Partial) * (size_t)(BATCH * threads));
    if (!w->words || !w->order || !w->rights || !w->private || !w->search || !w->nodes || !w->part || !w->pieces ||
        !w->wanted || !w->partial ||
        (!rows && !(w->all = identity(a, count, AHEAD + 1))))
        return 0;
    memset(w->private, 0, w->private_size * (size_t)threads);
    for (int64_t p = 0; p < parts; p++) {
        int64_t from = part_from(count, p, parts), to = part_from(count, p + 1, parts);
        w->part[p] = (Part){from, to, 0};
        *piece_of(w, 0, p) = (Piece){0, (int32_t)(to - from)};
        if (rows) memcpy(order_of(w, p), rows + from, 4 * (size_t)(to - from));
        memset(order_of(w, p) + (to - from), 0, 4 * AHEAD);
    }
    w->nodes[0] = blank();
    w->size = 1;
    return 1;
}

// Add the rows of a wanted node in a part to what this thread has added up for it.
static void add_piece(Growth *w, int64_t place, int64_t part, int thread) {
    int64_t node = w->wanted[w->batch + place], channels = w->s->channels, chunk = w->part[part].chunk;
    Partial *partial = &w->partial[place * w->team.threads + thread];
    const Piece *piece = piece_of(w, node, part);
    const int32_t *rows = rows_of(w, node, part);
    int64_t count = piece->end - piece->start;
    void *sums = w->private + (size_t)thread * w->private_size;
    for (int64_t from = 0; from < count; from += chunk) {
        add_rows(w->b, w->words, rows + from, count - from < chunk ? count - from : chunk, sums, channels == 3);
        flush(w->b, sums, partial->hist, channels, !partial->filled);
        partial->filled = 1;
    }
}

// Room for what every thread adds up for the nodes of the batch.
static void make_room(Growth *w) {
    for (int64_t i = 0; i < w->batch_count * w->team.threads; i++) w->partial[i] = (Partial){take_sums(w->arena), 0};
}

// What all threads have added up for a node becomes its histogram; the room of the others is not needed any more.
static void merge(Growth *w, int64_t place) {
    Partial *partial = &w->partial[place * w->team.threads], *first = partial;
    int64_t slots = w->b->slots * w->s->channels;
    for (int t = 1; t < w->team.threads && !first->filled; t++) first = &partial[t];
    if (!first->filled) memset(first->hist, 0, sizeof *first->hist * (size_t)slots);  // it has no rows
    int64_t *restrict all = first->hist;
    for (Partial *p = first + 1; p < partial + w->team.threads; p++) {
        const int64_t *restrict more = p->hist;
        if (p->filled)
            for (int64_t s = 0; s < slots; s++) all[s] += more[s];
    }
    w->nodes[w->wanted[w->batch + place]].hist = all;
    first->hist = NULL;
}

static void give_room(Growth *w) {
    for (int64_t i = 0; i < w->batch_count * w->team.threads; i++) give_sums(w->arena, w->partial[i].hist);
}

// The words of a part, and the root's histogram.
static void root_task(void *what, int64_t part, int thread) {
    pack(what, part);
    add_piece(what, 0, part, thread);
}

static void begin(Growth *w) {
    w->wanted[0] = 0;
    w->batch_count = 1;
    make_room(w);
    if (w->arena->failed) return;
    team_do(w->team, root_task, w, w->parts);
    Node *root = &w->nodes[0];
    root->sums[0] = w->sum_g;
    root->sums[1] = w->sum_h;
    root->sums[2] = w->s->channels == 3 ? w->rows : 0;
}
