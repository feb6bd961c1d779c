#include <stdlib.h>

#include "driver/vnpu_internal.h"

vnpu__pinned_t *vnpu__find_pinned(vnpu__device_t *device, const void *pointer, uint64_t bytes) {
    uintptr_t address = (uintptr_t)pointer;
    for (uint32_t i = 0; i < device->num_pinned; i++) {
        vnpu__pinned_t *pinned = &device->pinned[i];
        uintptr_t start = (uintptr_t)pinned->pointer;
        if (address >= start && address - start < pinned->bytes &&
            bytes <= pinned->bytes - (address - start)) {
            return pinned;
        }
    }
    return NULL;
}

void vnpu__free_pinned(vnpu__device_t *device) {
    for (uint32_t i = 0; i < device->num_pinned; i++) {
        device->transport->unpin(device, &device->pinned[i]);
    }
    free(device->pinned);
    device->pinned = NULL;
    device->num_pinned = device->max_pinned = 0;
}

static vnpu_status_t grow(vnpu__device_t *device) {
    if (device->num_pinned < device->max_pinned) {
        return VNPU_OK;
    }
    uint32_t capacity = device->max_pinned == 0 ? 16 : device->max_pinned * 2;
    vnpu__pinned_t *grown = realloc(device->pinned, capacity * sizeof *grown);
    if (grown == NULL) {
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "vnpu_host_alloc: out of host memory");
    }
    device->pinned = grown;
    device->max_pinned = capacity;
    return VNPU_OK;
}

vnpu_status_t vnpu_host_alloc(size_t bytes, void **out_pointer) {
    if (out_pointer == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_host_alloc: out_pointer is NULL");
    }
    *out_pointer = NULL;
    if (bytes > (UINT64_C(1) << 39)) {
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY,
                          "vnpu_host_alloc: %zu bytes are more than a block can have", bytes);
    }
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(0, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    if (bytes > 0) {
        vnpu__pinned_t pinned;
        status = grow(device);
        if (status == VNPU_OK) {
            status = device->transport->pin(device, bytes, &pinned);
        }
        if (status == VNPU_OK) {
            device->pinned[device->num_pinned++] = pinned;
            *out_pointer = pinned.pointer;
        }
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_host_free(void *pointer) {
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(0, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    if (pointer == NULL) {
        return vnpu__leave(device, VNPU_OK);
    }
    vnpu__pinned_t *pinned = vnpu__find_pinned(device, pointer, 1);
    if (pinned == NULL || pinned->pointer != pointer) {
        return vnpu__leave(device,
                           vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                                      "vnpu_host_free: %p is no pinned block of vnpu_host_alloc",
                                      pointer));
    }
    vnpu__pinned_t freed = *pinned;
    *pinned = device->pinned[--device->num_pinned];
    status = vnpu__wait(device, freed.last_seq); /* copies under way still use it */
    device->transport->unpin(device, &freed);
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_host_is_pinned(const void *pointer, int *out_is_pinned) {
    if (out_is_pinned == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_host_is_pinned: out_is_pinned is NULL");
    }
    *out_is_pinned = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(0, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    *out_is_pinned = vnpu__find_pinned(device, pointer, 1) != NULL;
    return vnpu__leave(device, VNPU_OK);
}
