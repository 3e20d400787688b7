/* The rows of the report, and the library's function that writes them as JSON.

   A run in range counts with two atomic numbers. All else takes a lock. */
#include "report.h"
#include "lock.h"
#include "onnxruntime_abi.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROWS 100000 /* beside those named "others" */
#define NAMES 5          /* of a row */
#define BUCKETS 4096

struct row {
    struct row *next;   /* in the order in which they were made */
    struct row *behind; /* in its bucket */
    uint64_t hash;
    char *names; /* as struct row_names has them, each with its end */
    size_t names_bytes;
    size_t sessions;
    _Atomic uint64_t runs, indices;
    uint64_t written_runs, written_indices; /* what the text says that is being written */
    struct outside outside;
    char *sentence; /* about the first index out of range; NULL: none is known */
    int has_warned; /* since the last reset */
};

static lock rows_lock = LOCK_INIT; /* of all below, and of the rows but for their atomic numbers */
static struct row *first_row, **row_end = &first_row;
static struct row *buckets[BUCKETS];
static size_t row_count;

#ifdef __linux__
/* A child of a fork has the rows as they are then, whole, and a lock that nobody holds. Linux
   forgets these functions when it unloads the library; other systems may call them then. */
static void hold_rows(void) {
    LOCK(&rows_lock);
}
static void let_rows_go(void) {
    UNLOCK(&rows_lock);
}
__attribute__((constructor)) static void hold_rows_over_forks(void) {
    pthread_atfork(hold_rows, let_rows_go, let_rows_go);
}
#endif

/* --- Rows ------------------------------------------------------------------------------------- */

/* Write the names behind one another, each with its end, into new memory. */
static char *joined(const struct row_names *names, size_t *bytes) {
    const char *const parts[NAMES] = {names->model, names->policy, names->op, names->node,
                                      names->output};
    *bytes = 0;
    for (size_t k = 0; k < NAMES; k++) *bytes += strlen(parts[k]) + 1;
    char *text = malloc(*bytes);
    if (!text) return NULL;
    char *end = text;
    for (size_t k = 0; k < NAMES; k++) {
        const size_t length = strlen(parts[k]) + 1;
        memcpy(end, parts[k], length);
        end += length;
    }
    return text;
}

static uint64_t hash_of(const char *names, size_t bytes) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t k = 0; k < bytes; k++) {
        hash ^= (unsigned char)names[k];
        hash *= 1099511628211u;
    }
    return hash;
}

static struct row *row_with(const char *names, size_t bytes, uint64_t hash) {
    for (struct row *row = buckets[hash % BUCKETS]; row; row = row->behind)
        if (row->names_bytes == bytes && !memcmp(row->names, names, bytes)) return row;
    return NULL;
}

static void put_into_bucket(struct row *row) {
    struct row **bucket = &buckets[row->hash % BUCKETS];
    row->behind = *bucket;
    *bucket = row;
}

/* Add a row, which owns its names. NULL without memory. */
static struct row *add_row(char *names, size_t bytes, uint64_t hash) {
    struct row *row = calloc(1, sizeof *row);
    if (!row) return NULL;
    row->names = names;
    row->names_bytes = bytes;
    row->hash = hash;
    *row_end = row;
    row_end = &row->next;
    put_into_bucket(row);
    row_count++;
    return row;
}

/* Find a row, or make it while there are fewer than `most`. NULL if there is none. */
static struct row *row_of(const struct row_names *names, size_t most) {
    size_t bytes;
    char *text = joined(names, &bytes);
    if (!text) return NULL;
    const uint64_t hash = hash_of(text, bytes);
    struct row *row = row_with(text, bytes, hash);
    if (!row && row_count < most) {
        row = add_row(text, bytes, hash);
        if (row) return row;
    }
    free(text);
    return row;
}

struct row *report_row(const struct row_names *names) {
    const struct row_names others = {"others", "others", "others", "others", "others"};
    LOCK(&rows_lock);
    struct row *row = row_of(names, MOST_ROWS);
    /* Case: there are so many rows that the rest share one. */
    if (!row && row_count >= MOST_ROWS) row = row_of(&others, MOST_ROWS + 1);
    if (row) row->sessions++;
    UNLOCK(&rows_lock);
    return row;
}

void report_leave(struct row *row) {
    LOCK(&rows_lock);
    row->sessions--;
    UNLOCK(&rows_lock);
}

/* --- Counts ----------------------------------------------------------------------------------- */

void report_run(struct row *row, uint64_t indices) {
    atomic_fetch_add_explicit(&row->runs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->indices, indices, memory_order_relaxed);
}

int report_outside(struct row *row, uint64_t indices, const struct outside *outside,
                   const char *sentence, int warns) {
    LOCK(&rows_lock); /* so that a reset finds all of the run, or nothing */
    report_run(row, indices);
    struct outside *all = &row->outside;
    const int is_due = warns && !row->has_warned;
    if (is_due) row->has_warned = 1;
    if (!all->count) {
        *all = *outside;
        row->sentence = malloc(strlen(sentence) + 1);
        if (row->sentence) strcpy(row->sentence, sentence);
    } else {
        all->count += outside->count;
        if (outside->least < all->least) all->least = outside->least;
        if (outside->largest > all->largest) all->largest = outside->largest;
    }
    UNLOCK(&rows_lock);
    return is_due;
}

static void forget_outside(struct row *row) {
    row->outside.count = 0;
    row->has_warned = 0;
    free(row->sentence);
    row->sentence = NULL;
}

/* Begin the rows anew behind what was written; counts that came meanwhile stay. Rows that no
   session has are dropped. */
static void reset_rows(void) {
    struct row *row = first_row;
    first_row = NULL;
    row_end = &first_row;
    row_count = 0;
    memset(buckets, 0, sizeof buckets);
    while (row) {
        struct row *next = row->next;
        forget_outside(row);
        if (row->sessions) {
            atomic_fetch_sub(&row->runs, row->written_runs);
            atomic_fetch_sub(&row->indices, row->written_indices);
            row->next = NULL;
            *row_end = row;
            row_end = &row->next;
            put_into_bucket(row);
            row_count++;
        } else {
            free(row->names);
            free(row);
        }
        row = next;
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* Text that is written as far as there is room, and counted. */
struct text {
    char *text;
    size_t room, used;
};

static void add_bytes(struct text *text, const char *bytes, size_t count) {
    for (size_t k = 0; k < count; k++, text->used++)
        if (text->used < text->room) text->text[text->used] = bytes[k];
}

static void add(struct text *text, const char *part) {
    add_bytes(text, part, strlen(part));
}

/* The bytes of the character of UTF-8 that begins here; 0 if there is none. */
static size_t character_bytes(const char *string) {
    const unsigned char *bytes = (const unsigned char *)string;
    const unsigned char first = bytes[0];
    unsigned char least = 0x80, most = 0xbf; /* of the second byte, then of the others */
    size_t count;
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    if (first < 0xe0) count = 2;
    else if (first < 0xf0) count = 3;
    else count = 4;
    /* Case: no character is written longer than it must be, is half of a pair, or above 10FFFF. */
    if (first == 0xe0) least = 0xa0;
    if (first == 0xed) most = 0x9f;
    if (first == 0xf0) least = 0x90;
    if (first == 0xf4) most = 0x8f;
    for (size_t k = 1; k < count; k++) {
        if (bytes[k] < least || bytes[k] > most) return 0;
        least = 0x80;
        most = 0xbf;
    }
    return count;
}

/* Add a string of JSON. A name of a model may have any bytes; those that are no UTF-8 become the
   sign for that. */
static void add_string(struct text *text, const char *string) {
    char escaped[8];
    add(text, "\"");
    while (*string) {
        const size_t bytes = character_bytes(string);
        if (!bytes) {
            add(text, "\\ufffd");
            string++;
            continue;
        }
        const unsigned char sign = (unsigned char)*string;
        if (sign == '"' || sign == '\\') snprintf(escaped, sizeof escaped, "\\%c", sign);
        else if (sign < ' ') snprintf(escaped, sizeof escaped, "\\u%04x", sign);
        else *escaped = 0;
        if (*escaped) add(text, escaped);
        else add_bytes(text, string, bytes);
        string += bytes;
    }
    add(text, "\"");
}

static void add_field(struct text *text, const char *field, const char *value) {
    add(text, field);
    add_string(text, value);
}

static void add_unsigned(struct text *text, const char *field, uint64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    add(text, field);
    add(text, digits);
}

static void add_signed(struct text *text, const char *field, int64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    add(text, field);
    add(text, digits);
}

static void add_outside(struct text *text, const struct row *row) {
    const struct outside *outside = &row->outside;
    add_unsigned(text, ", \"outside\": ", outside->count);
    if (!outside->count) {
        add(text, ", \"least\": null, \"largest\": null, \"first\": null, \"error\": null");
        return;
    }
    add_signed(text, ", \"least\": ", outside->least);
    add_signed(text, ", \"largest\": ", outside->largest);
    add(text, ", \"first\": [");
    for (size_t k = 0; k < outside->rank; k++) add_unsigned(text, k ? ", " : "", outside->place[k]);
    if (row->sentence) add_field(text, "], \"error\": ", row->sentence);
    else add(text, "], \"error\": null");
}

static const char *name_behind(const char *name) {
    return name + strlen(name) + 1;
}

static void write_row(struct text *text, struct row *row) {
    const char *model = row->names;
    const char *policy = name_behind(model);
    const char *op = name_behind(policy);
    const char *node = name_behind(op);
    const char *output = name_behind(node);
    row->written_runs = atomic_load(&row->runs);
    row->written_indices = atomic_load(&row->indices);
    add_field(text, "{\"model\": ", model);
    add_field(text, ", \"policy\": ", policy);
    add_field(text, ", \"operator\": ", op);
    add_field(text, ", \"node\": ", *node ? node : output);
    add_field(text, ", \"output_name\": ", output);
    add_unsigned(text, ", \"runs\": ", row->written_runs);
    add_unsigned(text, ", \"indices\": ", row->written_indices);
    add_outside(text, row);
    add(text, "}\n");
}

/* Write the rows as lines of JSON, and return the bytes that they need. If there is not so much
   room, the text is cut, and nothing is reset. */
ORT_EXPORT size_t onnxgather_provider_report(char *text, size_t room, int reset);
ORT_EXPORT size_t onnxgather_provider_report(char *text, size_t room, int reset) {
    struct text rows = {text, room, 0};
    LOCK(&rows_lock);
    for (struct row *row = first_row; row; row = row->next) write_row(&rows, row);
    if (reset && rows.used <= room) reset_rows();
    UNLOCK(&rows_lock);
    return rows.used;
}
