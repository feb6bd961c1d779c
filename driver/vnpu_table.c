#include <stdlib.h>
#include <string.h>

#include "driver/vnpu_internal.h"

/* Handle: kind in bits 56.., generation in bits 32..55, slot in bits 0..31. Never 0. */
#define GENERATION_MASK 0xffffffu

static vnpu__object_t *new_object(vnpu__table_t *table) {
    if (table->count == table->capacity) {
        uint32_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
        vnpu__object_t **grown = realloc(table->object, capacity * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        table->object = grown;
        table->capacity = capacity;
    }
    vnpu__object_t *object = calloc(1, table->object_bytes);
    if (object != NULL) {
        object->slot = table->count;
        table->object[table->count++] = object;
    }
    return object;
}

void *vnpu__table_add(vnpu__table_t *table, uint64_t *out_handle) {
    vnpu__object_t *object;
    if (table->first_free != 0) {
        object = table->object[table->first_free - 1];
        table->first_free = object->next_free;
        memset(object + 1, 0, table->object_bytes - sizeof *object);
    } else {
        object = new_object(table);
        if (object == NULL) {
            return NULL;
        }
    }
    object->generation = (object->generation + 1) & GENERATION_MASK;
    object->is_live = true;
    *out_handle = (uint64_t)table->kind << 56 | (uint64_t)object->generation << 32 | object->slot;
    return object;
}

void *vnpu__table_find(const vnpu__table_t *table, uint64_t handle) {
    uint32_t slot = (uint32_t)handle;
    if (handle >> 56 != (uint64_t)table->kind || slot >= table->count) {
        return NULL;
    }
    vnpu__object_t *object = table->object[slot];
    bool is_same = object->is_live && object->generation == (handle >> 32 & GENERATION_MASK);
    return is_same ? object : NULL;
}

void vnpu__table_remove(vnpu__table_t *table, void *removed) {
    vnpu__object_t *object = removed;
    object->is_live = false;
    object->generation =
        (object->generation + 1) & GENERATION_MASK; /* completions under way miss it too */
    object->next_free = table->first_free;
    table->first_free = object->slot + 1;
}
