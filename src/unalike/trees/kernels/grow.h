// A whole tree in one call: the order of building.py, with histograms of the bins that occur.

static void search_node(Growth *w, int64_t node, int thread) {
    Node *n = &w->nodes[node];
    Scan scan = scan_at(w->search + (size_t)thread * w->search_size, w->search_size);
    n->found = search(w->b, w->s, n->hist, w->b->slots, n->sums, n->lower, n->upper, w->allowed, w->signs, scan);
}

static int64_t sibling_of(const Growth *w, int64_t node) {
    int32_t parent = w->nodes[node].parent;
    return (int64_t)w->tree->left[parent] + w->tree->right[parent] - node;
}

// A wanted node, and its sibling by subtraction in the parent's histogram.
static void search_task(void *what, int64_t place, int thread) {
    Growth *w = what;
    int64_t node = w->wanted[w->batch + place];
    merge(w, place);
    if (node) {
        int64_t other = sibling_of(w, node), slots = w->b->slots * w->s->channels;
        Node *n = &w->nodes[node], *o = &w->nodes[other], *parent = &w->nodes[n->parent];
        o->hist = parent->hist;
        parent->hist = NULL;
        if (may_split(w, other)) {
            int64_t *restrict whole = o->hist;
            const int64_t *restrict part = n->hist;
            for (int64_t s = 0; s < slots; s++) whole[s] -= part[s];
            search_node(w, other, thread);
        }
    }
    if (may_split(w, node)) search_node(w, node, thread);
}

static void forget(Growth *w, int64_t node) {
    give_sums(w->arena, w->nodes[node].hist);
    w->nodes[node].hist = NULL;
}

// Find the splits of the nodes of the batch, whose rows have been added up.
static void find(Growth *w) {
    team_do(w->team, search_task, w, w->batch_count);
    give_room(w);
    for (int64_t i = w->batch; i < w->batch + w->batch_count; i++) {
        int64_t pair[2] = {w->wanted[i], w->wanted[i] ? sibling_of(w, w->wanted[i]) : w->wanted[i]};
        for (int k = 0; k < 2; k++)
            if (w->nodes[pair[k]].found.feature < 0) forget(w, pair[k]);
    }
}

// Move the rows of what has been split, and find the splits of what is wanted.
static void next_level(Growth *w) {
    for (w->batch = 0; w->batch < w->wanted_count; w->batch += BATCH) {
        w->batch_count = w->wanted_count - w->batch < BATCH ? w->wanted_count - w->batch : BATCH;
        make_room(w);
        if (w->arena->failed) return;
        team_do(w->team, level_task, w, w->parts);
        find(w);
    }
}

// --- splits ----------------------------------------------------------------------------------------------------

static void name(Growth *w, int64_t node, double value) {
    const Node *n = &w->nodes[node];
    w->tree->value[node] = value * w->s->eta;
    w->tree->cover[node] = (double)n->sums[1] * GRID;
    if (w->s->channels == 3) w->tree->rows[node] = n->sums[2];
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
    forget(w, node);
    return -1;
}

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// Split all of a level that can be split, or the best leaves until a histogram is wanted.
static void decide(Growth *w) {
    int32_t *splits = w->splits;
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
                forget(w, node);
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
    w->split_count = count;
    for (int64_t i = 0; i < count; i++) {
        int64_t node = splits[i], left = w->tree->left[node];
        // Where no histogram is wanted nobody will ask where the rows are.
        w->nodes[node].last = !w->wanted_count || (!may_split(w, left) && !may_split(w, left + 1));
        w->nodes[node].side = side_of(w->b, w->tree->feature[node], w->tree->bin[node], w->tree->missing_left[node]);
    }
}

// Grow a tree; returns its number of nodes, or -1 without memory. `rows` NULL: all of them. `before` and `margins` have
// the same stride.
int64_t grow_tree(const Binned *b, const Settings *s, const int32_t *g, const int32_t *h, const uint8_t *allowed,
                  const int8_t *signs, const int32_t *rows, int64_t row_count, int64_t most_nodes, Tree *tree,
                  const double *before, double *margins, int64_t stride, int64_t threads, Arena *arena) {
    Growth w = {.b = b, .s = s, .g = g, .h = h, .allowed = allowed, .signs = signs, .tree = tree, .arena = arena};
    w.rows = row_count;
    w.before = before;
    w.margins = margins;
    w.stride = stride;
    w.team = team_take(threads);
    int fine = start(&w, most_nodes, rows);
    if (fine) {
        Node *root = &w.nodes[0];
        root->lower = s->lower;
        root->upper = s->upper;
        begin(&w);
        name(&w, 0, weight_of(s, root->sums[0], root->sums[1], s->lower, s->upper));
        w.wanted_count = may_split(&w, 0);
        if (w.wanted_count && !arena->failed) find(&w);
        while (w.wanted_count && !arena->failed) {
            decide(&w);
            next_level(&w);
        }
        for (int64_t n = 0; n < w.size; n++) give_sums(arena, w.nodes[n].hist);
        if (margins && !arena->failed) add_margins(&w);
        fine = !arena->failed;
    }
    team_give(w.team);
    return fine ? w.size : -1;
}
