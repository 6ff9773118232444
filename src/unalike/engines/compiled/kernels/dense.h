/* What Python calls where rows come as they are needed: forward, and back for one gradient. */

/* Logits and features of `count` rows. With `keep` every block has a tape of its own, for unalike_backward. */
void unalike_forward(const float *w, const float *frozen, const float *x, int64_t count, float *tape,
                     int64_t keep_tapes, float *logits, float *features) {
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        for (int n = 0; n < here; n++)
            memcpy(tape + AT_ROWS + n * ROW_STRIDE, x + (first + n) * INPUT, INPUT * sizeof(float));
        settle(tape, here);
        forward(w, frozen, tape, lanes_for(here), 0, LAYERS);
        gather(tape + AT_LOGITS, logits + first * CLASSES, CLASSES, here);
        gather(tape + AT_FEATURES, features + first * FEATURES, FEATURES, here);
        if (keep_tapes) tape += TAPE;
    }
}

/* The gradient with respect to w, given that of the logits and of the features (either may be null). Tapes are
 * used up: values are replaced by their gradients. */
void unalike_backward(const float *w, const float *frozen, int64_t count, float *tape, const float *d_logits,
                      const float *d_features, float *d_w) {
    memset(d_w, 0, WEIGHTS * sizeof(float));
    for (int64_t first = 0; first < count; first += BLOCK, tape += TAPE) {
        const int here = (int)(count - first < BLOCK ? count - first : BLOCK);
        if (d_logits)
            spread(d_logits + first * CLASSES, tape + AT_LOGITS, CLASSES, here);
        else
            memset(tape + AT_LOGITS, 0, CLASSES * BLOCK * sizeof(float));
        if (d_features) spread(d_features + first * FEATURES, tape + AT_MORE, FEATURES, here);
        backward(w, frozen, tape, d_features ? tape + AT_MORE : 0, d_w, here, lanes_for(here), 0, WEIGHTS);
    }
}
