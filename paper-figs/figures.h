/* figures.h - one function per line of figures.def: it fills in the figure. Every file of figures includes this. */
#ifndef TREEATTN_PAPER_FIGS_FIGURES_H
#define TREEATTN_PAPER_FIGS_FIGURES_H

#include "paper-figs/figure.h"

#define FIGURE(function, paper, place, shows, source, machine, why) void fig_##function(struct figure *f);
#define FIGURE_BY_RELEASE FIGURE
#define NOT_POSSIBLE_FIGURE(id, paper, place, shows, why)
#include "paper-figs/figures.def"
#undef FIGURE
#undef FIGURE_BY_RELEASE
#undef NOT_POSSIBLE_FIGURE

#endif
