/* What is made of logits, V rows at a time: cross-entropy and its gradient, and whether an answer is right. */

/* Of up to V rows, the highest logit and that of the row's own label. */
INLINE vector highest(const float *z) {
    vector most = *(const vector *)z;
    for (int k = 1; k < CLASSES; k++) most = larger(*(const vector *)(z + k * BLOCK), most);
    return most;
}

INLINE vector of_labels(const float *z, const int64_t *labels, int count) {
    vector mine = {0};
    for (int i = 0; i < count; i++) mine[i] = z[labels[i] * BLOCK + i];
    return mine;
}

/* Cross-entropy of `count` rows, whose logits may be scaled by class, and what they are taught, summed; logits are
 * replaced by its gradient times `share`. `told`: room for [CLASSES][BLOCK]. */
static double cross_entropy(float *logits, const int64_t *labels, int count, float share, const float *scales,
                            const struct kept *teacher, int64_t place, float *told) {
    double loss = 0;
    for (int lane = 0; lane < lanes_for(count); lane += V) {
        const int here = at_most(V, count - lane);
        const mask real = lanes_before(here);
        float *z = logits + lane;
        if (teacher->table) loss += taught(teacher, z, here, place + lane, share, told + lane);
        for (int k = 0; scales && k < CLASSES; k++) *(vector *)(z + k * BLOCK) *= scales[k];
        const vector most = highest(z), mine = of_labels(z, labels + lane, here);
        vector sum = {0};
        for (int k = 0; k < CLASSES; k++) {
            vector *at = (vector *)(z + k * BLOCK);
            sum += *at = exponential(*at - most);
        }
        loss += sum_of(keep(real, logarithm(sum) - (mine - most)));
        const vector part = keep(real, share / sum);
        for (int k = 0; k < CLASSES; k++) *(vector *)(z + k * BLOCK) *= part;
        for (int i = 0; i < here; i++) z[labels[lane + i] * BLOCK + i] -= share;
        for (int k = 0; scales && k < CLASSES; k++) *(vector *)(z + k * BLOCK) *= scales[k];
        for (int k = 0; teacher->table && k < CLASSES; k++)
            *(vector *)(z + k * BLOCK) += *(const vector *)(told + lane + k * BLOCK);
    }
    return loss;
}

/* For each of `count` rows two numbers: its cross-entropy, and 1 where its label is the first of the highest
 * logits. */
static void judge(const float *logits, const int64_t *labels, int count, float *scores) {
    for (int lane = 0; lane < count; lane += V) {
        const int here = at_most(V, count - lane);
        const float *z = logits + lane;
        const vector most = highest(z), mine = of_labels(z, labels + lane, here);
        mask label = {0}, beaten = {0};
        for (int i = 0; i < here; i++) label[i] = (int32_t)labels[lane + i];
        vector sum = {0};
        for (int k = 0; k < CLASSES; k++) {
            const vector at = *(const vector *)(z + k * BLOCK);
            sum += exponential(at - most);
            beaten |= ~(at <= mine) | ((at == mine) & (label > k));
        }
        const vector loss = logarithm(sum) - (mine - most);
        for (int i = 0; i < here; i++) {
            scores[2 * (lane + i)] = loss[i];
            scores[2 * (lane + i) + 1] = beaten[i] ? 0.0f : 1.0f;
        }
    }
}
