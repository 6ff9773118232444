// The steps of a protocol, one by one: full histograms of given rows, moves, and the leaf of every row.

// The full histogram of rows, int64 [full slots][channels], added up over all columns' bins.
int64_t histogram_of(const Binned *b, const int32_t *g, const int32_t *h, const int32_t *rows, int64_t row_count,
                     int64_t channels, int64_t *full, int64_t threads, Arena *arena) {
    Settings s = {.channels = channels};
    Growth w = {.b = b, .s = &s, .g = g, .h = h, .arena = arena};
    w.rows = row_count;
    team_start(&w.team, threads);
    int fine = start(&w, 1, rows);
    int64_t *sums = fine ? take_sums(arena) : NULL;
    if (sums) {
        Node *root = &w.nodes[0];
        *root = blank();
        pack(&w, root->sums);
        root->sums[2] = row_count;
        root->end = row_count;
        root->hist = sums;
        cut_up(&w, 0, w.team.threads > 1 && w.chunk > 8192 ? 8192 : w.chunk, (Side){0, 0, 0, 0});
        if (!arena->failed) team_do(&w.team, histogram_task, &w, w.task_count);
        for (int64_t j = 0; j < b->features; j++)
            for (int64_t c = 0; c < channels; c++) {
                int64_t rest = root->sums[c], *to = full + c;
                for (int64_t i = b->first[j]; i < b->first[j] + b->used[j]; i++) {
                    to[b->slot_full[i] * channels] = sums[c * b->slots + i];
                    rest -= sums[c * b->slots + i];
                }
                to[(b->offsets[j] + b->plain[j]) * channels] = rest;
            }
        give_sums(arena, sums);
    }
    team_end(&w.team);
    return sums && !arena->failed;
}

// Rows to both sides of a split, in place; returns how many go left. `scratch` is as long as `order`.
int64_t divide_rows(const Binned *b, int64_t feature, int64_t bin, int64_t missing_left, int32_t *order, int64_t n,
                    int32_t *scratch) {
    int64_t lefts = divide(b, feature, order, n, side_of(b, feature, (int32_t)bin, (int)missing_left), order, scratch);
    memcpy(order + lefts, scratch, 4 * (size_t)(n - lefts));
    return lefts;
}
