/* The table of timing records. */
#include "device/dev_reuse.h"

#include <stdlib.h>
#include <string.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

typedef struct reuse_entry {
    dev_record_t record; /* key inside */
    bool is_kept_only;
    struct reuse_entry *next; /* kept ones */
    UT_hash_handle hh;
} reuse_entry_t;

struct dev_reuse_table {
    reuse_entry_t *head;
    reuse_entry_t *kept;
    uint32_t next_id;
};

sim_status_t dev_reuse_create(dev_reuse_table_t **out_table) {
    *out_table = calloc(1, sizeof **out_table);
    return *out_table == NULL ? SIM_ERROR_OUT_OF_MEMORY : SIM_OK;
}

void dev_reuse_drop_kept(dev_reuse_table_t *table) {
    while (table->kept != NULL) {
        reuse_entry_t *entry = table->kept;
        table->kept = entry->next;
        dev_record_free(&entry->record);
        free(entry);
    }
}

void dev_reuse_destroy(dev_reuse_table_t *table) {
    if (table == NULL) return;
    dev_reuse_drop_kept(table);
    reuse_entry_t *entry = table->head;
    HASH_CLEAR(hh, table->head); /* frees the buckets; the entries stay chained by hh.next */
    while (entry != NULL) {
        reuse_entry_t *next = entry->hh.next;
        dev_record_free(&entry->record);
        free(entry);
        entry = next;
    }
    free(table);
}

const dev_record_t *dev_reuse_find(const dev_reuse_table_t *table, const uint64_t key[2]) {
    reuse_entry_t *entry = NULL;
    HASH_FIND(hh, table->head, key, 2 * sizeof key[0], entry);
    return entry == NULL ? NULL : &entry->record;
}

static reuse_entry_t *entry_new(dev_reuse_table_t *table, const dev_record_t *record) {
    reuse_entry_t *entry = calloc(1, sizeof *entry);
    if (entry == NULL) return NULL;
    entry->record = *record;
    entry->record.id = table->next_id++;
    return entry;
}

sim_status_t dev_reuse_add(dev_reuse_table_t *table, const dev_record_t *record, const dev_record_t **out_record) {
    *out_record = NULL;
    reuse_entry_t *entry = entry_new(table, record);
    if (entry == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    HASH_ADD(hh, table->head, record.key, sizeof entry->record.key, entry);
    *out_record = &entry->record;
    return SIM_OK;
}

sim_status_t dev_reuse_keep(dev_reuse_table_t *table, const dev_record_t *record, const dev_record_t **out_record) {
    *out_record = NULL;
    reuse_entry_t *entry = entry_new(table, record);
    if (entry == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    entry->next = table->kept;
    table->kept = entry;
    *out_record = &entry->record;
    return SIM_OK;
}

void dev_reuse_give_slices(dev_reuse_table_t *table, const dev_record_t *record, dev_record_t *fresh) {
    reuse_entry_t *entry = NULL;
    HASH_FIND(hh, table->head, record->key, sizeof record->key, entry);
    if (entry == NULL || entry->record.slice != NULL) return;
    entry->record.slice = fresh->slice;
    entry->record.num_slices = fresh->num_slices;
    fresh->slice = NULL;
    fresh->num_slices = 0;
}
