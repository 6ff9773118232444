/* What a row may be asked beside its label. Tables are made before training, by models that stay as they are. */

#define SHORTEST 1e-8f /* features that are shorter count as this long, as in torch */
#define ROW_TOLD (CLASSES + 1)

/* A term and its table, which is null where there is no such term. */
struct kept {
    float strength, heat;
    const int64_t *at; /* [steps][width]: which row of the table is that of a row of a step */
    const float *table;
};

/* Of up to V rows' logits z: strength heat^2 KL(told || softmax(z / heat)), summed; `to` [CLASSES][BLOCK] gets its
 * gradient times `share`. A row of the table has the probabilities told, and their sum of p log p. */
static double taught(const struct kept *t, const float *z, int count, int64_t place, float share, float *to) {
    const mask real = lanes_before(count);
    vector own = {0}, most = *(const vector *)z, sum = {0}, cross = {0};
    for (int i = 0; i < V; i++) {
        const float *told = t->table + t->at[place + (i < count ? i : 0)] * ROW_TOLD;
        for (int k = 0; k < CLASSES; k++) to[k * BLOCK + i] = told[k];
        own[i] = told[CLASSES];
    }
    for (int k = 1; k < CLASSES; k++) most = larger(*(const vector *)(z + k * BLOCK), most);
    const float cool = 1.0f / t->heat;
    for (int k = 0; k < CLASSES; k++) {
        const vector below = (*(const vector *)(z + k * BLOCK) - most) * cool;
        sum += exponential(below);
        cross += *(const vector *)(to + k * BLOCK) * below;
    }
    const vector part = keep(real, t->strength * t->heat * share / sum);
    const vector whole = keep(real, (vector){0} + t->strength * t->heat * share);
    for (int k = 0; k < CLASSES; k++) {
        vector *told = (vector *)(to + k * BLOCK);
        *told = exponential((*(const vector *)(z + k * BLOCK) - most) * cool) * part - *told * whole;
    }
    return t->strength * t->heat * t->heat * sum_of(keep(real, own - cross + logarithm(sum)));
}

/* Of `count` rows' features z: strength log(1 + exp(z apart / (||z|| heat))), summed, where `apart` is what the
 * table has for a row: features of length 1 under the model to keep away from, less those under the one to come
 * near to. `to` gets its gradient times `share`. */
static double contrast(const struct kept *t, const float *features, int count, int64_t place, float share,
                       float *to) {
    double loss = 0;
    for (int lane = 0; lane < lanes_for(count); lane += V) {
        const int here = at_most(V, count - lane);
        const float *z = features + lane;
        float *apart = to + lane;
        vector square = {0}, gap = {0}, length;
        for (int n = 0; n < V; n++) {
            const float *row = t->table + t->at[place + lane + (n < here ? n : 0)] * FEATURES;
            for (int i = 0; i < FEATURES; i++) apart[i * BLOCK + n] = row[i];
        }
        for (int i = 0; i < FEATURES; i++) {
            const vector value = *(const vector *)(z + i * BLOCK);
            square += value * value;
            gap += value * *(const vector *)(apart + i * BLOCK);
        }
        for (int n = 0; n < V; n++) length[n] = sqrtf(square[n]);
        const mask lasting = length > SHORTEST;
        length = either(lasting, length, (vector){0} + SHORTEST);
        const vector along = keep(lasting, gap / square);
        gap /= length * t->heat;
        const mask up = gap > 0.0f;
        const vector tail = exponential(either(up, -gap, gap)), share_up = 1.0f / (1.0f + tail);
        const vector pushed = either(up, share_up, tail * share_up) * t->strength * share / (t->heat * length);
        loss += t->strength * sum_of(keep(lanes_before(here), keep(up, gap) + logarithm(1.0f + tail)));
        for (int i = 0; i < FEATURES; i++) {
            vector *g = (vector *)(apart + i * BLOCK);
            *g = keep(lanes_before(here), pushed * (*g - along * *(const vector *)(z + i * BLOCK)));
        }
    }
    return loss;
}
