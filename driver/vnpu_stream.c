#include <stdlib.h>

#include "driver/vnpu_internal.h"

/* --- streams --- */

vnpu_status_t vnpu__init_stream(vnpu__device_t *device, vnpu__stream_t *stream) {
    stream->point = calloc(device->machine.cmd_queue_depth, sizeof *stream->point);
    return stream->point != NULL
               ? VNPU_OK
               : vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "a stream: out of host memory");
}

static void remove_stream(vnpu__device_t *device, vnpu__stream_t *stream) {
    free(stream->point);
    stream->point = NULL;
    vnpu__table_remove(&device->streams, stream);
}

vnpu_status_t vnpu__find_stream(vnpu__device_t *device, vnpu_stream_t handle,
                                vnpu__stream_t **out_stream) {
    *out_stream =
        handle == 0 ? &device->default_stream : vnpu__table_find(&device->streams, handle);
    return *out_stream != NULL ? VNPU_OK
                               : vnpu__fail(VNPU_ERROR_INVALID_HANDLE, "0x%llx is no live stream",
                                            (unsigned long long)handle);
}

static void remove_all(vnpu__table_t *table) {
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->object[i]->is_live) {
            vnpu__table_remove(table, table->object[i]);
        }
    }
}

void vnpu__free_objects(vnpu__device_t *device) {
    for (uint32_t i = 0; i < device->streams.count; i++) {
        vnpu__stream_t *stream = (vnpu__stream_t *)device->streams.object[i];
        free(stream->point);
        stream->point = NULL;
    }
    free(device->default_stream.point);
    device->default_stream.point = NULL;
    remove_all(&device->streams);
    remove_all(&device->events);
    remove_all(&device->modules);
}

/* The device of a stream handle, entered. Leaves it on failure. */
static vnpu_status_t enter_stream(vnpu_stream_t handle, bool allow_fault,
                                  vnpu__device_t **out_device, vnpu__stream_t **out_stream) {
    vnpu_status_t status = vnpu__enter(0, allow_fault, out_device);
    if (status != VNPU_OK) {
        return status;
    }
    status = vnpu__find_stream(*out_device, handle, out_stream);
    return status == VNPU_OK ? status : vnpu__leave(*out_device, status);
}

vnpu_status_t vnpu_stream_create(int device_index, int priority, vnpu_stream_t *out_stream) {
    if (out_stream == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_stream_create: out_stream is NULL");
    }
    *out_stream = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, false, &device);
    if (status != VNPU_OK) {
        return status;
    }
    uint64_t handle = 0;
    vnpu__stream_t *stream = vnpu__table_add(&device->streams, &handle);
    if (stream == NULL) {
        return vnpu__leave(
            device, vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "vnpu_stream_create: out of host memory"));
    }
    status = vnpu__init_stream(device, stream);
    if (status != VNPU_OK) {
        vnpu__table_remove(&device->streams, stream);
        return vnpu__leave(device, status);
    }
    stream->id = device->next_stream_id++;
    stream->priority = priority;
    *out_stream = handle;
    return vnpu__leave(device, VNPU_OK);
}

vnpu_status_t vnpu_stream_set_cores(vnpu_stream_t handle, uint64_t core_mask) {
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    vnpu_status_t status = enter_stream(handle, false, &device, &stream);
    if (status != VNPU_OK) {
        return status;
    }
    status = vnpu__check_cores(device, "vnpu_stream_set_cores", core_mask);
    if (status == VNPU_OK) {
        stream->core_mask = core_mask;
    }
    return vnpu__leave(device, status);
}

uint32_t vnpu__stream_core(const vnpu__stream_t *stream) {
    return stream->core_mask == 0 ? 0 : (uint32_t)__builtin_ctzll(stream->core_mask);
}

vnpu_status_t vnpu_stream_destroy(vnpu_stream_t handle) {
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    if (handle == 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_HANDLE,
                          "vnpu_stream_destroy: the default stream stays");
    }
    vnpu_status_t status = enter_stream(handle, true, &device, &stream);
    if (status != VNPU_OK) {
        return status;
    }
    remove_stream(device, stream);
    return vnpu__leave(device, VNPU_OK);
}

vnpu_status_t vnpu_stream_synchronize(vnpu_stream_t handle) {
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    vnpu_status_t status = enter_stream(handle, false, &device, &stream);
    if (status != VNPU_OK) {
        return status;
    }
    device->clock_ps += device->machine.host_sync_ps;
    uint64_t last = stream->last_seq, end_ps = 0;
    status = vnpu__stream_end(device, stream, &end_ps);
    if (status == VNPU_OK) {
        vnpu__advance_to(device, end_ps);
        status = vnpu__async_status(device, last);
    }
    return vnpu__leave(device, status);
}

/* Whether work up to `seq` that ends at `end_ps` is over for the host. */
static vnpu_status_t readiness(vnpu__device_t *device, uint64_t seq, uint64_t end_ps) {
    vnpu_status_t status = vnpu__async_status(device, seq);
    if (status == VNPU_OK && end_ps > device->clock_ps) {
        return VNPU_ERROR_NOT_READY;
    }
    return status;
}

vnpu_status_t vnpu_stream_query(vnpu_stream_t handle) {
    vnpu__device_t *device;
    vnpu__stream_t *stream;
    vnpu_status_t status = enter_stream(handle, false, &device, &stream);
    if (status != VNPU_OK) {
        return status;
    }
    device->clock_ps += device->machine.host_query_ps;
    uint64_t last = stream->last_seq, end_ps = 0;
    status = vnpu__stream_end(device, stream, &end_ps);
    if (status == VNPU_OK) {
        status = readiness(device, last, end_ps);
    }
    return vnpu__leave(device, status);
}

/* --- events --- */

static vnpu_status_t find_event(vnpu__device_t *device, vnpu_event_t handle,
                                vnpu__event_t **out_event) {
    *out_event = vnpu__table_find(&device->events, handle);
    return *out_event != NULL ? VNPU_OK
                              : vnpu__fail(VNPU_ERROR_INVALID_HANDLE, "0x%llx is no live event",
                                           (unsigned long long)handle);
}

static vnpu_status_t enter_event(vnpu_event_t handle, bool allow_fault, vnpu__device_t **out_device,
                                 vnpu__event_t **out_event) {
    vnpu_status_t status = vnpu__enter(0, allow_fault, out_device);
    if (status != VNPU_OK) {
        return status;
    }
    status = find_event(*out_device, handle, out_event);
    return status == VNPU_OK ? status : vnpu__leave(*out_device, status);
}

/* Waits (wall time) until the record that the event holds now has been timed. Unrecorded: time 0.
 */
static vnpu_status_t resolve_event(vnpu__device_t *device, vnpu_event_t handle,
                                   vnpu__point_t *out_point) {
    vnpu__event_t *event;
    *out_point = (vnpu__point_t){0};
    vnpu_status_t status = find_event(device, handle, &event);
    if (status != VNPU_OK || event->seq == 0) {
        return status;
    }
    do { /* another thread may record it again, or destroy it, meanwhile */
        out_point->seq = event->seq;
        status = vnpu__wait(device, device->next_seq - 1); /* later packets may overlap with it */
        if (status == VNPU_OK) {
            status = find_event(device, handle, &event);
        }
        if (status == VNPU_OK) {
            status = vnpu__event_end(device, event, &out_point->end_ps);
        }
        if (status == VNPU_OK) {
            status = find_event(device, handle, &event);
        }
    } while (status == VNPU_OK && event->seq != out_point->seq);
    return status;
}

vnpu_status_t vnpu_event_create(int device_index, vnpu_event_t *out_event) {
    if (out_event == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_event_create: out_event is NULL");
    }
    *out_event = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(device_index, false, &device);
    if (status != VNPU_OK) {
        return status;
    }
    uint64_t handle = 0;
    if (vnpu__table_add(&device->events, &handle) == NULL) {
        return vnpu__leave(
            device, vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "vnpu_event_create: out of host memory"));
    }
    *out_event = handle;
    return vnpu__leave(device, VNPU_OK);
}

vnpu_status_t vnpu_event_destroy(vnpu_event_t handle) {
    vnpu__device_t *device;
    vnpu__event_t *event;
    vnpu_status_t status = enter_event(handle, true, &device, &event);
    if (status != VNPU_OK) {
        return status;
    }
    vnpu__table_remove(&device->events, event);
    return vnpu__leave(device, VNPU_OK);
}

vnpu_status_t vnpu_event_record(vnpu_event_t handle, vnpu_stream_t stream_handle) {
    vnpu__device_t *device;
    vnpu__event_t *event;
    vnpu_status_t status = enter_event(handle, false, &device, &event);
    if (status != VNPU_OK) {
        return status;
    }
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_EVENT_RECORD}, .event = event};
    status = vnpu__find_stream(device, stream_handle, &request.stream);
    if (status == VNPU_OK) {
        device->clock_ps += device->machine.host_submit_ps;
        status = vnpu__submit(device, &request, NULL);
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_stream_wait_event(vnpu_stream_t stream_handle, vnpu_event_t handle) {
    vnpu__device_t *device;
    vnpu__event_t *event;
    vnpu_status_t status = enter_event(handle, false, &device, &event);
    if (status != VNPU_OK) {
        return status;
    }
    vnpu__request_t request = {.packet = {.type = VNPU_PACKET_EVENT_WAIT}};
    status = vnpu__find_stream(device, stream_handle, &request.stream);
    if (status == VNPU_OK && event->seq != 0) {
        device->clock_ps += device->machine.host_submit_ps;
        request.packet.u.mem.bytes = event->seq;
        status = vnpu__submit(device, &request, NULL);
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_event_synchronize(vnpu_event_t handle) {
    vnpu__device_t *device;
    vnpu__event_t *event;
    vnpu_status_t status = enter_event(handle, false, &device, &event);
    if (status != VNPU_OK) {
        return status;
    }
    device->clock_ps += device->machine.host_sync_ps;
    vnpu__point_t point;
    status = resolve_event(device, handle, &point);
    if (status == VNPU_OK) {
        vnpu__advance_to(device, point.end_ps);
        status = vnpu__async_status(device, point.seq);
    }
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_event_query(vnpu_event_t handle) {
    vnpu__device_t *device;
    vnpu__event_t *event;
    vnpu_status_t status = enter_event(handle, false, &device, &event);
    if (status != VNPU_OK) {
        return status;
    }
    device->clock_ps += device->machine.host_query_ps;
    vnpu__point_t point;
    status = resolve_event(device, handle, &point);
    if (status == VNPU_OK) {
        status = readiness(device, point.seq, point.end_ps);
    }
    return vnpu__leave(device, status);
}

/* The time of a recorded event that is over for the host. */
static vnpu_status_t event_time(vnpu__device_t *device, vnpu_event_t handle, uint64_t *out_ps) {
    vnpu__point_t point;
    vnpu_status_t status = resolve_event(device, handle, &point);
    if (status == VNPU_OK && point.seq == 0) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "event 0x%llx was never recorded",
                          (unsigned long long)handle);
    }
    if (status == VNPU_OK) {
        status = readiness(device, point.seq, point.end_ps);
    }
    *out_ps = status == VNPU_OK ? point.end_ps : 0;
    return status;
}

vnpu_status_t vnpu_event_time_ps(vnpu_event_t handle, uint64_t *out_ps) {
    if (out_ps == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_event_time_ps: out_ps is NULL");
    }
    *out_ps = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(0, false, &device);
    if (status != VNPU_OK) {
        return status;
    }
    status = event_time(device, handle, out_ps);
    return vnpu__leave(device, status);
}

vnpu_status_t vnpu_event_elapsed_ms(vnpu_event_t start, vnpu_event_t end, double *out_ms) {
    if (out_ms == NULL) {
        return vnpu__fail(VNPU_ERROR_INVALID_VALUE, "vnpu_event_elapsed_ms: out_ms is NULL");
    }
    *out_ms = 0;
    vnpu__device_t *device;
    vnpu_status_t status = vnpu__enter(0, false, &device);
    if (status != VNPU_OK) {
        return status;
    }
    uint64_t start_ps = 0, end_ps = 0;
    status = event_time(device, start, &start_ps);
    if (status == VNPU_OK) {
        status = event_time(device, end, &end_ps);
    }
    if (status == VNPU_OK) {
        *out_ms = ((double)end_ps - (double)start_ps) / 1e9;
    }
    return vnpu__leave(device, status);
}
