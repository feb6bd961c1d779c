/*
 * Counts and fails allocations of the code under test (linker option --wrap: calls from static
 * libraries and the test itself, not those inside shared libraries). Not thread-safe.
 */
#ifndef ALLOC_COUNT_H
#define ALLOC_COUNT_H

void alloc_count_reset(void);
/* Allocations since the reset, failed ones included. */
unsigned long alloc_count(void);
/* Blocks allocated since the reset and not freed. */
long alloc_live(void);
/* The n-th allocation from now on (0: the next) and all later ones fail; alloc_count_reset ends
 * that. */
void alloc_fail_from(unsigned long n);

#endif
