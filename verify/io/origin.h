/*
 * origin.h - where figures come from: commit, date, command and device, as they stand above measured rows.
 */
#ifndef TREEATTN_VERIFY_IO_ORIGIN_H
#define TREEATTN_VERIFY_IO_ORIGIN_H

#include "kernels/cuda/host/cuda.h"

BEGIN_C

/* The commit of the sources, followed by "-dirty" if files differed from it; or "unknown". */
const char *origin_commit(void);
/* The folder that this program lies in, "" if that is not known. Free it. */
char *origin_folder(void);
/* `treeattn NAME ARGUMENT...` of argv[1] .. argv[argc - 1], as a shell would take it. Free it. */
char *origin_command(const char *name, int argc, char **argv);
/* "2026-11-22 11:43 UTC". */
enum { ORIGIN_DATE = 32 };
void origin_date(char out[ORIGIN_DATE]);
/* "NVIDIA H200, driver 580.159.04 (CUDA 13.0), toolkit 13.0". Free it. */
char *origin_device(const struct cuda_caps *c);

END_C

#endif
