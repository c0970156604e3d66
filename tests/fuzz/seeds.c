/* seeds.c - a fuzz target without libFuzzer: the bytes of each file that is named, once. */
#include "tests/fuzz/fuzz.h"

enum { MOST_BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    uint8_t *data = xmalloc(MOST_BYTES);
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return EXIT_BAD_INPUT;
        }
        size_t size = fread(data, 1, MOST_BYTES, f);
        fclose(f);
        uint8_t *own = xmalloc(size); /* so that a sanitizer sees its end */
        memcpy(own, data, size);
        LLVMFuzzerTestOneInput(own, size);
        free(own);
    }
    free(data);
    return EXIT_GOOD;
}
