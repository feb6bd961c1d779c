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

/* Epochs by the key of their first member. */
typedef struct reuse_epochs {
    uint64_t key[2];
    dev_epoch_t *latest;
    UT_hash_handle hh;
} reuse_epochs_t;

struct dev_reuse_table {
    reuse_entry_t *head;
    reuse_entry_t *kept;
    reuse_epochs_t *epochs;
    dev_epoch_t *kept_epochs;
    uint32_t next_id;
};

sim_status_t dev_reuse_create(dev_reuse_table_t **out_table) {
    *out_table = calloc(1, sizeof **out_table);
    return *out_table == NULL ? SIM_ERROR_OUT_OF_MEMORY : SIM_OK;
}

void dev_epoch_free(dev_epoch_t *epoch) {
    for (uint32_t i = 0; i < epoch->count; i++)
        dev_record_free(&epoch->member[i].record);
    free(epoch->member);
    free(epoch->ended);
    epoch->member = NULL;
    epoch->ended = NULL;
    epoch->count = 0;
}

static void free_epochs(dev_epoch_t *epoch) {
    while (epoch != NULL) {
        dev_epoch_t *next = epoch->next;
        dev_epoch_free(epoch);
        free(epoch);
        epoch = next;
    }
}

const dev_epoch_t *dev_reuse_epochs(const dev_reuse_table_t *table, const uint64_t first_key[2]) {
    reuse_epochs_t *entry = NULL;
    HASH_FIND(hh, table->epochs, first_key, 2 * sizeof first_key[0], entry);
    return entry == NULL ? NULL : entry->latest;
}

static dev_epoch_t **epochs_of(dev_reuse_table_t *table, const uint64_t key[2]) {
    reuse_epochs_t *entry = NULL;
    HASH_FIND(hh, table->epochs, key, 2 * sizeof key[0], entry);
    if (entry == NULL) {
        entry = calloc(1, sizeof *entry);
        if (entry == NULL) return NULL;
        memcpy(entry->key, key, sizeof entry->key);
        HASH_ADD(hh, table->epochs, key, sizeof entry->key, entry);
    }
    return &entry->latest;
}

/* Cuts a list behind its first DEV_REUSE_EPOCHS. */
static void drop_oldest(dev_epoch_t *epoch) {
    for (uint32_t i = 1; epoch != NULL && i < DEV_REUSE_EPOCHS; i++)
        epoch = epoch->next;
    if (epoch == NULL) return;
    free_epochs(epoch->next);
    epoch->next = NULL;
}

sim_status_t dev_reuse_add_epoch(dev_reuse_table_t *table, const dev_epoch_t *epoch,
                                 bool is_kept_only, bool may_drop, const dev_epoch_t **out_epoch) {
    *out_epoch = NULL;
    dev_epoch_t **list =
        is_kept_only ? &table->kept_epochs : epochs_of(table, epoch->member[0].key);
    dev_epoch_t *added = list == NULL ? NULL : malloc(sizeof *added);
    if (added == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    *added = *epoch;
    for (uint32_t i = 0; i < added->count; i++)
        added->member[i].record.id = table->next_id++;
    added->next = *list;
    *list = added;
    if (may_drop && !is_kept_only) drop_oldest(added);
    *out_epoch = added;
    return SIM_OK;
}

void dev_reuse_drop_kept(dev_reuse_table_t *table) {
    free_epochs(table->kept_epochs);
    table->kept_epochs = NULL;
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
    reuse_epochs_t *epochs = table->epochs;
    HASH_CLEAR(hh, table->epochs);
    while (epochs != NULL) {
        reuse_epochs_t *next = epochs->hh.next;
        free_epochs(epochs->latest);
        free(epochs);
        epochs = next;
    }
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

sim_status_t dev_reuse_add(dev_reuse_table_t *table, const dev_record_t *record,
                           const dev_record_t **out_record) {
    *out_record = NULL;
    reuse_entry_t *entry = entry_new(table, record);
    if (entry == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    HASH_ADD(hh, table->head, record.key, sizeof entry->record.key, entry);
    *out_record = &entry->record;
    return SIM_OK;
}

sim_status_t dev_reuse_keep(dev_reuse_table_t *table, const dev_record_t *record,
                            const dev_record_t **out_record) {
    *out_record = NULL;
    reuse_entry_t *entry = entry_new(table, record);
    if (entry == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    entry->next = table->kept;
    table->kept = entry;
    *out_record = &entry->record;
    return SIM_OK;
}

void dev_reuse_give_slices(dev_reuse_table_t *table, const dev_record_t *record,
                           dev_record_t *fresh) {
    reuse_entry_t *entry = NULL;
    HASH_FIND(hh, table->head, record->key, sizeof record->key, entry);
    if (entry == NULL || entry->record.slice != NULL) return;
    entry->record.slice = fresh->slice;
    entry->record.num_slices = fresh->num_slices;
    fresh->slice = NULL;
    fresh->num_slices = 0;
}
