#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* declares sigfillset and pthread_sigmask */
#endif
#include "threads.h"

#include <string.h>

#include "lock.h"

/* A gather that threads share, on the stack of its caller, who runs parts like a worker and returns
   when none is left. So a worker that wakes late finds none, and a call needs no worker. */
struct call {
    const struct gather *gather;
    const void *data, *indices;
    void *output;
    size_t next, count;      /* parts */
    size_t running, threads; /* parts at the same time; at most so many */
    int fine;
    struct call *older;
};

/* Workers wait here between calls. Who reads or writes the pool or a call holds the lock. */
static struct pool {
    lock lock;
    condition work, end; /* of a call */
    struct call *newest;
    size_t wanted, workers; /* workers that all calls want together, and that there are */
    size_t forks;
} pool = {.lock = LOCK_INIT, .work = CONDITION_INIT, .end = CONDITION_INIT};

static void run_part(struct call *call) {
    const size_t part = call->next++;
    call->running++;
    UNLOCK(&pool.lock);
    const enum gather_end end = gather_run(call->gather, call->data, call->indices, call->output,
                                           part, call->count);
    LOCK(&pool.lock);
    call->running--;
    call->fine &= end != GATHER_STOPPED;
}

/* Work until a fork ends the workers that were there before it. */
static void work(size_t forks) {
    LOCK(&pool.lock);
    while (forks == pool.forks) {
        struct call *call = pool.newest;
        while (call && (call->next == call->count || call->running == call->threads))
            call = call->older;
        if (call) run_part(call);
        else WAIT(&pool.work, &pool.lock);
        if (call && !call->running) WAKE_ALL(&pool.end);
    }
    UNLOCK(&pool.lock);
}

#ifdef _WIN32
static DWORD WINAPI start(LPVOID unused) {
    work(0);
    return unused != NULL;
}

static int add_worker(void) {
    HANDLE thread = CreateThread(NULL, 0, start, NULL, 0, NULL);
    return thread && CloseHandle(thread);
}
#else
#include <signal.h>

static pthread_t workers[MOST_THREADS];

static void *start(void *forks) {
    sigset_t all;
    sigfillset(&all); /* signals are for the threads of the program */
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    work((size_t)forks);
    return NULL;
}

static int add_worker(void) {
    return !pthread_create(&workers[pool.workers], NULL, start, (void *)pool.forks);
}

/* A child has none of the workers, and Python warns of a fork beside other threads. So the workers
   end before a fork, and the next call makes new ones. */
static void before_fork(void) {
    pthread_t ending[MOST_THREADS];
    LOCK(&pool.lock);
    const size_t count = pool.workers;
    memcpy(ending, workers, sizeof ending);
    pool.workers = 0;
    pool.forks++;
    WAKE_ALL(&pool.work);
    UNLOCK(&pool.lock);
    for (size_t k = 0; k < count; k++) pthread_join(ending[k], NULL);
}

/* The calls of other threads are not the child's, and nobody holds the lock or waits there. */
static void child_of_fork(void) {
    pool = (struct pool){.lock = LOCK_INIT, .work = CONDITION_INIT, .end = CONDITION_INIT};
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, NULL, child_of_fork);
}
#endif

int gather_run_on_threads(const struct gather *gather, const void *data, const void *indices,
                          void *output, size_t parts, size_t threads) {
    struct call call = {gather, data, indices, output, 0, parts, 0, threads, 1, NULL};
    struct call **link = &pool.newest;
    LOCK(&pool.lock);
    call.older = pool.newest;
    pool.newest = &call;
    pool.wanted += threads - 1;
    while (pool.workers < pool.wanted && pool.workers < MOST_THREADS && add_worker())
        pool.workers++;
    for (size_t k = 1; k < threads; k++) WAKE(&pool.work);
    while (call.next < call.count) run_part(&call);
    while (call.running) WAIT(&pool.end, &pool.lock);
    while (*link != &call) link = &(*link)->older;
    *link = call.older;
    pool.wanted -= threads - 1;
    UNLOCK(&pool.lock);
    return call.fine;
}
