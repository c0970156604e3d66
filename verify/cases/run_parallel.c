#include "verify/cases/run_parallel.h"
#include "ref/base.h"

#include <omp.h>

enum {
    LEAST_STRETCH = 16, /* cases of which one runs alone; */
    MOST_ALONE = 24,    /* of all of them */
    MOST_THREADS = 16   /* each holds a case's problem and oracle */
};

void run_parallel(int64_t n, void (*run)(void *context, int64_t i), void *context)
{
    int64_t stretch = max_i64(LEAST_STRETCH, ceil_div(n, MOST_ALONE));
    for (int64_t begin = 0; begin < n; begin += stretch) {
        int64_t alone = min_i64(begin + stretch, n) - 1;
        int threads = (int)min_i64(min_i64(omp_get_max_threads(), MOST_THREADS), max_i64(1, alone - begin));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = begin; i < alone; i++)
            run(context, i);
        run(context, alone);
    }
}
