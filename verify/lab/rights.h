/* rights.h - what a student's code may have: known to the judge, and to the program that loads it. */
#ifndef TREEATTN_VERIFY_LAB_RIGHTS_H
#define TREEATTN_VERIFY_LAB_RIGHTS_H

/*
 * The user that it runs as where the judge is root: the owner of its folder. That is a user of its own, LAB_FIRST_USER and the judge's
 * process number, so that one student's code does not reach what belongs to another's; nobody where this machine has too few users.
 */
enum { LAB_FIRST_USER = 1 << 30, LAB_NOBODY = 65534 };
/* The memory that it may take. */
enum { LAB_MEMORY_GIB = 2 };

#endif
