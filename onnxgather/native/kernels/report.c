/* The rows of the report. A run in range counts by atomic numbers alone; all else takes a lock. */
#include "report.h"
#include "lock.h"
#include "onnxruntime_abi.h"
#include "tiles.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows of the report, beside that of all others. */
#define MOST_ROWS 100000
#define BUCKETS 4096
#define SENTENCE 700

struct row {
    struct row *next;  /* of its bucket */
    struct row *later; /* the row that was made after this one */
    char *names;       /* five, each with its end */
    size_t names_bytes;
    size_t sessions;
    _Atomic uint64_t runs, indices;
    uint64_t outside; /* from here on with the lock */
    int64_t least, largest;
    uint64_t first[GATHER_MOST_LOOPS];
    uint32_t first_rank;
    char sentence[SENTENCE];
};

static lock rows_lock = LOCK_INIT;
static struct row *buckets[BUCKETS];
static struct row *first_row, **last_link = &first_row;
static size_t row_count;

static void forget_outside(struct row *row) {
    row->outside = 0;
    row->least = INT64_MAX;
    row->largest = INT64_MIN;
    row->first_rank = 0;
    *row->sentence = 0;
}

/* The five names behind one another, as they identify a row. */
static char *joined(struct row_names names, size_t *bytes) {
    const char *const parts[] = {names.model, names.policy, names.type, names.node, names.output};
    *bytes = 0;
    for (size_t k = 0; k < 5; k++) *bytes += strlen(parts[k]) + 1;
    char *text = malloc(*bytes), *end = text;
    for (size_t k = 0; text && k < 5; k++) {
        const size_t length = strlen(parts[k]) + 1;
        memcpy(end, parts[k], length);
        end += length;
    }
    return text;
}

static size_t bucket_of(const char *names, size_t bytes) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t k = 0; k < bytes; k++) hash = (hash ^ (unsigned char)names[k]) * 1099511628211u;
    return hash % BUCKETS;
}

static struct row *row_with(char *names, size_t bytes) {
    struct row **bucket = &buckets[bucket_of(names, bytes)];
    for (struct row *row = *bucket; row; row = row->next)
        if (row->names_bytes == bytes && !memcmp(row->names, names, bytes)) {
            free(names);
            return row;
        }
    struct row *row = calloc(1, sizeof *row);
    if (!row) {
        free(names);
        return NULL;
    }
    row->names = names;
    row->names_bytes = bytes;
    forget_outside(row);
    row->next = *bucket;
    *bucket = row;
    *last_link = row;
    last_link = &row->later;
    row_count++;
    return row;
}

struct row *report_row(struct row_names names) {
    const struct row_names others = {"others", names.policy, "", "others", ""};
    struct row *row = NULL;
    LOCK(&rows_lock);
    if (row_count >= MOST_ROWS) names = others;
    size_t bytes;
    char *text = joined(names, &bytes);
    if (text) row = row_with(text, bytes);
    if (row) row->sessions++;
    UNLOCK(&rows_lock);
    return row;
}

void report_leave(struct row *row) {
    LOCK(&rows_lock);
    row->sessions--;
    UNLOCK(&rows_lock);
}

/* Look at each index, as one was out of range. */
static void look_at(struct row *row, const struct gather *g, const void *indices) {
    const int is_new = !row->outside;
    for (uint64_t k = 0; k < g->index_count; k++) {
        const int64_t value = (int64_t)value_at(indices, k, (int)g->index_type);
        const int64_t size = (int64_t)g->axis_sizes[k % g->tuple_size];
        if (value >= -size && value < size) continue;
        if (is_new && !row->outside) {
            row->first_rank = g->indices_rank;
            for (uint32_t d = 0; d < g->indices_rank; d++)
                row->first[d] = k / g->indices_strides[d] % g->indices_sizes[d];
        }
        row->outside++;
        if (value < row->least) row->least = value;
        if (value > row->largest) row->largest = value;
    }
}

static const char *name_after(const char *name) {
    return name + strlen(name) + 1;
}

int report_count(struct row *row, const struct gather *g, const void *indices, int outside,
                 char *sentence, size_t room) {
    char first[SENTENCE];
    *sentence = 0;
    atomic_fetch_add_explicit(&row->runs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->indices, g->index_count, memory_order_relaxed);
    if (!outside) return 0;
    gather_first_outside(g, indices, first, sizeof first);
    LOCK(&rows_lock);
    const char *type = name_after(name_after(row->names)), *node = name_after(type);
    snprintf(sentence, room, "%s '%.300s': %s", type, node, first);
    const int is_new = !row->outside;
    look_at(row, g, indices);
    if (is_new) snprintf(row->sentence, sizeof row->sentence, "%s", sentence);
    UNLOCK(&rows_lock);
    return is_new;
}

/* --- The text --------------------------------------------------------------------------------- */

/* Text that is written as far as there is room, and counted. */
struct text {
    char *text;
    size_t room, used;
};

static void add_char(struct text *text, char sign) {
    if (text->used < text->room) text->text[text->used] = sign;
    text->used++;
}

static void add(struct text *text, const char *part) {
    while (*part) add_char(text, *part++);
}

static void add_string(struct text *text, const char *string) {
    char escaped[8];
    add_char(text, '"');
    for (; *string; string++) {
        const unsigned char sign = (unsigned char)*string;
        if (sign < ' ') {
            snprintf(escaped, sizeof escaped, "\\u%04x", sign);
            add(text, escaped);
            continue;
        }
        if (sign == '"' || sign == '\\') add_char(text, '\\');
        add_char(text, *string);
    }
    add_char(text, '"');
}

static void add_named(struct text *text, const char *name, const char *string) {
    add(text, name);
    add_string(text, string);
}

static void add_number(struct text *text, const char *name, uint64_t number, int is_signed) {
    char digits[32];
    if (is_signed) snprintf(digits, sizeof digits, "%" PRId64, (int64_t)number);
    else snprintf(digits, sizeof digits, "%" PRIu64, number);
    add(text, name);
    add(text, digits);
}

static void add_row(struct text *text, const struct row *row, uint64_t runs, uint64_t indices) {
    const char *model = row->names, *policy = name_after(model), *type = name_after(policy);
    const char *node = name_after(type), *output = name_after(node);
    add_named(text, "{\"model\": ", model);
    add_named(text, ", \"policy\": ", policy);
    add_named(text, ", \"operator\": ", type);
    add_named(text, ", \"node\": ", *node ? node : output);
    add_named(text, ", \"output_name\": ", output);
    add_number(text, ", \"runs\": ", runs, 0);
    add_number(text, ", \"indices\": ", indices, 0);
    add_number(text, ", \"outside\": ", row->outside, 0);
    if (row->outside) {
        add_number(text, ", \"least\": ", (uint64_t)row->least, 1);
        add_number(text, ", \"largest\": ", (uint64_t)row->largest, 1);
        add(text, ", \"first\": [");
        for (uint32_t k = 0; k < row->first_rank; k++)
            add_number(text, k ? ", " : "", row->first[k], 0);
        add_named(text, "], \"error\": ", row->sentence);
    } else {
        add(text, ", \"least\": null, \"largest\": null, \"first\": null, \"error\": null");
    }
    add(text, "}\n");
}

/* Take a row out of its bucket, and free it. */
static void drop(struct row *row) {
    struct row **at = &buckets[bucket_of(row->names, row->names_bytes)];
    while (*at != row) at = &(*at)->next;
    *at = row->next;
    free(row->names);
    free(row);
    row_count--;
}

/* Drop the rows that no session has, and begin the others anew. */
static void reset_rows(void) {
    struct row *row = first_row, *later;
    last_link = &first_row;
    for (; row; row = later) {
        later = row->later;
        if (!row->sessions) {
            drop(row);
            continue;
        }
        *last_link = row;
        last_link = &row->later;
        forget_outside(row);
    }
    *last_link = NULL;
}

/* Write the rows as lines of JSON, and return the bytes that they need. If there is not so much
   room, the text is cut, and nothing is reset. */
ORT_EXPORT size_t onnxgather_provider_report(char *text, size_t room, int reset);
ORT_EXPORT size_t onnxgather_provider_report(char *text, size_t room, int reset) {
    struct text rows = {text, room, 0};
    LOCK(&rows_lock);
    for (struct row *row = first_row; row; row = row->later)
        add_row(&rows, row, atomic_load(&row->runs), atomic_load(&row->indices));
    if (reset && rows.used <= room) {
        for (struct row *row = first_row; row; row = row->later) {
            atomic_store(&row->runs, 0);
            atomic_store(&row->indices, 0);
        }
        reset_rows();
    }
    UNLOCK(&rows_lock);
    return rows.used;
}
