/*
 * Cache of built programs: key bytes (family, shapes, strides, dtypes) -> module and grid. The
 * modules stay loaded until the context goes.
 */
#ifndef KERN_CACHE_H
#define KERN_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "driver/vnpu.h"
#include "kernels/kern_plan.h"

#define KERN_KEY_BYTES 1024u

typedef struct kern_key {
    uint32_t bytes;
    uint8_t data[KERN_KEY_BYTES];
} kern_key_t;

/* family: its name. Values are added without padding bytes: integers and arrays of integers only.
 */
void kern_key_init(kern_key_t *key, const char *family);
void kern_key_add(kern_key_t *key, const void *data, size_t bytes);
void kern_key_add_u64(kern_key_t *key, uint64_t value);

typedef struct kern_entry {
    vnpu_module_t module;
    uint32_t grid[2];
    kern_mapping_t mapping; /* family NULL: none */
} kern_entry_t;

typedef struct kern_cache {
    struct kern_cache_item *items; /* uthash */
} kern_cache_t;

/* NULL when there is none. Entries stay where they are. */
const kern_entry_t *kern_cache_find(const kern_cache_t *cache, const kern_key_t *key);
/* NULL when out of memory. */
const kern_entry_t *kern_cache_add(kern_cache_t *cache, const kern_key_t *key,
                                   const kern_entry_t *entry);
/* Empties it; `unload` is called for every module. */
void kern_cache_fini(kern_cache_t *cache, void (*unload)(vnpu_module_t module));

#endif
