/* Runs the gathers of its standard input one after the other, and writes what became of each. So
   the kernels of another processor can be compared with the reference, where an emulator runs this
   program; scripts/emulated.py does.

   A question is a struct gather, the number of parts to run it in as 64 bits, and the bytes of
   InputTensor and of IndicesTensor. An answer is one letter: 'f' and the bytes of OutputTensor
   where all parts ran, 'o' where an index is out of range, 'r' where gather_check refuses the
   numbers, after which the program ends. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read as many bytes into new memory. */
static void *bytes_of(uint64_t count) {
    void *bytes = malloc(count);
    if (!bytes || fread(bytes, 1, count, stdin) != count) exit(2);
    return bytes;
}

int main(void) {
    struct gather gather;
    uint64_t parts;
    while (fread(&gather, sizeof gather, 1, stdin) == 1) {
        const uint64_t index_size = gather.index_type % 2 ? 8 : 4;
        const uint64_t room = gather.output_count * gather.element_size;
        int fine = 1;
        if (fread(&parts, sizeof parts, 1, stdin) != 1) return 2;
        if (gather_check(&gather)) return putchar('r') < 0;
        void *data = bytes_of(gather.data_count * gather.element_size);
        void *indices = bytes_of(gather.index_count * index_size), *output = malloc(room);
        if (!output) return 2;
        memset(output, 7, room);
        gather_clear(&gather, output);
        for (uint64_t part = 0; part < parts; part++)
            fine &= gather_run(&gather, data, indices, output, part, parts) != GATHER_STOPPED;
        putchar(fine ? 'f' : 'o');
        if (fine) fwrite(output, 1, room, stdout);
        free(data);
        free(indices);
        free(output);
    }
    return fflush(stdout) != 0;
}
