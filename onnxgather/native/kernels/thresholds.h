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
    /* Rows of a tile. */
    TILE_ROWS = 8192,

    /* A tile takes in one more loop while it has fewer rows. */
    FEW_TILE_ROWS = 32,

    /* Bytes of a row, up to which it is copied in the pass that reads its index. */
    SHORT_ROW_BYTES = 32,

    /* Bytes of rows between one that is fetched and one that is copied line by line. */
    FETCHED_BYTES = 1 << 12,

    /* A single element, or a row of less than a cache line, is fetched so many before it is
       copied. */
    ELEMENTS_AHEAD = 32,

    /* The same for single elements and short rows where the processor has AVX-512. */
    WIDE_ELEMENTS_AHEAD = 64,

    /* Bytes of data that the caches of one core hold: rows are not fetched, the data of a tile are
       read ahead, and single elements are not loaded eight at a time. */
    NEAREST_BYTES = 1 << 18,

    /* Bytes of data that the last cache holds, even where others use it: single elements are not
       fetched, and are loaded eight at a time where the processor can. */
    NEAR_BYTES = 1 << 22,

    /* Bytes of output, and of as much data at most, from which the output passes the caches by. */
    STREAMED_BYTES = 1 << 24,

    /* Bytes of output that are worth a part, which one thread runs. */
    LEAST_PART_BYTES = 1 << 16,

    /* A loop is cut into about equal parts if it has so many steps for each. */
    MANY_STEPS = 16,
};

#endif
