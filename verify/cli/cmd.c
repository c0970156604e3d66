#include "verify/cli/cmd.h"
#include "kernels/cuda/host/cuda.h"
#include "verify/io/environment.h"
#include "verify/io/origin.h"
#include "verify/sweep/sweep.h"

#include <stdio.h>
#include <stdlib.h>

int cmd_error(const struct err *e)
{
    CK(e->code);
    if (sweep_is_over())
        return e->code;
    fprintf(stderr, "treeattn: %s\n", e->msg);
    return e->code;
}

struct printer cmd_table(const struct outfile *out, const struct cmd_output *o, const char *const *column,
                         const int32_t *width)
{
    return (struct printer){
        .f = out->f, .style = o->style, .column = column, .aligned = true, .width = width};
}

char *cmd_notes(bool on_gpu, int argc, char **argv)
{
    struct cuda_caps caps;
    struct err e = {0};
    char *device = on_gpu && cuda_caps(&caps, &e) ? origin_device(&caps) : NULL,
         *what = device ? xasprintf("device %s", device) : NULL, *notes = environment_notes("# ", what, argc, argv);
    free(device);
    free(what);
    return notes;
}

int cmd_printed(void)
{
    struct err e = {0};
    struct outfile out = {.f = stdout};
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}
