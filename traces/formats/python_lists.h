/*
 * python_lists.h - token trees that are written as Python, TensorRT-LLM and vLLM have them, made JSON; internal to traces/.
 *
 * Lists and tuples of whole numbers: [[0], [0, 0]], [(0,), (0, 0)], with a comma behind the last, or not.
 */
#ifndef TREEATTN_TRACES_FORMATS_PYTHON_LISTS_H
#define TREEATTN_TRACES_FORMATS_PYTHON_LISTS_H

#include "ref/base.h"

BEGIN_C

/* A file: NAME = list and NAME: list, as many as there are, among comments, imports, docstrings and assignments of other things;
 * or one list, quoted or not, which is called "paths". The result, {"NAME": list, ...}, has every list on the lines where it was.
 * NULL with *e set to "name:line: ..."; the caller frees. */
char *python_lists_json(const char *text, size_t size, const char *name, struct err *e);
/* One list in a string, to JSON. NULL with a sentence in *e that names no place; the caller frees. */
char *python_list_json(const char *s, struct err *e);

END_C

#endif
