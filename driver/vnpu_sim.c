#include "driver/vnpu_sim.h"

#include <stdlib.h>

#include "driver/vnpu_internal.h"

static _Thread_local uint32_t thread_tag;

void vnpu_sim_set_tag(uint32_t tag) {
    thread_tag = tag;
}

uint32_t vnpu__thread_tag(void) {
    return thread_tag;
}

vnpu_status_t vnpu_sim_host_clock(int device_index, uint64_t *out_ps) {
    if (out_ps == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_sim_host_clock: out_ps is NULL");
    }
    *out_ps = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    *out_ps = device->clock_ps;
    return vnpu__leave(device, VNPU_OK);
}

vnpu_status_t vnpu_sim_host_advance(int device_index, uint64_t ps) {
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    if (ps > UINT64_MAX / 4 - device->clock_ps) {
        status =
            vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                       "vnpu_sim_host_advance: %llu ps overflow the clock", (unsigned long long)ps);
    } else {
        device->clock_ps += ps;
    }
    return vnpu__leave(device, status);
}

/* Waits for everything, as vnpu_device_synchronize does. */
static vnpu_status_t drain(vnpu__device_t *device) {
    device->clock_ps += device->machine.host_sync_ps;
    uint64_t last = device->next_seq - 1, end_ps = 0;
    vnpu_status_t status = vnpu__all_end(device, &end_ps);
    if (status == VNPU_OK) {
        vnpu__advance_to(device, end_ps);
        status = vnpu__async_status(device, last);
    }
    return status;
}

vnpu_status_t vnpu_profile_begin(int device_index, int with_slices) {
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, false, &device);
    if (status != VNPU_OK) {
        return status;
    }
    status = drain(device);
    if (status == VNPU_OK) {
        vnpu__request_t request = {.packet = {.type = VNPU_PACKET_PROFILE_START}};
        request.packet.u.mem.bytes = with_slices != 0;
        vnpu_completion_t done;
        status = vnpu__call(device, &request, &done);
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_profile_end(int device_index, const void **out_blob, size_t *out_bytes) {
    if (out_blob == NULL || out_bytes == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_profile_end: an out_ parameter is NULL");
    }
    *out_blob = NULL;
    *out_bytes = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, false, &device);
    if (status != VNPU_OK) {
        return status;
    }
    status = drain(device);
    vnpu_completion_t done;
    if (status == VNPU_OK) {
        vnpu__request_t request = {.packet = {.type = VNPU_PACKET_PROFILE_STOP}};
        status = vnpu__call(device, &request, &done);
    }
    void *blob = NULL;
    if (status == VNPU_OK) {
        status = vnpu__read_blob(device, VNPU_BLOB_PROFILE, done.value[0], &blob);
    }
    if (status == VNPU_OK) {
        free(device->profile);
        device->profile = blob;
        *out_blob = blob;
        *out_bytes = done.value[0];
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_sim_config_text(int device_index, const char **out_text) {
    if (out_text == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_sim_config_text: out_text is NULL");
    }
    *out_text = NULL;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    *out_text = device->config_text;
    return vnpu__leave(device, VNPU_OK);
}

vnpu_status_t vnpu_sim_memory_rate(int device_index, uint64_t *out_stream, uint64_t *out_random) {
    if (out_stream == NULL || out_random == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE,
                          "vnpu_sim_memory_rate: an out_ parameter is NULL");
    }
    *out_stream = *out_random = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_MEASURE}};
    vnpu_completion_t done;
    status = vnpu__call(device, &request, &done);
    if (status == VNPU_OK) {
        *out_stream = done.value[0];
        *out_random = done.value[1];
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_sim_device_pid(int device_index, int64_t *out_pid) {
    if (out_pid == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_sim_device_pid: out_pid is NULL");
    }
    *out_pid = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, true, &device);
    if (status != VNPU_OK) {
        return status;
    }
    *out_pid = device->pid;
    return vnpu__leave(device, VNPU_OK);
}
