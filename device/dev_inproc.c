/*
 * libvnpu_device.so: the chip in the calling process (VNPU_TRANSPORT=inproc). No libuv, jemalloc,
 * memfd or sockets; the function table is the only symbol that leaves it.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/dev_open.h"
#include "device/dev_port.h"
#include "device/vnpu_control.h"

typedef struct dev_inproc {
    dev_open_t open;
    dev_port_t *port;
    void *shared;
} dev_inproc_t;

static const char anchor_symbol = 0; /* dladdr of it tells where this library lies */

__attribute__((visibility("default"))) const vnpu_device_table_t *vnpu_device_table(void);

static int32_t report(sim_status_t status, const sim_error_t *err, char *text, size_t text_bytes) {
    if (status != SIM_OK && text_bytes > 0) {
        snprintf(text, text_bytes, "%s", err->text);
    }
    return (int32_t)status;
}

static void inproc_close(void *opaque) {
    dev_inproc_t *device = opaque;
    if (device == NULL) {
        return;
    }
    dev_port_destroy(device->port);
    dev_open_close(&device->open);
    if (device->shared != NULL) {
        munmap(device->shared, dev_port_shared_bytes());
    }
    free(device);
}

static int32_t inproc_open(char *const *env, void **out_device, void **out_shared,
                           uint64_t *out_shared_bytes, char *text, size_t text_bytes) {
    *out_device = *out_shared = NULL;
    *out_shared_bytes = 0;
    sim_error_t err = {0};
    Dl_info info;
    const char *anchor = dladdr(&anchor_symbol, &info) != 0 ? info.dli_fname : NULL;
    dev_inproc_t *device = calloc(1, sizeof *device);
    if (device == NULL) {
        sim_error_set(&err, SIM_ERROR_OUT_OF_MEMORY, "in-process device: out of host memory");
        return report(SIM_ERROR_OUT_OF_MEMORY, &err, text, text_bytes);
    }
    sim_status_t status = dev_open(&device->open, env, anchor, &err);
    if (status != SIM_OK) {
        goto fail;
    }
    void *shared = mmap(NULL, dev_port_shared_bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        status =
            sim_error_set(&err, SIM_ERROR_OUT_OF_MEMORY, "in-process device: no memory for rings");
        goto fail;
    }
    device->shared = shared;
    status = dev_port_create(device->open.chip, device->open.client, shared, &device->port, &err);
    if (status != SIM_OK) {
        goto fail;
    }
    *out_device = device;
    *out_shared = shared;
    *out_shared_bytes = dev_port_shared_bytes();
    return SIM_OK;
fail:
    inproc_close(device);
    return report(status, &err, text, text_bytes);
}

static int32_t inproc_drain(void *opaque, char *text, size_t text_bytes) {
    dev_inproc_t *device = opaque;
    sim_error_t err = {0};
    uint32_t count = 0;
    return report(dev_port_drain(device->port, UINT32_MAX, &count, &err), &err, text, text_bytes);
}

static int32_t inproc_pin(void *opaque, void *pointer, uint64_t bytes, uint32_t *out_block) {
    dev_inproc_t *device = opaque;
    return (int32_t)dev_port_pin(device->port, pointer, bytes, out_block, NULL);
}

static void inproc_unpin(void *opaque, uint32_t block) {
    dev_inproc_t *device = opaque;
    uint64_t bytes = 0;
    (void)dev_port_unpin(device->port, block, &bytes);
}

const vnpu_device_table_t *vnpu_device_table(void) {
    static const vnpu_device_table_t table = {
        .bytes = sizeof(vnpu_device_table_t),
        .layout = VNPU_CONTROL_LAYOUT,
        .open = inproc_open,
        .drain = inproc_drain,
        .pin = inproc_pin,
        .unpin = inproc_unpin,
        .close = inproc_close,
    };
    return &table;
}
