#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver/vnpu_internal.h"

static vnpu__device_t the_device = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .state = VNPU__UNSTARTED,
    .socket = -1,
    .doorbell = -1,
    .streams = {.kind = VNPU__STREAM, .object_bytes = sizeof(vnpu__stream_t)},
    .events = {.kind = VNPU__EVENT, .object_bytes = sizeof(vnpu__event_t)},
    .modules = {.kind = VNPU__MODULE, .object_bytes = sizeof(vnpu__module_t)},
};
static pthread_once_t fork_handler_once = PTHREAD_ONCE_INIT;

void vnpu__library_dir(char *path, size_t bytes) {
    Dl_info info;
    char real[PATH_MAX];
    path[0] = '\0';
    if (dladdr(&the_device, &info) == 0 || realpath(info.dli_fname, real) == NULL) {
        return;
    }
    char *slash = strrchr(real, '/');
    if (slash != NULL && (size_t)(slash + 1 - real) < bytes) {
        slash[1] = '\0';
        snprintf(path, bytes, "%s", real);
    }
}

/* --- fork --- */

/* The child's copy of the socket would keep vnpud alive after the parent's end. */
static void in_forked_child(void) {
    vnpu__device_t *device = &the_device;
    bool is_started = device->state != VNPU__UNSTARTED && device->state != VNPU__SHUT_DOWN;
    if (is_started) {
        atomic_store(&device->is_forked, true);
        device->transport->fork_child(device);
    }
}

static void install_fork_handler(void) {
    (void)pthread_atfork(NULL, NULL, in_forked_child);
}

static vnpu_status_t check_forked(const vnpu__device_t *device) {
    if (atomic_load_explicit(&device->is_forked, memory_order_relaxed)) {
        return vnpu__fail(VNPU_ERROR_FORKED,
                          "this process was forked after the device was started: it cannot use "
                          "the device (start workers by spawn, or before the first use)");
    }
    return VNPU_OK;
}

/* --- start and stop --- */

static vnpu_status_t choose_transport(vnpu__device_t *device) {
    const char *socket = getenv("VNPU_SOCKET"), *name = getenv("VNPU_TRANSPORT");
    if (socket != NULL && socket[0] != '\0') {
        return vnpu__fail(
            VNPU_ERROR_UNSUPPORTED,
            "VNPU_SOCKET=%s: a device shared by several clients is not supported yet; unset it",
            socket);
    }
    if (name == NULL || name[0] == '\0' || strcmp(name, "process") == 0) {
        device->transport = &vnpu__process_transport;
    } else if (strcmp(name, "inproc") == 0) {
        device->transport = &vnpu__inproc_transport;
    } else {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                          "VNPU_TRANSPORT=%s: there are process and inproc", name);
    }
    return VNPU_OK;
}

static bool is_area(const vnpu__device_t *device, uint64_t offset, uint64_t bytes) {
    return offset % 64 == 0 && offset <= device->shared_bytes &&
           bytes <= device->shared_bytes - offset;
}

/* Finds rings and staging in the shared memory that the transport mapped. */
static vnpu_status_t attach(vnpu__device_t *device) {
    uint8_t *base = device->shared;
    vnpu_control_page_t *control = device->shared;
    if (control->protocol_version != VNPU_PROTOCOL_VERSION ||
        control->bytes_total != device->shared_bytes ||
        !is_area(device, control->ring_offset, VNPU_RING_SLOTS * 64u) ||
        !is_area(device, control->completion_offset,
                 VNPU_COMPLETION_SLOTS * sizeof(vnpu_completion_t)) ||
        !is_area(device, control->staging_in_offset, VNPU__STAGING_BYTES) ||
        !is_area(device, control->staging_out_offset, VNPU__STAGING_BYTES)) {
        return vnpu__fail(VNPU_ERROR_ABI_MISMATCH,
                          "the device's shared memory has a layout of another version");
    }
    device->control = control;
    device->ring = base + control->ring_offset;
    device->completions =
        (const vnpu_completion_t *)(const void *)(base + control->completion_offset);
    device->staging_in = base + control->staging_in_offset;
    device->staging_out = base + control->staging_out_offset;
    return VNPU_OK;
}

static vnpu_status_t read_machine(vnpu__device_t *device) {
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_MACHINE}};
    vnpu_completion_t done;
    vnpu_status_t status = vnpu__call(device, &request, &done);
    if (status != VNPU_OK) {
        return status;
    }
    uint64_t classes = done.value[0] / sizeof device->machine;
    if (classes < 1 || classes > VNPU_MAX_CLASSES ||
        done.value[0] != classes * sizeof device->machine) {
        return vnpu__fail(VNPU_ERROR_ABI_MISMATCH,
                          "the device describes itself in %llu bytes, this library knows %zu for "
                          "each of at most %u classes of cores",
                          (unsigned long long)done.value[0], sizeof device->machine,
                          VNPU_MAX_CLASSES);
    }
    void *machine = NULL, *text = NULL;
    status = vnpu__read_blob(device, VNPU_BLOB_MACHINE, done.value[0], &machine);
    if (status == VNPU_OK) {
        memcpy(device->class_machine, machine, done.value[0]);
        device->machine = device->class_machine[0];
        free(machine);
        status = vnpu__read_blob(device, VNPU_BLOB_CONFIG, done.value[1], &text);
        device->config_text = text;
    }
    if (status == VNPU_OK &&
        (device->machine.size != sizeof device->machine || device->machine.num_classes != classes ||
         device->machine.cmd_queue_depth == 0)) {
        status =
            vnpu__fail(VNPU_ERROR_ABI_MISMATCH, "the device's description is of another version");
    }
    return status;
}

/*
 * Device addresses are a range that nothing else may get and nobody may touch: a stray host access
 * faults at once. Where the range cannot be had (address-space limits, sanitizers with a map of
 * their own) only that check is lost.
 */
static void reserve_addresses(vnpu__device_t *device) {
#ifdef __SANITIZE_THREAD__
    (void)device; /* ThreadSanitizer ends the process over a mapping outside its own map */
#else
    void *wanted = (void *)(uintptr_t)VNPU__DEVICE_BASE;
    void *got = mmap(wanted, vnpu__address_bytes(device), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) {
        return;
    }
    if (got != wanted) { /* kernels before 4.17 take the flag for a hint */
        munmap(got, vnpu__address_bytes(device));
        return;
    }
    (void)madvise(got, vnpu__address_bytes(device), MADV_DONTFORK);
    (void)madvise(got, vnpu__address_bytes(device), MADV_DONTDUMP);
    device->reserved = got;
#endif
}

static void clear_run(vnpu__device_t *device) {
    device->next_seq = 1;
    device->read_seq = device->tail = 0;
    device->staging_head = device->staging_tail = 0;
    device->clock_ps = device->max_end_ps = 0;
    device->last_stream_id = 0;
    device->switch_seq = 0;
    memset(device->inflight, 0, sizeof device->inflight);
    device->fault = device->failure = VNPU_OK;
    device->is_fault_reported = device->is_lost = device->is_loss_reported = false;
    device->next_stream_id = 1;
    device->default_stream = (vnpu__stream_t){0};
}

vnpu_status_t vnpu__start(vnpu__device_t *device) {
    pthread_once(&fork_handler_once, install_fork_handler);
    vnpu_status_t status = choose_transport(device);
    if (status != VNPU_OK) {
        return status;
    }
    clear_run(device);
    device->state = VNPU__STARTING;
    status = device->transport->open(device);
    if (status != VNPU_OK) {
        device->state = VNPU__UNSTARTED;
        pthread_cond_broadcast(&device->changed);
        return status;
    }
    status = attach(device);
    if (status == VNPU_OK) {
        status = read_machine(device);
    }
    if (status == VNPU_OK) {
        status = vnpu__init_stream(device, &device->default_stream);
    }
    if (status == VNPU_OK) {
        reserve_addresses(device);
        device->state = VNPU__READY;
    } else {
        vnpu__stop(device);
        device->state = VNPU__UNSTARTED;
    }
    pthread_cond_broadcast(&device->changed);
    return status;
}

void vnpu__stop(vnpu__device_t *device) {
    vnpu__free_pinned(device);
    vnpu__free_objects(device);
    device->transport->close(device);
    if (device->reserved != NULL) {
        munmap(device->reserved, vnpu__address_bytes(device));
    }
    free(device->config_text);
    free(device->profile);
    free(device->allocation);
    device->reserved = device->shared = device->profile = NULL;
    device->control = NULL;
    device->config_text = NULL;
    device->allocation = NULL;
    device->num_allocations = device->max_allocations = 0;
}

/* --- entry and exit --- */

vnpu_status_t vnpu__enter(int device_index, bool allow_fault, vnpu__device_t **out_device) {
    vnpu__device_t *device = &the_device;
    *out_device = device;
    vnpu_status_t status = check_forked(device);
    if (status != VNPU_OK) {
        return status;
    }
    if (device_index != 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "device %d: there is only device 0",
                          device_index);
    }
    pthread_mutex_lock(&device->lock);
    while (device->state == VNPU__STARTING || device->state == VNPU__CLOSING) {
        pthread_cond_wait(&device->changed, &device->lock);
    }
    if (device->state == VNPU__SHUT_DOWN) {
        status = vnpu__fail(VNPU_ERROR_NOT_INITIALIZED, "the device was shut down: call vnpu_init");
    } else if (device->state == VNPU__UNSTARTED) {
        status = vnpu__start(device);
    }
    if (status == VNPU_OK && device->is_lost) {
        status = vnpu__report_loss(device);
    }
    if (status == VNPU_OK && device->is_fault_reported && !allow_fault) {
        status = vnpu__report_fault(device);
    }
    if (status != VNPU_OK) {
        pthread_mutex_unlock(&device->lock);
        return status;
    }
    device->users++;
    return VNPU_OK;
}

vnpu_status_t vnpu__leave(vnpu__device_t *device, vnpu_status_t status) {
    device->users--;
    if (device->state == VNPU__CLOSING && device->users == 0) {
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* --- public --- */

vnpu_status_t vnpu_init(uint32_t flags) {
    vnpu__device_t *device = &the_device;
    if (flags != 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_init: flags must be 0");
    }
    vnpu_status_t status = check_forked(device);
    if (status != VNPU_OK) {
        return status;
    }
    pthread_mutex_lock(&device->lock);
    while (device->state == VNPU__STARTING || device->state == VNPU__CLOSING) {
        pthread_cond_wait(&device->changed, &device->lock);
    }
    if (device->state != VNPU__READY) {
        status = vnpu__start(device);
    } else if (device->is_lost) {
        status = vnpu__report_loss(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* What was never reported to anyone must not be lost with the device. */
static vnpu_status_t last_words(vnpu__device_t *device) {
    if (device->is_loss_reported) {
        return VNPU_OK;
    }
    vnpu_status_t status = vnpu__wait(device, device->next_seq - 1);
    if (status == VNPU_OK && !device->is_fault_reported) {
        status = vnpu__async_status(device, device->next_seq - 1);
    }
    return status;
}

vnpu_status_t vnpu_shutdown(void) {
    vnpu__device_t *device = &the_device;
    vnpu_status_t status = check_forked(device);
    if (status != VNPU_OK) {
        return status;
    }
    pthread_mutex_lock(&device->lock);
    while (device->state == VNPU__STARTING || device->state == VNPU__CLOSING) {
        pthread_cond_wait(&device->changed, &device->lock);
    }
    if (device->state == VNPU__READY) {
        device->state = VNPU__CLOSING; /* nobody else enters; who is inside finishes */
        while (device->users > 0) {
            pthread_cond_wait(&device->changed, &device->lock);
        }
        status = last_words(device);
        vnpu__stop(device);
        device->state = VNPU__SHUT_DOWN;
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

vnpu_status_t vnpu_device_count(int *out_count) {
    if (out_count == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_device_count: out_count is NULL");
    }
    *out_count = 0;
    vnpu_status_t status = check_forked(&the_device);
    if (status == VNPU_OK) {
        *out_count = 1;
    }
    return status;
}

vnpu_status_t vnpu_device_machine(int device_index, vnpu_machine_t *out_machine) {
    return vnpu_device_class(device_index, 0, out_machine);
}

vnpu_status_t vnpu_device_class(int device_index, uint32_t index, vnpu_machine_t *out_machine) {
    if (out_machine == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_device_machine: out_machine is NULL");
    }
    memset(out_machine, 0, sizeof *out_machine);
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    if (index >= device->machine.num_classes) {
        return vnpu__leave(device,
                           vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_device_class: class %u of %u",
                                      index, device->machine.num_classes));
    }
    *out_machine = device->class_machine[index];
    return vnpu__leave(device, VNPU_OK);
}

vnpu_status_t vnpu_device_synchronize(int device_index) {
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, false, &device);
    if (status != VNPU_OK) {
        return status;
    }
    device->clock_ps += device->machine.host_sync_ps;
    uint64_t last = device->next_seq - 1, end_ps = 0;
    status = vnpu__all_end(device, &end_ps);
    if (status == VNPU_OK) {
        vnpu__advance_to(device, end_ps);
        status = vnpu__async_status(device, last);
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_device_reset(int device_index) {
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    device->clock_ps += device->machine.host_sync_ps;
    uint64_t end_ps = 0;
    status = vnpu__all_end(device, &end_ps);
    if (status == VNPU_OK) {
        vnpu__advance_to(device, end_ps);
        vnpu__request_t request = {.packet = {.type = VNPU_PACKET_RESET}};
        vnpu_completion_t done;
        status = vnpu__call(device, &request, &done);
    }
    if (status == VNPU_OK) {
        device->fault = device->failure = VNPU_OK;
        device->is_fault_reported = false;
    }
    return vnpu__leave(device, status);
}
