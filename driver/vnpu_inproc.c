/*
 * The transport without a process: libvnpu_device.so beside this library, the same rings in plain
 * memory, every packet executed in the call that submits it.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver/vnpu_internal.h"

/* The device library takes SLEEF's functions from the SLEEF that it was built with, although
 * libtorch_cpu exports some 2000 names of another version whose bits differ. Sanitizers refuse the
 * flag. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_SYMBOLS_FIRST 0
#else
#define OWN_SYMBOLS_FIRST RTLD_DEEPBIND
#endif

#define PAGE_BYTES 4096u

extern char **environ;

static vnpu_status_t load_library(vnpu__device_t *device) {
    char path[PATH_MAX + 32];
    const char *given = getenv("VNPU_DEVICE_LIBRARY");
    if (given != NULL && given[0] != '\0') {
        snprintf(path, sizeof path, "%s", given);
    } else {
        char dir[PATH_MAX];
        vnpu__library_dir(dir, sizeof dir);
        snprintf(path, sizeof path, "%slibvnpu_device.so", dir);
    }
    /* NODELETE: libraries behind it put strings of their own into the environment, which outlive a
     * close. */
    device->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | OWN_SYMBOLS_FIRST);
    if (device->library == NULL) {
        return vnpu__fail(VNPU_ERROR_NOT_FOUND, "VNPU_TRANSPORT=inproc: %s", dlerror());
    }
    void *symbol = dlsym(device->library, VNPU_DEVICE_TABLE_SYMBOL);
    vnpu_device_table_fn get_table = NULL;
    memcpy(&get_table, &symbol,
           sizeof get_table); /* ISO C has no cast from an object to a function */
    device->table = get_table != NULL ? get_table() : NULL;
    const vnpu_control_layout_t layout = VNPU_CONTROL_LAYOUT;
    if (device->table == NULL || device->table->bytes != sizeof *device->table ||
        memcmp(&device->table->layout, &layout, sizeof layout) != 0) {
        return vnpu__fail(VNPU_ERROR_ABI_MISMATCH, "%s is of another version than libvnpu", path);
    }
    return VNPU_OK;
}

static void inproc_close(vnpu__device_t *device) {
    if (device->inproc != NULL) {
        device->table->close(device->inproc);
    }
    if (device->library != NULL) {
        dlclose(device->library);
    }
    device->inproc = device->library = device->shared = NULL;
    device->table = NULL;
}

static vnpu_status_t inproc_open(vnpu__device_t *device) {
    device->is_inproc_broken = false;
    vnpu_status_t status = load_library(device);
    if (status == VNPU_OK) {
        char text[VNPU_CONTROL_TEXT] = "";
        status = (vnpu_status_t)device->table->open(environ, &device->inproc, &device->shared,
                                                    &device->shared_bytes, text, sizeof text);
        if (status != VNPU_OK) {
            vnpu__fail(status, "%s", text);
        }
    }
    if (status != VNPU_OK) {
        inproc_close(device);
    }
    return status;
}

static void inproc_published(vnpu__device_t *device, uint64_t tail) {
    (void)tail;
    if (!device->is_inproc_broken && device->table->drain(device->inproc, device->lost_text,
                                                          sizeof device->lost_text) != VNPU_OK) {
        device->is_inproc_broken = true;
    }
}

static bool inproc_wait(vnpu__device_t *device, uint64_t seq) {
    return atomic_load(&device->control->done) >= seq;
}

/* Only a ring that makes no sense ends an in-process device; drain() has left the reason. */
static void inproc_obituary(vnpu__device_t *device, char *text, size_t text_bytes) {
    if (!device->is_inproc_broken) {
        snprintf(text, text_bytes, "the in-process device left a packet undone");
    }
}

static vnpu_status_t inproc_pin(vnpu__device_t *device, uint64_t bytes,
                                vnpu__pinned_t *out_pinned) {
    uint64_t mapped = (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    void *pointer = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pointer == MAP_FAILED) {
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "pinned block of %llu bytes",
                          (unsigned long long)bytes);
    }
    uint32_t block = 0;
    vnpu_status_t status =
        (vnpu_status_t)device->table->pin(device->inproc, pointer, mapped, &block);
    if (status != VNPU_OK) {
        munmap(pointer, mapped);
        return vnpu__fail(status, "the device takes no more pinned blocks");
    }
    *out_pinned = (vnpu__pinned_t){
        .pointer = pointer, .bytes = bytes, .mapped_bytes = mapped, .block = block};
    return VNPU_OK;
}

static void inproc_unpin(vnpu__device_t *device, const vnpu__pinned_t *pinned) {
    device->table->unpin(device->inproc, pinned->block);
    munmap(pinned->pointer, pinned->mapped_bytes);
}

static void inproc_fork_child(vnpu__device_t *device) {
    (void)device;
}

const vnpu__transport_t vnpu__inproc_transport = {
    .name = "inproc",
    .open = inproc_open,
    .close = inproc_close,
    .published = inproc_published,
    .wait = inproc_wait,
    .obituary = inproc_obituary,
    .pin = inproc_pin,
    .unpin = inproc_unpin,
    .fork_child = inproc_fork_child,
};
