/* Counts runs of a few rows on some threads, while others make rows, give them back, and read and
   reset the report. No count may be lost, and none counted twice. Built with ThreadSanitizer by
   scripts/sanitize.py.

     fuzz_report RUNS THREADS */
#include "report.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 3
#define MOST_THREADS 16
#define ROOM 100000

size_t onnxgather_provider_report(char *text, size_t room, int reset);

static unsigned long long runs_of_thread;
static _Atomic int is_done;

static struct row *row_of_number(int number) {
    char node[20];
    snprintf(node, sizeof node, "node %d", number);
    const struct row_names names = {"model \"\xff\" \x01", "clamp", "Gather", node, "\xc3\xa9"};
    struct row *row = report_row(&names);
    if (!row) abort();
    return row;
}

/* Every fourth run meets two indices out of range. */
static void *count_runs(void *unused) {
    struct row *rows[ROWS];
    for (int k = 0; k < ROWS; k++) rows[k] = row_of_number(k);
    for (unsigned long long k = 0; k < runs_of_thread; k++) {
        const struct outside outside = {
            .count = 2, .least = -9, .largest = 7, .index = 7, .axis_size = 3, .rank = 0};
        if (k % 4) report_run(rows[k % ROWS], 5);
        else report_outside(rows[k % ROWS], 5, &outside, "a sentence", 0);
        if (k % 100 == 0) {
            report_leave(rows[0]);
            rows[0] = row_of_number(0);
        }
    }
    for (int k = 0; k < ROWS; k++) report_leave(rows[k]);
    return unused;
}

struct sums {
    unsigned long long runs, indices, outside, rows;
};

static unsigned long long number_behind(const char *line, const char *field) {
    const char *at = strstr(line, field);
    if (!at) abort();
    return strtoull(at + strlen(field), NULL, 10);
}

/* Reset the report, and add what it said. */
static void add_report(struct sums *sums) {
    static char text[ROOM + 1];
    const size_t bytes = onnxgather_provider_report(text, ROOM, 1);
    if (bytes > ROOM) abort();
    text[bytes] = 0;
    sums->rows = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        sums->rows++;
        sums->runs += number_behind(line, "\"runs\": ");
        sums->indices += number_behind(line, "\"indices\": ");
        sums->outside += number_behind(line, "\"outside\": ");
        if (!strstr(line, "{\"model\": \"model \\\"\\ufffd\\\" \\u0001\", \"policy\": \"clamp\"") ||
            !strstr(line, "\"output_name\": \"\xc3\xa9\""))
            abort();
    }
}

static void *read_reports(void *argument) {
    while (!is_done) {
        char little[10];
        onnxgather_provider_report(little, sizeof little, 1); /* too little room resets nothing */
        add_report(argument);
    }
    return NULL;
}

int main(int count, char **arguments) {
    struct sums sums = {0};
    pthread_t ids[MOST_THREADS], reader;
    if (count != 3) return 2;
    runs_of_thread = strtoull(arguments[1], NULL, 10);
    const unsigned long long threads = strtoull(arguments[2], NULL, 10);
    if (threads < 1 || threads > MOST_THREADS) return 2;
    if (pthread_create(&reader, NULL, read_reports, &sums)) abort();
    for (unsigned long long k = 0; k < threads; k++)
        if (pthread_create(&ids[k], NULL, count_runs, NULL)) abort();
    for (unsigned long long k = 0; k < threads; k++) pthread_join(ids[k], NULL);
    is_done = 1;
    pthread_join(reader, NULL);
    add_report(&sums);
    const unsigned long long all = runs_of_thread * threads;
    const unsigned long long outside = (runs_of_thread + 3) / 4 * 2 * threads;
    if (sums.runs != all || sums.indices != 5 * all || sums.outside != outside) {
        fprintf(stderr, "%llu runs for %llu, %llu indices for %llu, %llu outside for %llu\n",
                sums.runs, all, sums.indices, 5 * all, sums.outside, outside);
        return 1;
    }
    add_report(&sums);
    if (sums.rows) {
        fprintf(stderr, "%llu rows have no session\n", sums.rows);
        return 1;
    }
    printf("%llu runs, each counted once\n", all);
    return 0;
}
