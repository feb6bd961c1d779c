#include "device/dev_memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES (2ull << 20)

/*
 * Threads: allocation, free and translation from different threads exclude each other by a
 * reader-writer lock, because the executor's threads translate while another client's thread may
 * allocate.
 */
typedef struct block {
    uint64_t offset,
        bytes; /* rounded to DEV_MEMORY_ALIGN; blocks tile the whole range in address order */
    uint64_t requested; /* what the owner asked for: accesses beyond it are faults */
    uint32_t owner;     /* 0: free */
    uint32_t shards;    /* place in the table, 0: none */
    bool is_dirty;      /* free block whose pages may be backed */
} block_t;

typedef struct range {
    uint64_t low, high;
} range_t; /* offsets */

/* DRAM, or the shared scratchpad memory: no block lies in both. */
typedef struct region {
    const char *name;
    uint64_t first, bytes, unit; /* allocations take whole units */
    uint64_t used, peak;
} region_t;
enum { REGION_DRAM, REGION_SHARED, REGION_COUNT };

struct dev_memory {
    dev_backing_t backing;
    uint8_t *map, *base; /* the mapping, and its first 2 MiB boundary */
    uint64_t map_bytes, total, limit;
    region_t region[REGION_COUNT];
    uint32_t cores, shard_count; /* table entries in use, with the unused first one */
    sim_shards_t shards[SIM_SHARED_MAX_SHARDS];
    pthread_rwlock_t lock;
    block_t *block;
    size_t blocks, block_room;
    pthread_mutex_t unknown_lock;
    range_t *unknown; /* disjoint, not touching, ascending */
    size_t unknowns, unknown_room;
};

static uint64_t host_available(void) {
    FILE *stream = fopen("/proc/meminfo", "re");
    if (!stream) return UINT64_MAX;
    char line[256];
    uint64_t kib = 0;
    while (fgets(line, sizeof line, stream)) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) break;
    }
    fclose(stream);
    return kib ? kib * 1024 : UINT64_MAX;
}

static sim_status_t memory_map(dev_memory_t *memory, sim_error_t *err) {
    memory->map_bytes = memory->total + HUGE_BYTES;
    void *map = mmap(NULL, memory->map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY,
                             "cannot reserve %" PRIu64 " bytes of address space for device memory",
                             memory->map_bytes);
    }
    memory->map = map;
    memory->base = memory->map + (HUGE_BYTES - (uintptr_t)map % HUGE_BYTES) % HUGE_BYTES;
    /* Hints: the memory works without them. A timing-only memory is touched sparsely, where a huge
     * page would cost. */
    if (memory->backing == DEV_BACKING_FULL) (void)madvise(map, memory->map_bytes, MADV_HUGEPAGE);
    (void)madvise(map, memory->map_bytes, MADV_DONTFORK);
    (void)madvise(map, memory->map_bytes, MADV_DONTDUMP);
    return SIM_OK;
}

/* One free block each. */
static void set_regions(dev_memory_t *memory, uint64_t dram_bytes, uint64_t shared_bytes,
                        uint64_t stripe_bytes) {
    uint64_t dram = dram_bytes / DEV_MEMORY_ALIGN * DEV_MEMORY_ALIGN;
    memory->region[REGION_DRAM] =
        (region_t){.name = "device memory", .bytes = dram, .unit = DEV_MEMORY_ALIGN};
    memory->region[REGION_SHARED] = (region_t){.name = "shared scratchpad memory",
                                               .first = dram,
                                               .bytes = shared_bytes,
                                               .unit = stripe_bytes};
    memory->total = dram + shared_bytes;
    memory->block[memory->blocks++] = (block_t){.bytes = dram};
    if (shared_bytes > 0)
        memory->block[memory->blocks++] = (block_t){.offset = dram, .bytes = shared_bytes};
}

sim_status_t dev_memory_create(uint64_t dram_bytes, dev_backing_t backing, uint64_t host_limit,
                               dev_memory_t **out_memory, sim_error_t *err) {
    return dev_memory_create_shared(dram_bytes, 0, 0, 0, backing, host_limit, out_memory, err);
}

sim_status_t dev_memory_create_shared(uint64_t dram_bytes, uint64_t shared_bytes,
                                      uint64_t stripe_bytes, uint32_t cores, dev_backing_t backing,
                                      uint64_t host_limit, dev_memory_t **out_memory,
                                      sim_error_t *err) {
    *out_memory = NULL;
    if (dram_bytes < DEV_MEMORY_ALIGN || dram_bytes > 1ull << 45) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE, "device memory of %" PRIu64 " bytes",
                             dram_bytes);
    }
    dev_memory_t *memory = calloc(1, sizeof *memory);
    if (!memory) goto no_memory;
    pthread_rwlock_init(&memory->lock, NULL);
    pthread_mutex_init(&memory->unknown_lock, NULL);
    memory->backing = backing;
    memory->limit = host_limit;
    memory->cores = cores;
    memory->shard_count = 1;
    if (host_limit == 0) {
        memory->limit = backing == DEV_BACKING_FULL ? host_available() : UINT64_MAX;
    }
    memory->block_room = 64;
    memory->block = calloc(memory->block_room, sizeof *memory->block);
    if (!memory->block) goto no_memory;
    set_regions(memory, dram_bytes, shared_bytes, stripe_bytes);
    sim_status_t status = memory_map(memory, err);
    if (status != SIM_OK) {
        dev_memory_destroy(memory);
        return status;
    }
    *out_memory = memory;
    return SIM_OK;
no_memory:
    dev_memory_destroy(memory);
    return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no host memory for the memory map");
}

void dev_memory_destroy(dev_memory_t *memory) {
    if (!memory) return;
    if (memory->map) munmap(memory->map, memory->map_bytes);
    pthread_rwlock_destroy(&memory->lock);
    pthread_mutex_destroy(&memory->unknown_lock);
    free(memory->block);
    free(memory->unknown);
    free(memory);
}

/* Index of the block that holds `offset` (< total). */
static size_t block_of(const dev_memory_t *memory, uint64_t offset) {
    size_t low = 0, high = memory->blocks;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (memory->block[middle].offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool blocks_insert(dev_memory_t *memory, size_t at, block_t block) {
    if (memory->blocks == memory->block_room) {
        block_t *grown = realloc(memory->block, 2 * memory->block_room * sizeof *grown);
        if (!grown) return false;
        memory->block = grown;
        memory->block_room *= 2;
    }
    memmove(memory->block + at + 1, memory->block + at, (memory->blocks - at) * sizeof block);
    memory->block[at] = block;
    memory->blocks++;
    return true;
}

static void blocks_remove(dev_memory_t *memory, size_t at) {
    memory->blocks--;
    memmove(memory->block + at, memory->block + at + 1,
            (memory->blocks - at) * sizeof *memory->block);
}

static bool is_inside(const region_t *region, const block_t *block) {
    return block->offset >= region->first && block->offset - region->first < region->bytes;
}

/* Best fit, lowest address among equals: a pure function of the calls so far. */
static size_t best_fit(const dev_memory_t *memory, const region_t *region, uint64_t bytes) {
    size_t best = memory->blocks;
    for (size_t i = 0; i < memory->blocks; i++) {
        const block_t *block = &memory->block[i];
        if (block->owner || block->bytes < bytes || !is_inside(region, block)) continue;
        if (best == memory->blocks || block->bytes < memory->block[best].bytes) best = i;
    }
    return best;
}

static uint64_t all_used(const dev_memory_t *memory) {
    return memory->region[REGION_DRAM].used + memory->region[REGION_SHARED].used;
}

static sim_status_t alloc_locked(dev_memory_t *memory, region_t *region, uint32_t owner,
                                 uint64_t bytes, uint64_t *out_address, sim_error_t *err) {
    uint64_t rounded = (bytes - 1) / region->unit * region->unit + region->unit;
    size_t at = bytes > region->bytes ? memory->blocks : best_fit(memory, region, rounded);
    if (at == memory->blocks) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY,
                             "%s: %" PRIu64 " bytes asked for, %" PRIu64 " of %" PRIu64
                             " free, no free range is large enough",
                             region->name, bytes, region->bytes - region->used, region->bytes);
    }
    if (all_used(memory) + rounded > memory->limit) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY,
                             "host memory: %" PRIu64 " bytes asked for, %" PRIu64
                             " in use, the host backs at most %" PRIu64,
                             bytes, all_used(memory), memory->limit);
    }
    block_t *block = &memory->block[at];
    uint64_t rest = block->bytes - rounded;
    block_t tail = {.offset = block->offset + rounded, .bytes = rest, .is_dirty = block->is_dirty};
    if (rest && !blocks_insert(memory, at + 1, tail)) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no host memory for the memory map");
    }
    block = &memory->block[at];
    block->bytes = rounded;
    block->requested = bytes;
    block->owner = owner;
    region->used += rounded;
    if (region->used > region->peak) region->peak = region->used;
    *out_address = DEV_MEMORY_BASE + block->offset;
    return SIM_OK;
}

static sim_status_t alloc_in(dev_memory_t *memory, region_t *region, uint32_t owner, uint64_t bytes,
                             uint64_t *out_address, sim_error_t *err) {
    *out_address = 0;
    if (bytes == 0 || owner == 0) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "allocation of %" PRIu64 " bytes for owner %u", bytes, owner);
    }
    pthread_rwlock_wrlock(&memory->lock);
    sim_status_t status = alloc_locked(memory, region, owner, bytes, out_address, err);
    pthread_rwlock_unlock(&memory->lock);
    return status;
}

sim_status_t dev_memory_alloc(dev_memory_t *memory, uint32_t owner, uint64_t bytes,
                              uint64_t *out_address, sim_error_t *err) {
    return alloc_in(memory, &memory->region[REGION_DRAM], owner, bytes, out_address, err);
}

/* The table's entry with these values. Under the lock. */
static sim_status_t find_shards(dev_memory_t *memory, const sim_shards_t *shards,
                                uint32_t *out_index, sim_error_t *err) {
    uint32_t index = 1;
    while (index < memory->shard_count &&
           memcmp(&memory->shards[index], shards, sizeof *shards) != 0)
        index++;
    if (index == SIM_SHARED_MAX_SHARDS)
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "more than %u different shards",
                             SIM_SHARED_MAX_SHARDS - 1);
    if (index == memory->shard_count) memory->shards[memory->shard_count++] = *shards;
    *out_index = index;
    return SIM_OK;
}

static sim_status_t alloc_shards(dev_memory_t *memory, uint32_t owner, uint64_t bytes,
                                 const sim_shards_t *shards, uint64_t *out_address,
                                 sim_error_t *err) {
    region_t *region = &memory->region[REGION_SHARED];
    uint64_t core_bytes, page = region->unit / memory->cores;
    uint32_t index = 0;
    sim_status_t status = sim_shards_check(shards, bytes, memory->cores, &core_bytes, err);
    if (status != SIM_OK) return status;
    uint64_t pages = (core_bytes + page - 1) / page;
    pthread_rwlock_wrlock(&memory->lock);
    status = find_shards(memory, shards, &index, err);
    if (status == SIM_OK)
        status = alloc_locked(memory, region, owner, pages * region->unit, out_address, err);
    if (status == SIM_OK) {
        block_t *block = &memory->block[block_of(memory, *out_address - DEV_MEMORY_BASE)];
        block->shards = index;
        block->requested = bytes;
    }
    pthread_rwlock_unlock(&memory->lock);
    return status;
}

sim_shared_home_t dev_memory_home(const dev_memory_t *memory, uint64_t address) {
    sim_shared_home_t home = {0};
    uint64_t offset = address - DEV_MEMORY_BASE;
    if (memory->shard_count == 1 || offset >= memory->total) return home;
    pthread_rwlock_t *lock = (pthread_rwlock_t *)&memory->lock;
    pthread_rwlock_rdlock(lock);
    const block_t *block = &memory->block[block_of(memory, offset)];
    if (block->shards > 0)
        home = (sim_shared_home_t){DEV_MEMORY_BASE + block->offset, block->shards};
    pthread_rwlock_unlock(lock);
    return home;
}

const sim_shards_t *dev_memory_shards(const dev_memory_t *memory) {
    return memory->shards;
}

sim_status_t dev_memory_alloc_shared(dev_memory_t *memory, uint32_t owner, uint64_t bytes,
                                     const sim_shards_t *shards, uint64_t *out_address,
                                     sim_error_t *err) {
    *out_address = 0;
    if (memory->region[REGION_SHARED].bytes == 0) {
        return sim_error_set(err, SIM_ERROR_UNSUPPORTED,
                             "the chip has no shared scratchpad memory: sram.shared_bytes = 0");
    }
    if (shards != NULL && bytes > 0)
        return alloc_shards(memory, owner, bytes, shards, out_address, err);
    return alloc_in(memory, &memory->region[REGION_SHARED], owner, bytes, out_address, err);
}

static region_t *region_of(dev_memory_t *memory, const block_t *block) {
    bool is_shared = is_inside(&memory->region[REGION_SHARED], block);
    return &memory->region[is_shared ? REGION_SHARED : REGION_DRAM];
}

static void release_block(dev_memory_t *memory, size_t at) {
    block_t *block = &memory->block[at];
    region_t *region = region_of(memory, block);
    region->used -= block->bytes;
    block->owner = 0;
    block->shards = 0;
    block->requested = 0;
    block->is_dirty = true;
    dev_memory_mark_known(memory, DEV_MEMORY_BASE + block->offset, block->bytes);
    if (at + 1 < memory->blocks && memory->block[at + 1].owner == 0 &&
        is_inside(region, &memory->block[at + 1])) {
        block->bytes += memory->block[at + 1].bytes;
        blocks_remove(memory, at + 1);
    }
    if (at > 0 && memory->block[at - 1].owner == 0 && is_inside(region, &memory->block[at - 1])) {
        memory->block[at - 1].bytes += memory->block[at].bytes;
        memory->block[at - 1].is_dirty = true;
        blocks_remove(memory, at);
    }
}

sim_status_t dev_memory_free(dev_memory_t *memory, uint32_t owner, uint64_t address,
                             sim_error_t *err) {
    uint64_t offset = address - DEV_MEMORY_BASE;
    if (offset >= memory->total) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "free of 0x%" PRIx64 ": not a device address", address);
    }
    pthread_rwlock_wrlock(&memory->lock);
    size_t at = block_of(memory, offset);
    const block_t *block = &memory->block[at];
    sim_status_t status = SIM_OK;
    if (block->owner == 0) {
        status = sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                               "free of 0x%" PRIx64 ": not allocated, or freed before", address);
    } else if (block->owner != owner || block->offset != offset) {
        status = sim_error_set(err, SIM_ERROR_INVALID_VALUE, "free of 0x%" PRIx64 ": %s", address,
                               block->owner != owner ? "another client's memory"
                                                     : "inside an allocation, not its start");
    } else {
        release_block(memory, at);
    }
    pthread_rwlock_unlock(&memory->lock);
    return status;
}

/* Gives the whole pages of dirty free blocks back to the host: the next owner reads zeros there. */
static void give_back(dev_memory_t *memory) {
    for (size_t i = 0; i < memory->blocks; i++) {
        block_t *block = &memory->block[i];
        if (block->owner || !block->is_dirty || block->bytes < HUGE_BYTES) continue;
        uint64_t low = (block->offset + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
        uint64_t high = (block->offset + block->bytes) / HUGE_BYTES * HUGE_BYTES;
        if (high <= low) continue;
        (void)madvise(memory->base + low, high - low, MADV_DONTNEED);
        block->is_dirty = low != block->offset || high != block->offset + block->bytes;
    }
}

void dev_memory_free_owner(dev_memory_t *memory, uint32_t owner) {
    if (owner == 0) return;
    pthread_rwlock_wrlock(&memory->lock);
    /* From the top: releasing a block moves only blocks above it. */
    for (size_t i = memory->blocks; i-- > 0;) {
        if (i < memory->blocks && memory->block[i].owner == owner) release_block(memory, i);
    }
    give_back(memory);
    pthread_rwlock_unlock(&memory->lock);
}

/* The live allocation nearest to `offset`, for error texts; false when there is none. */
static bool nearest_block(const dev_memory_t *memory, uint64_t offset, block_t *out_block) {
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < memory->blocks; i++) {
        const block_t *block = &memory->block[i];
        if (!block->owner) continue;
        uint64_t end = block->offset + block->requested, distance = 0;
        if (offset < block->offset) {
            distance = block->offset - offset;
        } else if (offset >= end) {
            distance = offset - end + 1;
        }
        if (distance < best) {
            best = distance;
            *out_block = *block;
        }
    }
    return best != UINT64_MAX;
}

static void refuse(const dev_memory_t *memory, uint32_t owner, uint64_t address, uint64_t bytes,
                   sim_error_t *err) {
    if (!err) return;
    uint64_t offset = address - DEV_MEMORY_BASE;
    const char *reason = "outside every allocation";
    if (offset >= memory->total) {
        reason = "not a device address (host pointer?)";
    } else {
        const block_t *block = &memory->block[block_of(memory, offset)];
        if (block->owner == 0) {
            reason = block->is_dirty ? "not allocated (freed?)" : reason;
        } else if (owner && block->owner != owner) {
            reason = "another client's allocation";
        } else {
            reason = "past the end of the allocation";
        }
    }
    char near[128] = "no allocation is live";
    block_t block;
    if (nearest_block(memory, offset >= memory->total ? 0 : offset, &block)) {
        uint64_t start = DEV_MEMORY_BASE + block.offset;
        (void)snprintf(near, sizeof near,
                       "nearest allocation [0x%" PRIx64 ", 0x%" PRIx64 ") of %" PRIu64 " bytes",
                       start, start + block.requested, block.requested);
    }
    sim_error_set(err, SIM_ERROR_ILLEGAL_ADDRESS, "[0x%" PRIx64 ", +%" PRIu64 " bytes): %s; %s",
                  address, bytes, reason, near);
}

void *dev_memory_translate(dev_memory_t *memory, uint32_t owner, uint64_t address, uint64_t bytes,
                           sim_error_t *err) {
    uint64_t offset = address - DEV_MEMORY_BASE;
    void *pointer = NULL;
    pthread_rwlock_rdlock(&memory->lock);
    if (offset < memory->total) {
        const block_t *block = &memory->block[block_of(memory, offset)];
        uint64_t inside = offset - block->offset;
        bool is_owned = block->owner != 0 && (owner == 0 || block->owner == owner);
        if (is_owned && inside <= block->requested && bytes <= block->requested - inside) {
            pointer = memory->base + offset;
        }
    }
    if (!pointer) refuse(memory, owner, address, bytes, err);
    pthread_rwlock_unlock(&memory->lock);
    return pointer;
}

bool dev_memory_find(const dev_memory_t *memory, uint64_t address, uint64_t *out_start,
                     uint64_t *out_bytes) {
    uint64_t offset = address - DEV_MEMORY_BASE;
    *out_start = *out_bytes = 0;
    if (offset >= memory->total) return false;
    pthread_rwlock_t *lock =
        (pthread_rwlock_t *)&memory->lock; /* the lock is not part of the value */
    pthread_rwlock_rdlock(lock);
    const block_t *block = &memory->block[block_of(memory, offset)];
    bool is_live = block->owner != 0 && offset - block->offset < block->requested;
    if (is_live) {
        *out_start = DEV_MEMORY_BASE + block->offset;
        *out_bytes = block->requested;
    }
    pthread_rwlock_unlock(lock);
    return is_live;
}

void dev_memory_info(const dev_memory_t *memory, uint64_t *out_free, uint64_t *out_total,
                     uint64_t *out_peak) {
    const region_t *dram = &memory->region[REGION_DRAM];
    *out_free = dram->bytes - dram->used;
    *out_total = dram->bytes;
    *out_peak = dram->peak;
}

/* First range that ends at or after `low`. */
static size_t first_range(const dev_memory_t *memory, uint64_t low) {
    size_t left = 0, right = memory->unknowns;
    while (left < right) {
        size_t middle = left + (right - left) / 2;
        if (memory->unknown[middle].high < low) {
            left = middle + 1;
        } else {
            right = middle;
        }
    }
    return left;
}

static void ranges_insert(dev_memory_t *memory, size_t at, range_t range) {
    if (memory->unknowns == memory->unknown_room) {
        size_t room = memory->unknown_room ? 2 * memory->unknown_room : 64;
        range_t *grown = realloc(memory->unknown, room * sizeof *grown);
        if (!grown) sim_bug("memory", 0, "no host memory for the map of unknown values");
        memory->unknown = grown;
        memory->unknown_room = room;
    }
    memmove(memory->unknown + at + 1, memory->unknown + at, (memory->unknowns - at) * sizeof range);
    memory->unknown[at] = range;
    memory->unknowns++;
}

static void ranges_remove(dev_memory_t *memory, size_t at, size_t count) {
    memmove(memory->unknown + at, memory->unknown + at + count,
            (memory->unknowns - at - count) * sizeof *memory->unknown);
    memory->unknowns -= count;
}

void dev_memory_mark_unknown(dev_memory_t *memory, uint64_t address, uint64_t bytes) {
    if (memory->backing != DEV_BACKING_TIMING || bytes == 0) return;
    range_t range = {address - DEV_MEMORY_BASE, address - DEV_MEMORY_BASE + bytes};
    pthread_mutex_lock(&memory->unknown_lock);
    size_t at = first_range(memory, range.low), end = at;
    while (end < memory->unknowns && memory->unknown[end].low <= range.high) {
        if (memory->unknown[end].low < range.low) range.low = memory->unknown[end].low;
        if (memory->unknown[end].high > range.high) range.high = memory->unknown[end].high;
        end++;
    }
    if (end > at) {
        memory->unknown[at] = range;
        ranges_remove(memory, at + 1, end - at - 1);
    } else {
        ranges_insert(memory, at, range);
    }
    pthread_mutex_unlock(&memory->unknown_lock);
}

void dev_memory_mark_known(dev_memory_t *memory, uint64_t address, uint64_t bytes) {
    if (memory->backing != DEV_BACKING_TIMING || bytes == 0) return;
    uint64_t low = address - DEV_MEMORY_BASE, high = low + bytes;
    pthread_mutex_lock(&memory->unknown_lock);
    size_t at = first_range(memory, low + 1);
    while (at < memory->unknowns && memory->unknown[at].low < high) {
        range_t old = memory->unknown[at];
        if (old.low < low) {
            memory->unknown[at].high = low;
            at++;
            if (old.high > high) ranges_insert(memory, at, (range_t){high, old.high});
        } else if (old.high > high) {
            memory->unknown[at].low = high;
        } else {
            ranges_remove(memory, at, 1);
        }
    }
    pthread_mutex_unlock(&memory->unknown_lock);
}

bool dev_memory_is_known(const dev_memory_t *memory, uint64_t address, uint64_t bytes) {
    if (memory->backing != DEV_BACKING_TIMING || bytes == 0) return true;
    uint64_t low = address - DEV_MEMORY_BASE;
    pthread_mutex_t *lock = (pthread_mutex_t *)&memory->unknown_lock;
    pthread_mutex_lock(lock);
    size_t at = first_range(memory, low + 1);
    bool is_known = at == memory->unknowns || memory->unknown[at].low >= low + bytes;
    pthread_mutex_unlock(lock);
    return is_known;
}
