#include "device/vnpud_internal.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 20000 /* once the ring is empty, if the client runs on another CPU */
#define NAP_MS  1     /* light sleep: the client need not ring for a few packets */
#define BATCH   64u   /* packets between two looks at `stop` */

static void on_doorbell(uv_poll_t *handle, int status, int events) {
    (void)status, (void)events;
    const vnpud_t *vnpud = handle->data;
    uint64_t rings;
    /* Level-triggered: read it, or the loop never sleeps again. Nothing to read is fine. */
    ssize_t bytes = read(vnpud->doorbell, &rings, sizeof rings);
    (void)bytes;
}

static void on_stop_request(uv_async_t *handle) {
    (void)handle;
}

static void on_nap_over(uv_timer_t *handle) {
    (void)handle;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool spin_for_work(const vnpud_t *vnpud) {
    if (!vnpud->can_spin || !dev_port_client_is_elsewhere(vnpud->port)) {
        return false;
    }
    int64_t end = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if (dev_port_has_work(vnpud->port)) {
                return true;
            }
            __builtin_ia32_pause();
        }
    } while (now_ns() < end);
    return false;
}

static bool may_sleep(const vnpud_t *vnpud) {
    return !dev_port_has_work(vnpud->port) && !atomic_load(&vnpud->stop);
}

/*
 * Light sleep first, deep sleep when nothing came of it. A client that waited for the last packet
 * has nothing to submit before it runs again, and then it rings anyway: the timer would cost more
 * than it saves.
 */
static void sleep_until_rung(vnpud_t *vnpud) {
    if (!dev_port_client_waits(vnpud->port)) {
        dev_port_set_state(vnpud->port, DEV_PORT_LIGHT_SLEEP);
        if (may_sleep(vnpud)) {
            uv_update_time(&vnpud->chip_loop);
            uv_timer_start(&vnpud->nap, on_nap_over, NAP_MS, 0);
            uv_run(&vnpud->chip_loop, UV_RUN_ONCE);
            uv_timer_stop(&vnpud->nap);
        }
    }
    if (may_sleep(vnpud)) {
        dev_port_set_state(vnpud->port, DEV_PORT_DEEP_SLEEP);
        if (may_sleep(vnpud)) {
            uv_run(&vnpud->chip_loop, UV_RUN_ONCE);
        }
    }
    dev_port_set_state(vnpud->port, DEV_PORT_AWAKE);
}

static void close_loop(vnpud_t *vnpud) {
    uv_close((uv_handle_t *)&vnpud->doorbell_poll, NULL);
    uv_close((uv_handle_t *)&vnpud->stop_request, NULL);
    uv_close((uv_handle_t *)&vnpud->nap, NULL);
    uv_run(&vnpud->chip_loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&vnpud->chip_loop) != 0) {
        sim_bug("vnpud", 0, "chip loop still has handles");
    }
}

static void chip_main(void *opaque) {
    vnpud_t *vnpud = opaque;
    pthread_setname_np(pthread_self(), "vnpu-chip");
    while (!atomic_load(&vnpud->stop)) {
        uint32_t count = 0;
        if (dev_port_drain(vnpud->port, BATCH, &count, &vnpud->chip_error) != SIM_OK) {
            break;
        }
        if (count == 0 && !spin_for_work(vnpud)) {
            sleep_until_rung(vnpud);
        }
    }
    uv_async_send(&vnpud->chip_ended);
}

sim_status_t vnpud_chip_start(vnpud_t *vnpud, sim_error_t *err) {
    cpu_set_t cpus;
    vnpud->can_spin = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
    const char *step = "uv_loop_init";
    int rc = uv_loop_init(&vnpud->chip_loop);
    if (rc == 0) {
        step = "uv_async_init";
        rc = uv_async_init(&vnpud->chip_loop, &vnpud->stop_request, on_stop_request);
    }
    if (rc == 0) {
        step = "uv_timer_init";
        rc = uv_timer_init(&vnpud->chip_loop, &vnpud->nap);
    }
    if (rc == 0) {
        step = "uv_poll_init of the doorbell";
        rc = uv_poll_init(&vnpud->chip_loop, &vnpud->doorbell_poll, vnpud->doorbell);
    }
    if (rc == 0) {
        vnpud->doorbell_poll.data = vnpud;
        step = "uv_poll_start of the doorbell";
        rc = uv_poll_start(&vnpud->doorbell_poll, UV_READABLE, on_doorbell);
    }
    if (rc == 0) {
        step = "uv_thread_create";
        rc = uv_thread_create(&vnpud->chip_thread, chip_main, vnpud);
    }
    if (rc != 0) { /* the process ends: what is half built goes with it */
        return sim_error_set(err, SIM_ERROR_IO, "%s: %s", step, uv_strerror(rc));
    }
    return SIM_OK;
}

void vnpud_chip_join(vnpud_t *vnpud) {
    uv_thread_join(&vnpud->chip_thread);
    close_loop(vnpud);
}
