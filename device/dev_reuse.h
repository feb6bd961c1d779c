/* Timing reuse: records by their 128-bit key. A hit is bit-identical to simulating again
 * (VNPU_REUSE=check shows it). */
#ifndef DEV_REUSE_H
#define DEV_REUSE_H

#include "device/dev_timing.h"

typedef struct dev_reuse_table dev_reuse_table_t;

sim_status_t dev_reuse_create(dev_reuse_table_t **out_table) SIM_MUST_USE;
void dev_reuse_destroy(dev_reuse_table_t *table);
/* NULL: not there. The record stays owned by the table and valid until it is destroyed. */
const dev_record_t *dev_reuse_find(const dev_reuse_table_t *table, const uint64_t key[2]);
/* Takes the record's arrays (the struct is copied); replaces nothing: the key must be new. Records
 * get ids 0, 1, 2, ... */
sim_status_t dev_reuse_add(dev_reuse_table_t *table, const dev_record_t *record,
                           const dev_record_t **out_record) SIM_MUST_USE;
/* An epoch of several packets. */
typedef struct dev_epoch_member {
    uint64_t key[2];     /* of its placement in the epoch */
    uint64_t start, end; /* ticks of the epoch */
    dev_record_t record;
} dev_epoch_member_t;
typedef struct dev_epoch {
    dev_epoch_member_t *member; /* in the order of their starts */
    uint32_t *ended;            /* members in the order in which they ended */
    uint32_t count;
    struct dev_epoch *next; /* with the same first member */
} dev_epoch_t;
void dev_epoch_free(dev_epoch_t *epoch); /* its arrays and records, not itself */

/* The epochs that begin with a packet of this key, the latest first; NULL: none is known. */
const dev_epoch_t *dev_reuse_epochs(const dev_reuse_table_t *table, const uint64_t first_key[2]);
/* Of one first member so many are kept, the latest: starts that never come again must not fill the
 * memory. */
#define DEV_REUSE_EPOCHS 16u
/* Takes the epoch's arrays; its records get ids. is_kept_only: not to be found (reuse off).
 * may_drop: nobody holds records of older epochs, so the oldest of too many goes. */
sim_status_t dev_reuse_add_epoch(dev_reuse_table_t *table, const dev_epoch_t *epoch,
                                 bool is_kept_only, bool may_drop,
                                 const dev_epoch_t **out_epoch) SIM_MUST_USE;

/* Keeps a record without making it findable (reuse off). */
sim_status_t dev_reuse_keep(dev_reuse_table_t *table, const dev_record_t *record,
                            const dev_record_t **out_record) SIM_MUST_USE;
/* Frees records that are only kept. */
void dev_reuse_drop_kept(dev_reuse_table_t *table);
/* Gives an existing record the slices of a fresh, equal one (taken). */
void dev_reuse_give_slices(dev_reuse_table_t *table, const dev_record_t *record,
                           dev_record_t *fresh);

#endif
