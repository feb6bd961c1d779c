/* Pseudo-random numbers for tests: splitmix64, the same sequence everywhere. */
#ifndef DEV_TEST_RANDOM_H
#define DEV_TEST_RANDOM_H

#include <stdint.h>

static inline uint64_t dev_test_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* In [low, high]. */
static inline int64_t dev_test_between(uint64_t *state, int64_t low, int64_t high) {
    return low + (int64_t)(dev_test_random(state) % (uint64_t)(high - low + 1));
}

#endif
