/* fuzz_medusa.c - Medusa's topologies. */
#include "tests/fuzz/fuzz_json.h"
#include "traces/formats/medusa.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *pick;
        struct trace_opts o;
    } runs[] = {{"", {.prompt = 5}}, {"", {.prompt = 5, .tree_index = 1}}, {"a", {.prompt = 5}}, {"a", {0}}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct err e = {0};
        struct trace *tr =
            medusa_open((const char *)data, size, FUZZ_FILE, runs[i].pick, FUZZ_SPEC, &runs[i].o, &e);
        fuzz_verdict(tr, &e, true);
        if (tr) {
            /* Out and back: sorted by path, the tree must be the same one. */
            char *text;
            size_t n;
            const char *name = "a";
            const struct speculative *s = tr->self, *again;
            FILE *f = open_memstream(&text, &n);
            CK(medusa_write(f, &name, &s, 1) && fclose(f) == 0);
            struct trace *back =
                medusa_open(text, n, FUZZ_FILE, "a", FUZZ_SPEC, &(struct trace_opts){.prompt = 5}, &e);
            CK(back && (again = back->self)->n_tokens == s->n_tokens);
            CK(memcmp(again->parent, s->parent, (size_t)s->n_tokens * sizeof *s->parent) == 0);
            trace_close(back);
            free(text);
        }
        fuzz_trace(tr);
    }
    return 0;
}
