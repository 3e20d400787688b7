/* The numbers that decide how a gather is run, and what each is worth.

   Measured on 2026-11-22: AMD EPYC, 2 cores, caches of 48 KiB (L1 data) and 1 MiB (L2) per core and
   32 MiB (L3); Linux, gcc 12.2 -O2. The workloads are those of scripts/bench_workloads.py, run by
   og.Gather on one thread; a build with one number changed took turns with the build as it is, 7
   rounds, and the median of the ratios of CPU time counts. "4096: 1.66 (6)" says that with 4096
   in its place workload 6 takes 1.66 times as long. Other programs ran beside, so a ratio between
   0.9 and 1.1 is no difference: where nothing is said of a value, there was none. */
#ifndef ONNXGATHER_THRESHOLDS_H
#define ONNXGATHER_THRESHOLDS_H

enum {
    /* Rows of a tile, whose offsets the nearest cache holds beside the rows. No difference at 512
       and 2048. */
    TILE_ROWS = 1024,

    /* Rows of a tile whose rows are short, or whose offsets are used again.
       4096: 1.66 (6), 1.36 (8b), 1.45 (11), 0.83 (12b). 16384: 0.74 (11), 1.27 (12b). */
    LONG_TILE_ROWS = 8192,

    /* A tile takes in one more loop while it has fewer rows.
       64: 1.14 (11b). 1024: 3.69 (8), 1.92 (8h), 1.54 (5b). */
    FEW_TILE_ROWS = 256,

    /* Bytes of a row, up to which it is copied in the pass that reads its index.
       16: 1.99 (4c), 0.78 (12). */
    SHORT_ROW_BYTES = 32,

    /* Bytes of a row from which memcpy copies it. 512: 0.88 (9b). 2048: 1.91 (5), 1.12 (4b). */
    LONG_ROW_BYTES = 1024,

    /* Bytes of a row from which it may pass the caches by. No difference at 64 and 256. */
    STREAMED_ROW_BYTES = 128,

    /* Bytes of a row from which each cache line is copied at once, where the processor has vectors;
       then the two numbers above decide nothing. 128: 1.58 (1,000,000 rows of 64 of 200,000). */
    WIDE_ROW_BYTES = 64,

    /* A row that is copied line by line is fetched at most so many rows before. */
    ROWS_AHEAD = 64,

    /* The same for rows that are copied in smaller pieces. No difference at 6 and 24. */
    SHORT_ROWS_AHEAD = 12,

    /* Bytes of rows between one that is fetched and one that is copied line by line. 2^11: 1.36
       (14), 1.2 (6,000 rows of 8 KiB). 2^13: no difference, but 1.05 to 1.28 (2, 3, 4b, 14) without
       AVX-512 (ELEMENTS_AHEAD names the machine). */
    FETCHED_BYTES = 1 << 12,

    /* A single element, or a short row, is fetched so many before it is copied. Measured on another
       AMD EPYC, without AVX-512 (32 KiB of L1 data). 8: 1.15 (17). 64: 1.12 (7), 1.23 (7b). No
       difference at 24 and 40. */
    ELEMENTS_AHEAD = 32,

    /* The same where the processor has AVX-512. 32: 1.19 (7), 1.27 (7b). No difference at 128. */
    WIDE_ELEMENTS_AHEAD = 64,

    /* Bytes that the indices of a row lead to, between which single elements are loaded eight at a
       time where the processor has vectors. Never: 1.1 to 1.5 (1 to 2 M elements of 1 to 4 MiB).
       From 0 on: 1.10 where 16 KiB are gathered from. Up to 2^23: 0.75 (16), 0.72 (7) on a quiet
       machine, but 2.4 (16), 3.1 (7) while other programs use the last cache. */
    LEAST_EIGHTS_BYTES = 1 << 18,
    MOST_EIGHTS_BYTES = 1 << 22,

    /* Bytes at the start of a long row that are fetched before it is copied. No difference at 256
       and 1024. */
    FETCHED_ROW_BYTES = 512,

    /* Bytes of data up to which single elements are not fetched.
       2^24: 1.68 (7), 1.31 (7b). No difference at 2^20. */
    NEAR_BYTES = 1 << 22,

    /* The same for rows and for pairs of indices. No difference at 2^16 and 2^20. */
    NEAR_ROWS_BYTES = 1 << 18,

    /* Bytes of data up to which those of a tile are read ahead.
       Never: 6.41 (8b), 4.07 (8), 3.94 (6), 1.74 (13b), but 0.48 (11). No difference at 2^20. */
    READ_AHEAD_BYTES = 1 << 18,

    /* Bytes of output that are worth a part, which one thread runs. Two parts of so much take 0.55
       (elements of 1 byte) to 1.08 (rows of 1 KiB) of the time of one, in ONNX Runtime. */
    LEAST_PART_BYTES = 1 << 16,

    /* A loop is cut into about equal parts if it has so many steps for each. Not measured apart. */
    MANY_STEPS = 16,
};

#endif
