/* rights.h - what a student's code may have: known to the judge, and to the program that loads it. */
#ifndef TREEATTN_VERIFY_LAB_RIGHTS_H
#define TREEATTN_VERIFY_LAB_RIGHTS_H

/* The user that it runs as where the judge is root; the memory that it may take. */
enum { LAB_NOBODY = 65534, LAB_MEMORY_GIB = 2 };

#endif
