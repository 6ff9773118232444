// What a tree adds to the margins of its rows.

// Where the rows of a node end: in its own leaf, or in those of its two children, which nobody has moved them to.
static void settle_piece(const Growth *w, int64_t node, int64_t part) {
    const Node *n = &w->nodes[node];
    const Piece *piece = piece_of(w, node, part);
    const int32_t *order = rows_of(w, node, part);
    int64_t count = piece->end - piece->start;
    if (!n->last) {
        for (int64_t i = 0; i < count; i++) w->leaf[order[i]] = n->leaf;
        return;
    }
    uint16_t left = w->nodes[w->tree->left[node]].leaf, right = w->nodes[w->tree->right[node]].leaf;
    int64_t at = (int64_t)w->b->place[w->tree->feature[node]] * w->b->rows;
    if (w->b->wide)
        settle_wide((const uint16_t *)w->b->columns + at, order, count, n->side, left, right, w->leaf);
    else
        settle_narrow((const uint8_t *)w->b->columns + at, order, count, n->side, left, right, w->leaf);
}

// First the leaf of each row, node by node, then the sums, row by row.
static void margin_task(void *what, int64_t part, int thread) {
    (void)thread;
    const Growth *w = what;
    const int32_t *children = w->tree->left;
    for (int64_t node = 0; node < w->size; node++) {
        int64_t parent = w->nodes[node].parent;
        if (w->nodes[node].last || (children[node] < 0 && (parent < 0 || !w->nodes[parent].last)))
            settle_piece(w, node, part);
    }
    int64_t from = w->part[part].from, to = w->part[part].to, stride = w->stride;
    double *margins = w->margins;
    const double *before = w->before, *value = w->leaf_value;
    const uint16_t *leaf = w->leaf;
    if (stride == 1)
        for (int64_t i = from; i < to; i++) margins[i] = before[i] + value[leaf[i]];
    else
        for (int64_t i = from; i < to; i++) margins[i * stride] = before[i * stride] + value[leaf[i]];
}

// Only where no row is left out: a row's place is its number.
static void add_margins(Growth *w) {
    int64_t count = 0;
    w->leaf = room(&w->arena->leaf, sizeof *w->leaf * (size_t)w->rows);
    w->leaf_value = room(&w->arena->leaf_value, sizeof *w->leaf_value * (size_t)leaves(w));
    if (!w->leaf || !w->leaf_value) {
        w->arena->failed = 1;
        return;
    }
    for (int64_t n = 0; n < w->size; n++)
        if (w->tree->left[n] < 0) {
            w->nodes[n].leaf = (uint16_t)count;
            w->leaf_value[count++] = w->tree->value[n];
        }
    team_do(w->team, margin_task, w, w->parts);
}
