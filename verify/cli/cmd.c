#include "verify/cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>

int cmd_error(const struct err *e)
{
    CK(e->code);
    fprintf(stderr, "treeattn: %s\n", e->msg);
    return e->code;
}

struct printer cmd_table(const struct outfile *out, const struct cmd_output *o, const char *const *column,
                         const int32_t *width)
{
    return (struct printer){
        .f = out->f, .style = o->style, .column = column, .aligned = true, .width = width};
}

int cmd_printed(void)
{
    struct err e = {0};
    struct outfile out = {.f = stdout};
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}
