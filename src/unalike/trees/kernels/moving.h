// Rows to the nodes that they belong to, and the sums of those that are wanted.

static void divide_piece(Growth *w, int64_t node, int64_t part) {
    const Node *n = &w->nodes[node];
    Piece piece = *piece_of(w, node, part);
    int64_t from = w->part[part].from, count = piece.end - piece.start;
    int32_t *to = order_of(w, part) + piece.start, *rights = w->rights + from;
    const int32_t *order = node == 0 && w->all ? NULL : to;
    int64_t lefts =
        divide(w->b, w->tree->feature[node], order, from + piece.start, count, n->side, to, rights);
    memcpy(to + lefts, rights, 4 * (size_t)(count - lefts));
    int32_t middle = piece.start + (int32_t)lefts;
    *piece_of(w, w->tree->left[node], part) = (Piece){piece.start, middle};
    *piece_of(w, w->tree->right[node], part) = (Piece){middle, piece.end};
}

// A part's rows to both sides of what has been split, and then to the histograms of the batch.
static void level_task(void *what, int64_t part, int thread) {
    Growth *w = what;
    for (int64_t i = 0; i < w->split_count && w->batch == 0; i++)
        if (!w->nodes[w->splits[i]].last) divide_piece(w, w->splits[i], part);
    for (int64_t i = 0; i < w->batch_count; i++) add_piece(w, i, part, thread);
}
