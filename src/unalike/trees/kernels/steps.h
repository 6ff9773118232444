// The steps of a protocol, one by one: full histograms of given rows, moves, and the leaf of every row.

// The full histogram of rows, int64 [full slots][channels], added up over all columns' bins.
int64_t histogram_of(const Binned *b, const int32_t *g, const int32_t *h, const int32_t *rows, int64_t row_count,
                     int64_t channels, int64_t *full, int64_t threads, Arena *arena) {
    Settings s = {.channels = channels};
    Growth w = {.b = b, .s = &s, .g = g, .h = h, .arena = arena};
    w.rows = row_count;
    w.team = team_take(threads);
    int fine = start(&w, 1, rows);
    if (fine) begin(&w);
    if (fine && !arena->failed) {
        merge(&w, 0);
        give_room(&w);
        const Node *root = &w.nodes[0];
        const int64_t *sums = root->hist;
        for (int64_t j = 0; j < b->features; j++)
            for (int64_t c = 0; c < channels; c++) {
                int64_t rest = root->sums[c], *to = full + c;
                for (int64_t i = b->first[j]; i < b->first[j] + b->used[j]; i++) {
                    to[b->slot_full[i] * channels] = sums[c * b->slots + i];
                    rest -= sums[c * b->slots + i];
                }
                to[(b->offsets[j] + b->plain[j]) * channels] = rest;
            }
        give_sums(arena, root->hist);
    }
    team_give(w.team);
    return fine && !arena->failed;
}

// Rows to both sides of a split, in place; returns how many go left. `scratch` is as long as `order`.
int64_t divide_rows(const Binned *b, int64_t feature, int64_t bin, int64_t missing_left, int32_t *order, int64_t n,
                    int32_t *scratch) {
    int64_t lefts = divide(b, feature, order, 0, n, side_of(b, feature, (int32_t)bin, (int)missing_left), order, scratch);
    memcpy(order + lefts, scratch, 4 * (size_t)(n - lefts));
    return lefts;
}

// Where each row ends, by moving all rows down the tree: its leaf, and what that adds to its margin. Either may be NULL.
int64_t find_leaves(const Binned *b, const Tree *tree, int64_t nodes, int32_t *leaf, double *margins, int64_t stride,
                    Arena *arena) {
    int32_t *order = room(&arena->order, 4 * (size_t)(b->rows + AHEAD + 1));
    int32_t *scratch = room(&arena->rights, 4 * (size_t)(b->rows + 1));
    int64_t(*range)[2] = room(&arena->nodes, 16 * (size_t)nodes);
    if (!order || !scratch || !range) return 0;
    for (int64_t i = 0; i < b->rows; i++) order[i] = (int32_t)i;
    memset(range, 0, 16 * (size_t)nodes);
    range[0][1] = b->rows;
    for (int64_t n = 0; n < nodes; n++) {
        int64_t from = range[n][0], to = range[n][1], left = tree->left[n], right = tree->right[n];
        if (left >= 0) {
            int64_t lefts = divide_rows(b, tree->feature[n], tree->bin[n], tree->missing_left[n], order + from,
                                        to - from, scratch);
            range[left][0] = from;
            range[left][1] = range[right][0] = from + lefts;
            range[right][1] = to;
            continue;
        }
        if (leaf)
            for (int64_t i = from; i < to; i++) leaf[order[i]] = (int32_t)n;
        if (margins)
            for (int64_t i = from; i < to; i++) margins[order[i] * stride] += tree->value[n];
    }
    return 1;
}
