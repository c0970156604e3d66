/*
 * why.h - what a drawn number rests on: the cells of result files that move it, the commands that made these, and their commits.
 */
#ifndef TREEATTN_PAPER_FIGS_WHY_H
#define TREEATTN_PAPER_FIGS_WHY_H

#include "paper-figs/figure.h"

/*
 * Prints it for one row of drawn/ID.csv: by its number among the rows, from 1, or as SERIES@AT, which is the first such point. Nothing
 * is written down by hand: the figure is made again with numbers of its tables moved, and those are named that move this one. So a
 * number that only says which row is the largest is not among them. The exit code.
 */
int why(const char *id, const char *cell, const struct places *places);

#endif
