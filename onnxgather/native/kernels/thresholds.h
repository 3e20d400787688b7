/* The numbers that decide how a gather is run, and what each is worth.

   Measured on two machines, one thread of CPU time, beside other programs:

   - A, an AMD EPYC of family 25, on 2026-11-28: AVX2, caches of 32 KiB (L1 data), 512 KiB (L2) and
     32 MiB (L3).
   - B, an AMD EPYC of family 26, on 2026-11-22, with the kernels of that day: AVX-512, 48 KiB,
     1 MiB and 32 MiB.

   A build with one number changed took turns with the build as it is (scripts/bench.py).
   "1024: A 6.0 (8b)" says that on A workload 8b takes 6.0 times as long with 1024. Workloads are
   those of scripts/bench_workloads.py; the names of random shapes begin with r. A ratio from 0.9 to
   1.1 is no difference. Of minima and medians the smaller ratio is told. What this header says of A
   beside docs/decisions/native.md was measured on fewer workloads at a time. */
#ifndef ONNXGATHER_THRESHOLDS_H
#define ONNXGATHER_THRESHOLDS_H

enum {
    /* Rows of a tile. 1024: A 6.0 (8b). 4096: B 1.66 (6), 1.36 (8b). */
    TILE_ROWS = 8192,

    /* A tile takes in one more loop while it has fewer rows. 256: A 2.28 (r15). 1: A 1.65
       (403 elements of [31, 51, 7]). 1024: B 3.69 (8) of what 256 took. */
    FEW_TILE_ROWS = 32,

    /* Bytes of a row, up to which it is copied in the pass that reads its index. 8: A 2.27 (9b).
       16: B 1.99 (4c). */
    SHORT_ROW_BYTES = 32,

    /* Bytes of rows between one that is fetched and one that is copied line by line. 2^11: B 1.36
       (14), 1.2 (6,000 rows of 8 KiB); A no difference. 2^13: no difference. */
    FETCHED_BYTES = 1 << 12,

    /* A row of less than a cache line is fetched so many before it is copied. 8: A 1.15 (17). 48
       and 64: A 1.2 (7b), 1.13 (16). */
    ELEMENTS_AHEAD = 32,

    /* The same for rows that are copied straight from their indices, where the processor loads
       eight elements at a time. 32: B 1.19 (7), 1.27 (7b). A has no AVX-512; there 64 loses, as the
       number above says. */
    WIDE_ELEMENTS_AHEAD = 64,

    /* Bytes of data that the caches of one core hold: rows that are copied straight from their
       indices are not fetched, the data of a tile are read ahead, and single elements are not
       loaded eight at a time. 2^12: A 5.2 (8b). 2^22: A 1.7 (9b). Never reading ahead: B 6.41
       (8b), 4.07 (8). */
    NEAREST_BYTES = 1 << 18,

    /* Bytes of data that the last cache holds, even where others use it: single elements are not
       fetched, and are loaded eight at a time where the processor can. 2^24: A 1.68 (7b), B 1.68
       (7), 1.31 (7b). Never eight at a time: B 1.1 to 1.5 (1 to 2 M elements of 1 to 4 MiB). */
    NEAR_BYTES = 1 << 22,

    /* Bytes of output, and of as much data at most, from which the output passes the caches by.
       2^22: A 1.75 (r23), 1.6 (1), 1.7 (5). 2^25: A 1.6 (4,096 rows of 4 KiB of 8,192). 260
       MiB: A 1.77 (2), 1.5 (3). While another program reads 48 MiB, so that the last cache is
       shared: 2^25 1.3 to 1.7 (16 and 24 MiB of rows of 4 KiB). */
    STREAMED_BYTES = 1 << 24,

    /* Bytes of output that are worth a part, which one thread runs. Two parts of so much take 0.55
       (elements of 1 byte) to 1.08 (rows of 1 KiB) of the time of one, in ONNX Runtime, on B. */
    LEAST_PART_BYTES = 1 << 16,

    /* A loop is cut into about equal parts if it has so many steps for each. 1: A no difference,
       with 8 parts on two threads; but of a loop with one step more than there are parts, one part
       takes twice as long as the others. 2^20: A 2.6 (r23, two threads). */
    MANY_STEPS = 16,
};

#endif
