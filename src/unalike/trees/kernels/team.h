// A few threads that share tasks. Sums are of integers, so who does which task changes nothing.
typedef void (*Work)(void *what, int64_t task, int thread);

typedef struct {
    int threads;
    pthread_t id[MOST_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_long round, next, busy;
    atomic_int over;
    int64_t tasks;
    Work work;
    void *what;
} Team;

typedef struct {
    Team *team;
    int number;
} Member;

static void share(Team *t, int thread) {
    for (;;) {
        int64_t task = atomic_fetch_add(&t->next, 1);
        if (task >= t->tasks) return;
        t->work(t->what, task, thread);
    }
}

static void *member(void *given) {
    Member me = *(Member *)given;
    free(given);
    Team *t = me.team;
    long seen = 0;
    for (;;) {
        for (int spin = 0; spin < 2000 && atomic_load(&t->round) == seen; spin++) sched_yield();
        if (atomic_load(&t->round) == seen) {
            pthread_mutex_lock(&t->lock);
            while (atomic_load(&t->round) == seen) pthread_cond_wait(&t->wake, &t->lock);
            pthread_mutex_unlock(&t->lock);
        }
        seen = atomic_load(&t->round);
        if (atomic_load(&t->over)) return NULL;
        share(t, me.number);
        atomic_fetch_sub(&t->busy, 1);
    }
}

static void team_start(Team *t, int64_t threads) {
    memset(t, 0, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->threads = 1;
    for (int n = 1; n < threads && n < MOST_THREADS; n++) {
        Member *m = malloc(sizeof *m);
        if (!m) break;
        *m = (Member){t, n};
        if (pthread_create(&t->id[n], NULL, member, m)) {
            free(m);
            break;
        }
        t->threads = n + 1;
    }
}

static void announce(Team *t) {
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->round, 1);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

// Do all tasks; returns when they are done.
static void team_do(Team *t, Work work, void *what, int64_t tasks) {
    if (t->threads == 1 || tasks < 2) {
        for (int64_t task = 0; task < tasks; task++) work(what, task, 0);
        return;
    }
    t->work = work;
    t->what = what;
    t->tasks = tasks;
    atomic_store(&t->next, 0);
    atomic_store(&t->busy, t->threads - 1);
    announce(t);
    share(t, 0);
    while (atomic_load(&t->busy)) sched_yield();
}

static void team_end(Team *t) {
    if (t->threads > 1) {
        atomic_store(&t->over, 1);
        announce(t);
        for (int n = 1; n < t->threads; n++) pthread_join(t->id[n], NULL);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->wake);
}
