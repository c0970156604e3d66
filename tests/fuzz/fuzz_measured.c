/* fuzz_measured.c - tables of measured rows: what is taken can be asked for, and its trees load. */
#include "tests/fuzz/fuzz.h"
#include "verify/model/timed_rows.h"

/* Trees from files, and numbers that make sixteen million nodes, have tests of their own. */
static bool is_heavy(const char *text, size_t size)
{
    static const char *const of_files[] = {"file", "trace", "topology", "batched"};
    int digits = 0;
    for (size_t i = 0; i < sizeof of_files / sizeof of_files[0]; i++)
        if (memmem(text, size, of_files[i], strlen(of_files[i])))
            return true;
    for (size_t i = 0; i < size && digits < 4; i++)
        digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
    return digits == 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct err e = {0};
    struct csv s;
    bool good = csv_parse(text, size, FUZZ_FILE, &s, &e);
    fuzz_verdict(good ? &s : NULL, &e, false);
    if (!good)
        return 0;
    for (int64_t i = 0; i < s.n_rows; i++)
        for (int32_t j = 0; j < s.n_columns; j++) {
            double x;
            struct err why = {0};
            const char *cell = csv_cell(&s, i, j, NULL);
            CK(csv_peek(&s, i, j) && csv_f64(&s, i, j, &x, &why) == (why.code == EXIT_GOOD));
            CK(!cell || cell == csv_peek(&s, i, j));
        }
    csv_clear(&s);
    if (is_heavy(text, size))
        return 0;
    struct timed_rows m = {0};
    e = (struct err){0};
    good = timed_rows_parse(text, size, FUZZ_FILE, &m, &e);
    CK(good == (e.code == EXIT_GOOD) && (good || strncmp(e.msg, FUZZ_FILE ":", strlen(FUZZ_FILE ":")) == 0));
    for (int64_t i = 0; i < m.n && good; i++) {
        const struct timed_row *r = &m.row[i];
        CK(r->seconds > 0 && r->heads.h_q % r->heads.h_kv == 0 && r->use[0].s && r->line > 1);
        CK(r->config < m.configs.n && r->kernel < m.kernels.n);
    }
    timed_rows_clear(&m);
    return 0;
}
