// A whole tree in one call: the order of building.py, with histograms of the bins that occur.

typedef struct {
    int32_t *feature, *bin, *left, *right;
    uint8_t *missing_left;
    double *value, *gain, *cover;
    int64_t *rows;
} Tree;

typedef struct {
    int64_t sums[MOST_CHANNELS], start, end, depth;
    double lower, upper;
    int64_t *hist;
    atomic_flag lock;
    int filled, last;
    int32_t parent;
    Found found;
} Node;

typedef struct {
    int64_t node, start, end, lefts;
    Side side;
} Task;

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
    int32_t *order, *lefts, *rights;
    int64_t rows, size, most, chunk;
    char *private, *search;
    size_t private_size, search_size;
    Task *tasks;
    int64_t task_count;
    int32_t *wanted;
    int64_t wanted_count;
    double *margins;
    int64_t stride;
} Growth;

// The rows of a node.
static const int32_t *rows_of(const Growth *w, int64_t node) {
    return (node == 0 && w->all ? w->all : w->order) + w->nodes[node].start;
}

static int task_room(Growth *w, int64_t count) {
    Task *before = w->arena->tasks.memory;
    if (w->arena->tasks.size < sizeof(Task) * (size_t)count) {  // keep what is there
        size_t size = sizeof(Task) * (size_t)(2 * count + 64);
        Task *bigger = realloc(before, size);
        if (!bigger) return w->arena->failed = 1, 0;
        w->arena->tasks.memory = bigger;
        w->arena->tasks.size = size;
    }
    w->tasks = w->arena->tasks.memory;
    return 1;
}

static void cut_up(Growth *w, int64_t node, int64_t size, Side side) {
    int64_t start = w->nodes[node].start, end = w->nodes[node].end;
    do {
        if (!task_room(w, w->task_count + 1)) return;
        int64_t stop = end - start > size ? start + size : end;
        w->tasks[w->task_count++] = (Task){node, start, stop, 0, side};
        start = stop;
    } while (start < end);
}

// --- words: both derivatives of a row in one, their sums, and the greatest of them -------------------------------

#define PACK_ROWS 16384
typedef struct {
    Growth *w;
    atomic_llong sum_g, sum_h, greatest_g, greatest_h;
} Packing;

static void at_least(atomic_llong *what, long long value) {
    long long now = atomic_load(what);
    while (now < value && !atomic_compare_exchange_weak(what, &now, value)) {
    }
}

static void pack_task(void *what, int64_t task, int thread) {
    (void)thread;
    Packing *p = what;
    Growth *w = p->w;
    int64_t from = task * PACK_ROWS, to = from + PACK_ROWS < w->rows ? from + PACK_ROWS : w->rows;
    int64_t sum_g = 0, sum_h = 0;
    int32_t most_g = 0, most_h = 0;
    const int32_t *restrict g = w->g, *restrict h = w->h;
    int64_t *restrict words = w->words;
    if (w->all) {
        for (int64_t i = from; i < to; i++) {
            words[i] = (int64_t)((uint64_t)g[i] << 32) + h[i];
            sum_g += g[i];
            sum_h += h[i];
            int32_t size = g[i] < 0 ? -g[i] : g[i];
            most_g = size > most_g ? size : most_g;
            most_h = h[i] > most_h ? h[i] : most_h;
        }
    } else {
        for (int64_t i = from; i < to; i++) {
            int64_t row = w->order[i];
            words[row] = (int64_t)((uint64_t)g[row] << 32) + h[row];
            sum_g += g[row];
            sum_h += h[row];
            int32_t size = g[row] < 0 ? -g[row] : g[row];
            most_g = size > most_g ? size : most_g;
            most_h = h[row] > most_h ? h[row] : most_h;
        }
    }
    atomic_fetch_add(&p->sum_g, sum_g);
    atomic_fetch_add(&p->sum_h, sum_h);
    at_least(&p->greatest_g, most_g);
    at_least(&p->greatest_h, most_h);
}

// --- histograms ------------------------------------------------------------------------------------------------

static void histogram_task(void *what, int64_t task, int thread) {
    Growth *w = what;
    Task t = w->tasks[task];
    Node *node = &w->nodes[t.node];
    int64_t channels = w->s->channels;
    void *sums = w->private + (size_t)thread * w->private_size;
    add_rows(w->b, w->words, rows_of(w, t.node) + (t.start - node->start), t.end - t.start, sums, channels == 3);
    while (atomic_flag_test_and_set_explicit(&node->lock, memory_order_acquire)) sched_yield();
    flush(w->b, sums, node->hist, channels, !node->filled);
    node->filled = 1;
    atomic_flag_clear_explicit(&node->lock, memory_order_release);
}

static int may_split(const Growth *w, int64_t node) {
    const Node *n = &w->nodes[node];
    const Settings *s = w->s;
    return n->sums[1] >= 2 * s->least_sum && (s->channels == 2 || n->sums[2] >= 2 * s->least_rows) &&
           n->depth < s->depth;
}

static void search_node(Growth *w, int64_t node, int thread) {
    Node *n = &w->nodes[node];
    Scan scan = scan_at(w->search + (size_t)thread * w->search_size, w->search_size);
    n->found = search(w->b, w->s, n->hist, w->b->slots, n->sums, n->lower, n->upper, w->allowed, w->signs, scan);
}

static int64_t sibling_of(const Growth *w, int64_t node) {
    int32_t parent = w->nodes[node].parent;
    return (int64_t)w->tree->left[parent] + w->tree->right[parent] - node;
}

// The wanted node, and its sibling by subtraction in the parent's histogram.
static void search_task(void *what, int64_t task, int thread) {
    Growth *w = what;
    int64_t node = w->wanted[task];
    if (node) {
        int64_t other = sibling_of(w, node), slots = w->b->slots * w->s->channels;
        Node *n = &w->nodes[node], *o = &w->nodes[other];
        if (may_split(w, other)) {
            int64_t *restrict whole = o->hist;
            const int64_t *restrict part = n->hist;
            for (int64_t s = 0; s < slots; s++) whole[s] -= part[s];
            search_node(w, other, thread);
        }
    }
    if (may_split(w, node)) search_node(w, node, thread);
}

static void hear(Growth *w) {
    w->task_count = 0;
    for (int64_t i = 0; i < w->wanted_count; i++) {
        Node *n = &w->nodes[w->wanted[i]];
        n->hist = take_sums(w->arena);
        n->filled = 0;
        if (w->wanted[i]) {
            Node *parent = &w->nodes[n->parent], *other = &w->nodes[sibling_of(w, w->wanted[i])];
            other->hist = parent->hist;
            parent->hist = NULL;
        }
        int64_t size = w->team.threads > 1 && w->chunk > 8192 ? 8192 : w->chunk;
        cut_up(w, w->wanted[i], size, (Side){0, 0, 0, 0});
    }
    if (w->arena->failed) return;
    team_do(w->team, histogram_task, w, w->task_count);
    team_do(w->team, search_task, w, w->wanted_count);
    for (int64_t i = 0; i < w->wanted_count; i++) {
        int64_t pair[2] = {w->wanted[i], w->wanted[i] ? sibling_of(w, w->wanted[i]) : w->wanted[i]};
        for (int k = 0; k < 2; k++) {
            Node *n = &w->nodes[pair[k]];
            if (n->found.feature < 0) {
                give_sums(w->arena, n->hist);
                n->hist = NULL;
            }
        }
    }
}

// --- splits ----------------------------------------------------------------------------------------------------

static void name(Growth *w, int64_t node, double value) {
    const Node *n = &w->nodes[node];
    w->tree->value[node] = value * w->s->eta;
    w->tree->cover[node] = (double)n->sums[1] * GRID;
    if (w->s->channels == 3) w->tree->rows[node] = n->sums[2];
}

static Node blank(void) {
    Node n;
    memset(&n, 0, sizeof n);
    atomic_flag_clear(&n.lock);
    n.parent = -1;
    n.found.feature = -1;
    return n;
}

// Split a node as found; returns the child whose histogram is wanted, or -1.
static int64_t split_node(Growth *w, int64_t node) {
    Tree *tree = w->tree;
    Node *n = &w->nodes[node];
    int64_t left = w->size, right = w->size + 1;
    int32_t feature = n->found.feature;
    w->size += 2;
    tree->feature[node] = feature;
    tree->bin[node] = n->found.bin;
    tree->missing_left[node] = n->found.missing_left;
    tree->gain[node] = n->found.gain;
    tree->left[node] = (int32_t)left;
    tree->right[node] = (int32_t)right;
    double value[2];
    for (int k = 0; k < 2; k++) {
        Node *child = &w->nodes[left + k];
        *child = blank();
        for (int64_t c = 0; c < w->s->channels; c++)  // of others nothing was added up
            child->sums[c] = k ? n->sums[c] - n->found.left[c] : n->found.left[c];
        child->depth = n->depth + 1;
        child->lower = n->lower;
        child->upper = n->upper;
        child->parent = (int32_t)node;
        value[k] = weight_of(w->s, child->sums[0], child->sums[1], n->lower, n->upper);
        name(w, left + k, value[k]);
    }
    double middle = (value[0] + value[1]) / 2.0;
    if (w->signs[feature] > 0) w->nodes[left].upper = w->nodes[right].lower = middle;
    if (w->signs[feature] < 0) w->nodes[left].lower = w->nodes[right].upper = middle;
    if (may_split(w, left) || may_split(w, right))
        return w->nodes[left].sums[1] <= w->nodes[right].sums[1] ? left : right;
    give_sums(w->arena, n->hist);
    n->hist = NULL;
    return -1;
}

static void divide_task(void *what, int64_t task, int thread) {
    (void)thread;
    Growth *w = what;
    Task *t = &w->tasks[task];
    const Node *n = &w->nodes[t->node];
    int whole = t->start == n->start && t->end == n->end;
    int32_t *lefts = (whole ? w->order : w->lefts) + t->start;
    const int32_t *order = t->node == 0 && w->all ? NULL : w->order + t->start;
    t->lefts = divide(w->b, w->tree->feature[t->node], order, t->start, t->end - t->start, t->side, lefts,
                      w->rights + t->start);
    if (whole) {
        memcpy(w->order + t->start + t->lefts, w->rights + t->start, 4 * (size_t)(t->end - t->start - t->lefts));
    }
}

// What came of a task goes to its place behind what came of those before it.
static void place_task(void *what, int64_t task, int thread) {
    (void)thread;
    Growth *w = what;
    const Task *t = &w->tasks[task];
    const Node *n = &w->nodes[t->node];
    if (t->start == n->start && t->end == n->end) return;
    int64_t left = n->start, right = w->nodes[w->tree->right[t->node]].start;
    for (int64_t before = task - 1; before >= 0 && w->tasks[before].node == t->node; before--) {
        left += w->tasks[before].lefts;
        right += w->tasks[before].end - w->tasks[before].start - w->tasks[before].lefts;
    }
    memcpy(w->order + left, w->lefts + t->start, 4 * (size_t)t->lefts);
    memcpy(w->order + right, w->rights + t->start, 4 * (size_t)(t->end - t->start - t->lefts));
}

#define DIVIDE_ROWS 16384
// Move the rows of all nodes that have just been split.
static void move_rows(Growth *w, const int32_t *splits, int64_t count) {
    w->task_count = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t node = splits[i], left = w->tree->left[node];
        w->nodes[node].last = !may_split(w, left) && !may_split(w, left + 1);
        if (w->nodes[node].last) continue;  // nobody will ask where they are
        Side side = side_of(w->b, w->tree->feature[node], w->tree->bin[node], w->tree->missing_left[node]);
        cut_up(w, node, w->team.threads > 1 ? DIVIDE_ROWS : INT64_MAX, side);
    }
    if (w->arena->failed) return;
    team_do(w->team, divide_task, w, w->task_count);
    for (int64_t i = 0; i < w->task_count;) {
        int64_t node = w->tasks[i].node, lefts = 0;
        for (; i < w->task_count && w->tasks[i].node == node; i++) lefts += w->tasks[i].lefts;
        Node *left = &w->nodes[w->tree->left[node]], *right = &w->nodes[w->tree->right[node]];
        left->start = w->nodes[node].start;
        left->end = right->start = left->start + lefts;
        right->end = w->nodes[node].end;
    }
    if (w->team.threads > 1) team_do(w->team, place_task, w, w->task_count);
}

static int64_t leaves(const Growth *w) { return (w->size + 1) / 2; }

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// Split all of a level that can be split, or the best leaves until a histogram is wanted.
static void decide(Growth *w, int32_t *splits) {
    int64_t count = 0, wanted = 0, most = w->s->most_leaves;
    if (!w->s->by_leaf) {
        int64_t open = 0;
        for (int64_t i = 0; i < w->wanted_count; i++) {
            splits[open++] = w->wanted[i];
            if (w->wanted[i]) splits[open++] = (int32_t)sibling_of(w, w->wanted[i]);
        }
        qsort(splits, (size_t)open, sizeof *splits, ascending);
        for (int64_t i = 0; i < open; i++) {
            int32_t node = splits[i];
            if (w->nodes[node].found.feature < 0) continue;
            if (leaves(w) >= most) {
                give_sums(w->arena, w->nodes[node].hist);
                w->nodes[node].hist = NULL;
                continue;
            }
            int64_t child = split_node(w, node);
            splits[count++] = node;
            if (child >= 0) w->wanted[wanted++] = (int32_t)child;
        }
    } else {
        while (!wanted && leaves(w) < most) {
            int64_t best = -1;
            for (int64_t n = 0; n < w->size; n++)
                if (w->tree->left[n] < 0 && w->nodes[n].found.feature >= 0 &&
                    (best < 0 || w->nodes[n].found.gain > w->nodes[best].found.gain))
                    best = n;
            if (best < 0) break;
            int64_t child = split_node(w, best);
            splits[count++] = (int32_t)best;
            if (child >= 0) w->wanted[wanted++] = (int32_t)child;
        }
    }
    w->wanted_count = leaves(w) >= most ? 0 : wanted;
    move_rows(w, splits, count);
}

static void margin_task(void *what, int64_t task, int thread) {
    (void)thread;
    Growth *w = what;
    const Task *t = &w->tasks[task];
    const Node *node = &w->nodes[t->node];
    const int32_t *order = rows_of(w, t->node) + (t->start - node->start);
    double *margins = w->margins;
    int64_t stride = w->stride, n = t->end - t->start;
    if (!node->last) {
        double value = w->tree->value[t->node];
        for (int64_t i = 0; i < n; i++) margins[order[i] * stride] += value;
        return;
    }
    double left = w->tree->value[w->tree->left[t->node]], right = w->tree->value[w->tree->right[t->node]];
    int64_t at = (int64_t)w->b->place[w->tree->feature[t->node]] * w->b->rows;
    if (w->b->wide)
        settle_wide((const uint16_t *)w->b->columns + at, order, n, t->side, left, right, margins, stride);
    else
        settle_narrow((const uint8_t *)w->b->columns + at, order, n, t->side, left, right, margins, stride);
}

static void add_margins(Growth *w) {
    w->task_count = 0;
    const Tree *tree = w->tree;
    for (int64_t n = 0; n < w->size; n++) {
        const Node *node = &w->nodes[n];
        if (node->last)
            cut_up(w, n, 65536, side_of(w->b, tree->feature[n], tree->bin[n], tree->missing_left[n]));
        else if (tree->left[n] < 0 && (node->parent < 0 || !w->nodes[node->parent].last))
            cut_up(w, n, 65536, (Side){0, 0, 0, 0});
    }
    if (!w->arena->failed) team_do(w->team, margin_task, w, w->task_count);
}

static int start(Growth *w, int64_t most_nodes, const int32_t *rows) {
    Arena *a = w->arena;
    const Binned *b = w->b;
    int64_t threads = w->team.threads, count = w->rows;
    prepare(a, b->slots, w->s->channels);
    w->private_size = (size_t)(packed_slots(b) * (w->s->channels == 3 ? 16 : 8) + 127) / 64 * 64;
    w->search_size = scan_size(b);
    w->words = room(&a->words, 8 * (size_t)b->rows);
    w->order = room(&a->order, 4 * (size_t)(count + AHEAD + 1));
    w->rights = room(&a->rights, 4 * (size_t)(count + 1));
    w->lefts = room(&a->lefts, 4 * (size_t)(count + 1));
    w->private = room(&a->private, w->private_size * (size_t)threads);
    w->search = room(&a->search, w->search_size * (size_t)threads);
    w->nodes = room(&a->nodes, sizeof(Node) * (size_t)most_nodes);
    w->wanted = room(&a->picked, 8 * (size_t)most_nodes);
    if (!w->words || !w->order || !w->rights || !w->lefts || !w->private || !w->search || !w->nodes || !w->wanted)
        return 0;
    memset(w->private, 0, w->private_size * (size_t)threads);
    memset(w->order + count, 0, 4 * (AHEAD + 1));
    if (rows)
        memcpy(w->order, rows, 4 * (size_t)count);
    else
        w->all = identity(a, count, AHEAD + 1);
    return rows || w->all;
}

static void pack(Growth *w, int64_t *sums) {
    Packing p = {.w = w};
    team_do(w->team, pack_task, &p, (w->rows + PACK_ROWS - 1) / PACK_ROWS);
    sums[0] = p.sum_g;
    sums[1] = p.sum_h;
    sums[2] = w->s->channels == 3 ? w->rows : 0;
    w->chunk = most_rows(p.greatest_g, p.greatest_h, w->s->channels);
}

// Grow a tree; returns its number of nodes, or -1 without memory. `rows` NULL: all of them.
int64_t grow_tree(const Binned *b, const Settings *s, const int32_t *g, const int32_t *h, const uint8_t *allowed,
                  const int8_t *signs, const int32_t *rows, int64_t row_count, int64_t most_nodes, Tree *tree,
                  double *margins, int64_t stride, int64_t threads, Arena *arena) {
    Growth w = {.b = b, .s = s, .g = g, .h = h, .allowed = allowed, .signs = signs, .tree = tree, .arena = arena};
    w.rows = row_count;
    w.size = 1;
    w.margins = margins;
    w.stride = stride;
    w.team = team_take(threads);
    int fine = start(&w, most_nodes, rows);
    if (fine) {
        Node *root = &w.nodes[0];
        *root = blank();
        pack(&w, root->sums);
        root->end = row_count;
        root->lower = s->lower;
        root->upper = s->upper;
        name(&w, 0, weight_of(s, root->sums[0], root->sums[1], s->lower, s->upper));
        w.wanted_count = may_split(&w, 0);
        w.wanted[0] = 0;
        while (w.wanted_count && !arena->failed) {
            hear(&w);
            if (!arena->failed) decide(&w, w.wanted + most_nodes);
        }
        for (int64_t n = 0; n < w.size; n++) give_sums(arena, w.nodes[n].hist);
        if (margins && !arena->failed) add_margins(&w);
        fine = !arena->failed;
    }
    team_give(w.team);
    return fine ? w.size : -1;
}
