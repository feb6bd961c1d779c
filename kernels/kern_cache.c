#include "kernels/kern_cache.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion" /* the macros of uthash mix signs */
#define HASH_NONFATAL_OOM         1
#define uthash_nonfatal_oom(item) (*(is_full) = 1)
#include <uthash.h>

struct kern_cache_item {
    kern_entry_t entry;
    UT_hash_handle hh;
    uint32_t bytes;
    uint8_t data[];
};

static struct kern_cache_item *find(struct kern_cache_item *items, const kern_key_t *key) {
    struct kern_cache_item *item = NULL;
    HASH_FIND(hh, items, key->data, key->bytes, item);
    return item;
}

static void add(struct kern_cache_item **items, struct kern_cache_item *item, int *is_full) {
    HASH_ADD_KEYPTR(hh, *items, item->data, item->bytes, item);
    (void)is_full;
}

static void remove_all(struct kern_cache_item *items, void (*unload)(vnpu_module_t module)) {
    struct kern_cache_item *item, *next;
    HASH_ITER(hh, items, item, next) {
        HASH_DEL(items, item);
        unload(item->entry.module);
        free(item);
    }
}
#pragma GCC diagnostic pop

void kern_key_init(kern_key_t *key, const char *family) {
    key->bytes = 0;
    kern_key_add(key, family, strlen(family) + 1);
}

void kern_key_add(kern_key_t *key, const void *data, size_t bytes) {
    if (bytes > KERN_KEY_BYTES - key->bytes) abort();
    memcpy(key->data + key->bytes, data, bytes);
    key->bytes += (uint32_t)bytes;
}

void kern_key_add_u64(kern_key_t *key, uint64_t value) {
    kern_key_add(key, &value, sizeof value);
}

const kern_entry_t *kern_cache_find(const kern_cache_t *cache, const kern_key_t *key) {
    struct kern_cache_item *item = find(cache->items, key);
    return item ? &item->entry : NULL;
}

const kern_entry_t *kern_cache_add(kern_cache_t *cache, const kern_key_t *key,
                                   const kern_entry_t *entry) {
    struct kern_cache_item *item = calloc(1, sizeof *item + key->bytes);
    if (!item) return NULL;
    item->entry = *entry;
    item->bytes = key->bytes;
    memcpy(item->data, key->data, key->bytes);
    int is_full = 0;
    add(&cache->items, item, &is_full);
    if (is_full) {
        free(item);
        return NULL;
    }
    return &item->entry;
}

void kern_cache_fini(kern_cache_t *cache, void (*unload)(vnpu_module_t module)) {
    remove_all(cache->items, unload);
    cache->items = NULL;
}
