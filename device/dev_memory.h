/*
 * The chip's DRAM, and behind it the memory that lies in the cores' scratchpads, as memory: an
 * address range of its own (a reserved PROT_NONE range in every client, so that a stray host access
 * faults at once), backed by anonymous huge-page memory of this process, touched once and kept.
 * Allocation is a deterministic offset allocator (best fit, 512-byte alignment) with its
 * bookkeeping outside the memory. In the shared scratchpad memory an allocation takes whole
 * stripes, a page of every core, so that all begin at core 0.
 */
#ifndef DEV_MEMORY_H
#define DEV_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/sim_shared.h"

#define DEV_MEMORY_BASE  0x200000000000ull /* first device address */
#define DEV_MEMORY_ALIGN 512u

typedef enum dev_backing {
    DEV_BACKING_FULL,   /* every byte has a value */
    DEV_BACKING_TIMING, /* reserved only: pages are backed when integers are written; floats stay
                           unknown */
} dev_backing_t;

typedef struct dev_memory dev_memory_t;

/* host_limit: refuse allocations beyond this many bytes in total (0: from MemAvailable, full
 * backing only). */
sim_status_t dev_memory_create(uint64_t dram_bytes, dev_backing_t backing, uint64_t host_limit,
                               dev_memory_t **out_memory, sim_error_t *err) SIM_MUST_USE;
/* With shared_bytes (0: none) of shared scratchpad memory in stripes of stripe_bytes, a page of
 * each of `cores`. */
sim_status_t dev_memory_create_shared(uint64_t dram_bytes, uint64_t shared_bytes,
                                      uint64_t stripe_bytes, uint32_t cores, dev_backing_t backing,
                                      uint64_t host_limit, dev_memory_t **out_memory,
                                      sim_error_t *err) SIM_MUST_USE;
void dev_memory_destroy(dev_memory_t *memory);

/* Device address behind the DRAM, where the shared scratchpad memory begins if there is one. */
static inline uint64_t dev_memory_shared_base(uint64_t dram_bytes) {
    return DEV_MEMORY_BASE + dram_bytes / DEV_MEMORY_ALIGN * DEV_MEMORY_ALIGN;
}

/* owner: client id, so that a client's end frees what it had. bytes 0 is refused. */
sim_status_t dev_memory_alloc(dev_memory_t *memory, uint32_t owner, uint64_t bytes,
                              uint64_t *out_address, sim_error_t *err) SIM_MUST_USE;
/* In the shared scratchpad memory; UNSUPPORTED where there is none. shards NULL: in pages; else
 * every core gives as many whole pages as the largest block takes. */
sim_status_t dev_memory_alloc_shared(dev_memory_t *memory, uint32_t owner, uint64_t bytes,
                                     const sim_shards_t *shards, uint64_t *out_address,
                                     sim_error_t *err) SIM_MUST_USE;

/* Of the allocation that holds `address`, for the timing engine: its place in the table of all
 * shards that there were, which only grows. */
sim_shared_home_t dev_memory_home(const dev_memory_t *memory, uint64_t address);
const sim_shards_t *dev_memory_shards(const dev_memory_t *memory); /* [SIM_SHARED_MAX_SHARDS] */
sim_status_t dev_memory_free(dev_memory_t *memory, uint32_t owner, uint64_t address,
                             sim_error_t *err) SIM_MUST_USE;
void dev_memory_free_owner(dev_memory_t *memory, uint32_t owner);

/*
 * Host pointer for [address, address + bytes), or NULL with a reason (outside every allocation,
 * past the end of one, freed, host pointer) when the whole range does not lie in one live
 * allocation. owner 0: any. TIMING backing: pages are readable as zero and writable (backed on
 * write): integers work, floats are not stored.
 */
void *dev_memory_translate(dev_memory_t *memory, uint32_t owner, uint64_t address, uint64_t bytes,
                           sim_error_t *err);

/* The allocation that holds `address`: its start and size; false if none. */
bool dev_memory_find(const dev_memory_t *memory, uint64_t address, uint64_t *out_start,
                     uint64_t *out_bytes);
/* Of the DRAM. */
void dev_memory_info(const dev_memory_t *memory, uint64_t *out_free, uint64_t *out_total,
                     uint64_t *out_peak);

/* Timing mode: ranges whose values are unknown (written by float instructions or by lengths-only
 * copies). */
void dev_memory_mark_unknown(dev_memory_t *memory, uint64_t address, uint64_t bytes);
void dev_memory_mark_known(dev_memory_t *memory, uint64_t address, uint64_t bytes);
bool dev_memory_is_known(const dev_memory_t *memory, uint64_t address, uint64_t bytes);

#endif
