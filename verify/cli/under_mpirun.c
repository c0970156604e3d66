/* under_mpirun.c - one of the processes of mpirun becomes one of treeattn-mpi, which speaks MPI. */
#include "verify/cli/cmd.h"
#include "verify/io/origin.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const shared[] = {"verify", "selftest", "sim", "gap", "replay"};

int cmd_under_mpirun(const char *command, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"); /* of mpirun; srun says PMIX_RANK */
    struct err e = {0};
    char self[PATH_MAX];
    bool is_shared = false;
    rank = rank ? rank : getenv("PMIX_RANK");
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        is_shared = is_shared || strcmp(command, shared[i]) == 0;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!rank || !is_shared || getenv("TREEATTN_SWEEP") || n <= 0)
        return EXIT_GOOD;
    self[n] = 0;
    char *folder = origin_folder(), *launcher = xasprintf("%s/treeattn-mpi", folder);
    setenv("TREEATTN_SWEEP_PROGRAM", self, 1);
    execv(launcher, argv);
    err_missing(&e, "under mpirun, %s is shared by %s, which is not there: %m (make builds it where Open MPI is: apt-get install "
                    "libopenmpi-dev openmpi-bin)", command, launcher);
    free(folder);
    free(launcher);
    return strcmp(rank, "0") == 0 ? cmd_error(&e) : e.code;
}
