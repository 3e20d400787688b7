/* Runs one gather on the threads of the pool, in several callers at the same time, and forks
   meanwhile. tests/native/test_threads.py builds it with sanitizers and with planted mistakes.

     callers CALLERS CALLS FORKS SECONDS

   It ends by a signal where a call does not return within the seconds. */
#include "kernel.h"

static enum gather_end meet_and_run(const struct gather *gather, const void *data,
                                    const void *indices, void *output, size_t part, size_t parts);

#define gather_run meet_and_run /* in the pool */
#include "threads.c"
#undef gather_run

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 1024
#define WIDTH 64
#define PARTS 16
#define MOST_CALLERS 16

static uint32_t table[ROWS * WIDTH];
static int calls, limit;

/* Threads that must be in a part at the same time, and those that have come; 0 and 0 while several
   callers call. */
static size_t expected, present;
static lock meeting = LOCK_INIT;
static condition arrival = CONDITION_INIT;

static enum gather_end meet_and_run(const struct gather *gather, const void *data,
                                    const void *indices, void *output, size_t part, size_t parts) {
    if (expected) {
        LOCK(&meeting);
        present++;
        WAKE_ALL(&arrival);
        while (present < expected) WAIT(&arrival, &meeting);
        UNLOCK(&meeting);
    }
    return gather_run(gather, data, indices, output, part, parts);
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Rows of a table at its indices backwards, one of them out of range. */
static void check_call(enum gather_policy policy, size_t threads) {
    struct gather gather = {
        .element_size = 4,
        .index_type = GATHER_INT32,
        .policy = policy,
        .loop_count = 2,
        .tuple_size = 1,
        .sizes = {ROWS, WIDTH},
        .data_strides = {0, 1},
        .index_strides = {1, 0},
        .output_strides = {WIDTH, 1},
        .axis_sizes = {ROWS},
        .axis_strides = {WIDTH},
        .data_count = ROWS * WIDTH,
        .index_count = ROWS,
        .output_count = ROWS * WIDTH,
        .reachable_count = ROWS * WIDTH,
    };
    int32_t *indices = malloc(ROWS * sizeof *indices);
    uint32_t *output = malloc(sizeof table);
    if (gather_check(&gather)) fail(gather_check(&gather));
    if (!indices || !output) fail("there must be memory");
    for (int32_t k = 0; k < ROWS; k++) indices[k] = ROWS - 1 - k;
    indices[ROWS - 1] = ROWS; /* clamp makes it the last row */
    const int ran = gather_run_on_threads(&gather, table, indices, output, PARTS, threads);
    if (ran != (policy != GATHER_ERROR)) fail("a call must stop under error alone");
    for (size_t k = 0; ran && k < ROWS; k++) {
        const size_t row = k < ROWS - 1 ? ROWS - 1 - k : ROWS - 1;
        if (memcmp(output + k * WIDTH, table + row * WIDTH, WIDTH * sizeof *table))
            fail("a row of the output must be the row at its index");
    }
    memset(output, 0, sizeof table); /* no worker may still write or read */
    memset(indices, 0, ROWS * sizeof *indices);
    free(output);
    free(indices);
}

static void check_calls(void) {
    for (int k = 0; k < calls; k++) check_call(k % 3 ? GATHER_CLAMP : GATHER_ERROR, 2 + k % 4);
}

/* The call returns when three workers have come. */
static void check_meeting(void) {
    expected = 4;
    check_call(GATHER_CLAMP, expected);
}

#ifdef _WIN32
typedef HANDLE caller;

static DWORD WINAPI call(LPVOID unused) {
    check_calls();
    return unused != NULL;
}

static caller begin(void) {
    return CreateThread(NULL, 0, call, NULL, 0, NULL);
}

static void join(caller one) {
    if (WaitForSingleObject(one, (DWORD)limit * 1000)) fail("a call must return");
}

static void check_fork(void) {}
#else
#include <sys/wait.h>
#include <unistd.h>

typedef pthread_t caller;

static void *call(void *unused) {
    check_calls();
    return unused;
}

static caller begin(void) {
    pthread_t made;
    if (pthread_create(&made, NULL, call, NULL)) fail("a thread must start");
    return made;
}

static void join(caller one) {
    pthread_join(one, NULL);
}

/* A child has workers of its own, and its parent has some again. */
static void check_fork(void) {
    int status;
    const pid_t child = fork();
    if (child < 0) fail("a child must start");
    if (!child) {
        alarm((unsigned)limit);
        check_call(GATHER_CLAMP, 4);
        check_meeting();
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status) fail("a child must end well");
    check_call(GATHER_CLAMP, 4);
}
#endif

int main(int count, char **words) {
    caller callers[MOST_CALLERS];
    if (count != 5) return 2;
    const int caller_count = atoi(words[1]), forks = atoi(words[3]);
    calls = atoi(words[2]);
    limit = atoi(words[4]);
#ifndef _WIN32
    alarm((unsigned)limit);
#endif
    for (uint32_t k = 0; k < ROWS * WIDTH; k++) table[k] = k * 2654435761u;
    for (int k = 0; k < caller_count; k++) callers[k] = begin();
    for (int k = 0; k < forks; k++) check_fork();
    for (int k = 0; k < caller_count; k++) join(callers[k]);
    check_meeting();
    return 0;
}
