#include "sim/draw/svg.h"

#include <string.h>

static const struct {
    const char *name, *colour;
} series[] = {
#define SERIES(name, label, colour, marker, dash, fill) {name, colour},
#include "paper-figs/series.def"
#undef SERIES
};

static const char *colour_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof series / sizeof series[0]; i++)
        if (strlen(series[i].name) == length && strncmp(series[i].name, name, length) == 0)
            return series[i].colour;
    return NULL;
}

const char *svg_strategy_colour(const char *name)
{
    const char *colour = colour_of(name, strlen(name));
    return colour ? colour : colour_of(name, strcspn(name, ":"));
}
