#include <stdlib.h>
#include <string.h>

#include "driver/vnpu_internal.h"

/* --- the driver's own list of allocations: misuse is refused at the call, before it reaches the
 * chip --- */

/* First allocation that starts above `address`. */
static uint32_t upper_bound(const vnpu__device_t *device, uint64_t address) {
    uint32_t low = 0, high = device->num_allocations;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (device->allocation[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static vnpu_status_t reserve_entry(vnpu__device_t *device) {
    if (device->num_allocations < device->max_allocations) {
        return VNPU_OK;
    }
    uint32_t capacity = device->max_allocations == 0 ? 256 : device->max_allocations * 2;
    vnpu__allocation_t *grown = realloc(device->allocation, capacity * sizeof *grown);
    if (grown == NULL) {
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "vnpu_mem_alloc: out of host memory");
    }
    device->allocation = grown;
    device->max_allocations = capacity;
    return VNPU_OK;
}

static void insert_allocation(vnpu__device_t *device, uint64_t address, uint64_t bytes) {
    uint32_t at = upper_bound(device, address);
    vnpu__allocation_t *entry = &device->allocation[at];
    memmove(entry + 1, entry, (device->num_allocations - at) * sizeof *entry);
    *entry = (vnpu__allocation_t){.address = address, .bytes = bytes};
    device->num_allocations++;
}

static vnpu_status_t check_range(const vnpu__device_t *device, const char *what, uint64_t address,
                                 uint64_t bytes) {
    uint32_t above = upper_bound(device, address);
    const vnpu__allocation_t *entry = above > 0 ? &device->allocation[above - 1] : NULL;
    if (entry != NULL && address - entry->address < entry->bytes &&
        bytes <= entry->bytes - (address - entry->address)) {
        return VNPU_OK;
    }
    if (entry != NULL && address - entry->address < entry->bytes) {
        return vnpu__fail(
            VNPU_ERROR_INVALID_VALUE,
            "%s: %llu bytes at 0x%llx pass the end of the allocation of %llu bytes at 0x%llx", what,
            (unsigned long long)bytes, (unsigned long long)address,
            (unsigned long long)entry->bytes, (unsigned long long)entry->address);
    }
    bool is_device =
        address >= VNPU__DEVICE_BASE && address - VNPU__DEVICE_BASE < vnpu__address_bytes(device);
    return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "%s: 0x%llx is %s", what,
                      (unsigned long long)address,
                      is_device ? "in no live allocation of the device (freed, or never allocated)"
                                : "no device address");
}

static vnpu_status_t submit_free(vnpu__device_t *device, uint64_t address) {
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_FREE}};
    request.packet.u.mem.address = address;
    return vnpu__submit(device, &request, NULL);
}

static vnpu_status_t alloc_in(const char *what, const vnpu_packet_alloc_t *where, int device_index,
                              size_t bytes, vnpu_addr_t *out_address) {
    if (out_address == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "%s: out_address is NULL", what);
    }
    *out_address = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, false, &device);
    if (status != VNPU_OK || bytes == 0) {
        return status == VNPU_OK ? vnpu__leave(device, status) : status;
    }
    device->clock_ps += device->machine.host_submit_ps;
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_ALLOC}};
    request.packet.u.alloc = *where;
    request.packet.u.alloc.bytes = bytes;
    vnpu_completion_t done;
    status = reserve_entry(device);
    if (status == VNPU_OK) {
        status = vnpu__call(device, &request, &done);
    }
    if (status == VNPU_OK) {
        status = reserve_entry(device); /* other threads may have used it up meanwhile */
        if (status == VNPU_OK) {
            insert_allocation(device, done.value[0], bytes);
            *out_address = done.value[0];
        } else {
            (void)submit_free(device, done.value[0]); /* only a lost device refuses it */
        }
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_mem_alloc(int device, size_t bytes, vnpu_addr_t *out_address) {
    vnpu_packet_alloc_t where = {.place = VNPU_PLACE_DRAM};
    return alloc_in("vnpu_mem_alloc", &where, device, bytes, out_address);
}

vnpu_status_t vnpu_mem_alloc_shared(int device, size_t bytes, vnpu_addr_t *out_address) {
    vnpu_packet_alloc_t where = {.place = VNPU_PLACE_SHARED};
    return alloc_in("vnpu_mem_alloc_shared", &where, device, bytes, out_address);
}

vnpu_status_t vnpu_mem_alloc_shards(int device, size_t bytes, const vnpu_shards_t *shards,
                                    vnpu_addr_t *out_address) {
    if (shards == NULL || shards->size != sizeof *shards || shards->row_bytes == 0) {
        return vnpu__fail(
            VNPU_ERROR_INVALID_VALUE,
            "vnpu_mem_alloc_shards: no shards, of another version, or rows of 0 bytes");
    }
    vnpu_packet_alloc_t where = {.place = VNPU_PLACE_SHARED,
                                 .row_bytes = shards->row_bytes,
                                 .shard_rows = shards->shard_rows,
                                 .shard_row_bytes = shards->shard_row_bytes,
                                 .row_step = shards->row_step,
                                 .column_step = shards->column_step};
    return alloc_in("vnpu_mem_alloc_shards", &where, device, bytes, out_address);
}

/* Frees even after a fault: a reset keeps memory, so what the program gave up must not stay. */
vnpu_status_t vnpu_mem_free(int device_index, vnpu_addr_t address) {
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, true, &device);
    if (status != VNPU_OK || address == 0) {
        return status == VNPU_OK ? vnpu__leave(device, status) : status;
    }
    uint32_t above = upper_bound(device, address);
    vnpu__allocation_t *entry = above > 0 ? &device->allocation[above - 1] : NULL;
    if (entry == NULL || entry->address != address) {
        return vnpu__leave(device,
                           vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                                      "vnpu_mem_free: 0x%llx is not the start of a live allocation",
                                      (unsigned long long)address));
    }
    device->clock_ps += device->machine.host_submit_ps;
    status = submit_free(device, address);
    if (status == VNPU_OK) {
        /* submit may have let other threads in: look the entry up again */
        above = upper_bound(device, address);
        entry = &device->allocation[above - 1];
        memmove(entry, entry + 1, (device->num_allocations - above) * sizeof *entry);
        device->num_allocations--;
    }
    if (status == VNPU_OK && device->is_fault_reported) {
        status = vnpu__report_fault(device);
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_mem_info(int device_index, size_t *out_free, size_t *out_total) {
    if (out_free == NULL || out_total == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_mem_info: an out_ parameter is NULL");
    }
    *out_free = *out_total = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, false, &device);
    if (status != VNPU_OK) {
        return status;
    }
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_MEM_INFO}};
    vnpu_completion_t done;
    status = vnpu__call(device, &request, &done);
    if (status == VNPU_OK) {
        *out_free = done.value[0];
        *out_total = done.value[1];
    }
    return vnpu__leave(device, status);
}

/* --- copies --- */

/* Common start of every copy and fill: device, stream, range. Leaves the device on failure. */
static vnpu_status_t begin(const char *what, uint64_t address, uint64_t bytes, vnpu_stream_t handle,
                           vnpu__device_t **out_device, vnpu__stream_t **out_stream) {
    vnpu_status_t status = vnpu__enter(0, false, out_device);
    if (status != VNPU_OK) {
        return status;
    }
    status = vnpu__find_stream(*out_device, handle, out_stream);
    if (status == VNPU_OK && bytes > 0) {
        status = check_range(*out_device, what, address, bytes);
    }
    if (status != VNPU_OK) {
        return vnpu__leave(*out_device, status);
    }
    return VNPU_OK;
}

static void charge_submit(vnpu__device_t *device) {
    device->clock_ps += device->machine.host_submit_ps;
}

static vnpu__request_t copy_request(vnpu_packet_type_t type, uint64_t address, uint64_t bytes,
                                    vnpu__stream_t *stream) {
    vnpu__request_t request = {.packet = {.type = (uint8_t)type, .tag = vnpu__thread_tag()},
                               .stream = stream};
    request.packet.u.copy.device = address;
    request.packet.u.copy.bytes = bytes;
    request.packet.u.copy.total = bytes;
    return request;
}

/* One packet whose host side is a pinned block. */
static vnpu_status_t submit_pinned(vnpu__device_t *device, vnpu__request_t *request,
                                   const void *host, uint64_t bytes, uint64_t *out_seq) {
    vnpu__pinned_t *pinned = vnpu__find_pinned(device, host, bytes);
    uint64_t offset = (uint64_t)((uintptr_t)host - (uintptr_t)pinned->pointer);
    request->packet.flags = (uint8_t)(request->packet.flags | VNPU_PACKET_PINNED);
    request->packet.u.copy.host = (uint64_t)pinned->block << 40 | offset;
    pinned->last_seq = device->next_seq; /* a free from another thread waits at least for this */
    vnpu_status_t status = vnpu__submit(device, request, out_seq);
    pinned = vnpu__find_pinned(device, host, bytes); /* submit may have let other threads in */
    if (status == VNPU_OK && pinned != NULL) {
        pinned->last_seq = *out_seq;
    }
    return status;
}

vnpu_status_t vnpu_memcpy_h2d(vnpu_addr_t dst, const void *src, size_t bytes,
                              vnpu_stream_t stream_handle, int non_blocking) {
    if (src == NULL && bytes > 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_memcpy_h2d: src is NULL");
    }
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    vnpu_status_t status = begin("vnpu_memcpy_h2d", dst, bytes, stream_handle, &device, &stream);
    if (status != VNPU_OK || bytes == 0) {
        return status == VNPU_OK ? vnpu__leave(device, status) : status;
    }
    charge_submit(device);
    vnpu__request_t request = copy_request(VNPU_PACKET_COPY_H2D, dst, bytes, stream);
    if (vnpu__find_pinned(device, src, bytes) == NULL) {
        status = vnpu__write_in(device, &request, src, bytes, NULL);
        return vnpu__leave(device, status);
    }
    uint64_t seq = 0;
    status = submit_pinned(device, &request, src, bytes, &seq);
    if (status == VNPU_OK && !non_blocking) {
        status = vnpu__wait(
            device, seq); /* the source is free again; no simulated time: so is a pageable one */
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_memcpy_d2h(void *dst, vnpu_addr_t src, size_t bytes, vnpu_stream_t stream_handle,
                              int non_blocking) {
    if (dst == NULL && bytes > 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_memcpy_d2h: dst is NULL");
    }
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    vnpu_status_t status = begin("vnpu_memcpy_d2h", src, bytes, stream_handle, &device, &stream);
    if (status != VNPU_OK || bytes == 0) {
        return status == VNPU_OK ? vnpu__leave(device, status) : status;
    }
    charge_submit(device);
    vnpu__request_t request = copy_request(VNPU_PACKET_COPY_D2H, src, bytes, stream);
    vnpu_completion_t last = {0};
    if (vnpu__find_pinned(device, dst, bytes) == NULL) {
        status = vnpu__read_out(device, &request, dst, bytes, &last);
    } else {
        uint64_t seq = 0;
        vnpu__ticket_t ticket = {0};
        if (!non_blocking) {
            request.ticket = &ticket;
            request.packet.flags = VNPU_PACKET_BLOCKING;
        }
        status = submit_pinned(device, &request, dst, bytes, &seq);
        if (status == VNPU_OK && !non_blocking) {
            status = vnpu__wait(device, seq);
            last = ticket.completion;
            status = status == VNPU_OK ? vnpu__answer_status(device, &last) : status;
        }
    }
    if (status == VNPU_OK) {
        vnpu__advance_to(device, last.end_ps);
        status = vnpu__async_status(
            device, last.seq); /* data behind a refused copy is not what it should be */
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_memcpy_d2d(vnpu_addr_t dst, vnpu_addr_t src, size_t bytes,
                              vnpu_stream_t stream_handle) {
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    vnpu_status_t status =
        begin("vnpu_memcpy_d2d (dst)", dst, bytes, stream_handle, &device, &stream);
    if (status != VNPU_OK || bytes == 0) {
        return status == VNPU_OK ? vnpu__leave(device, status) : status;
    }
    status = check_range(device, "vnpu_memcpy_d2d (src)", src, bytes);
    if (status == VNPU_OK) {
        charge_submit(device);
        vnpu__request_t request = copy_request(VNPU_PACKET_COPY_D2D, dst, bytes, stream);
        request.packet.u.copy.host = src;
        request.packet.core = vnpu__stream_core(stream);
        status = vnpu__submit(device, &request, NULL);
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_sim_memcpy_h2d_length(vnpu_addr_t dst, size_t bytes,
                                         vnpu_stream_t stream_handle) {
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    vnpu_status_t status =
        begin("vnpu_sim_memcpy_h2d_length", dst, bytes, stream_handle, &device, &stream);
    if (status != VNPU_OK || bytes == 0) {
        return status == VNPU_OK ? vnpu__leave(device, status) : status;
    }
    charge_submit(device);
    vnpu__request_t request = copy_request(VNPU_PACKET_COPY_H2D, dst, bytes, stream);
    request.packet.flags = VNPU_PACKET_LENGTH_ONLY;
    vnpu_completion_t done;
    status = vnpu__call(device, &request, &done);
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_memset(vnpu_addr_t dst, uint64_t pattern, uint32_t width, size_t count,
                          vnpu_stream_t stream_handle) {
    if ((width != 1 && width != 2 && width != 4 && width != 8) || count > SIZE_MAX / 8) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_memset: width %u (1, 2, 4, 8), count %zu",
                          width, count);
    }
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    vnpu_status_t status =
        begin("vnpu_memset", dst, (uint64_t)count * width, stream_handle, &device, &stream);
    if (status != VNPU_OK || count == 0) {
        return status == VNPU_OK ? vnpu__leave(device, status) : status;
    }
    charge_submit(device);
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_FILL, .tag = vnpu__thread_tag()},
                               .stream = stream};
    request.packet.core = vnpu__stream_core(stream);
    request.packet.u.fill =
        (vnpu_packet_fill_t){.device = dst, .count = count, .pattern = pattern, .width = width};
    status = vnpu__submit(device, &request, NULL);
    return vnpu__leave(device, status);
}
