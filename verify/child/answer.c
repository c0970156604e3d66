#include "verify/child/answer.h"
#include "ref/json_text.h"

#include <inttypes.h>

void answer_print(FILE *to_judge, const char *key, int64_t number, const char *why, int64_t n)
{
    fprintf(to_judge, "{\"%s\":%" PRId64, key, number);
    if (n >= 0)
        fprintf(to_judge, ",\"allocations\":%" PRId64, n);
    if (why) {
        fputs(",\"why\":", to_judge);
        print_json_text(to_judge, why);
    }
    fputs("}\n", to_judge);
    fflush(to_judge);
}
