#include "verify/cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>

int cmd_error(const struct err *e)
{
    CK(e->code);
    fprintf(stderr, "treeattn: %s\n", e->msg);
    return e->code;
}

int cmd_printed(void)
{
    struct err e = {0};
    struct outfile out = {.f = stdout};
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}
