/*
 * vnpud, the device process: one client for now, told by file descriptor 3. The main thread owns
 * the control loop (socket, the client's pidfd, pinned blocks), the chip thread its own loop
 * (doorbell, naps) and the chip.
 */
#ifndef VNPUD_INTERNAL_H
#define VNPUD_INTERNAL_H

#include <stdatomic.h>
#include <uv.h>

#include "device/dev_open.h"
#include "device/dev_port.h"
#include "device/vnpu_control.h"

typedef struct vnpud {
    dev_open_t open;
    dev_port_t *port;
    void *shared;
    int socket, shared_fd, doorbell, client_pidfd; /* -1: none */

    uv_loop_t control_loop;
    uv_poll_t socket_poll, client_poll;
    uv_async_t chip_ended; /* sent by the chip thread as its last act */
    uv_timer_t grace; /* the chip may finish its packet after the client has gone, for a moment */
    bool is_stopping;

    uv_loop_t chip_loop;
    uv_poll_t doorbell_poll;
    uv_async_t stop_request;
    uv_timer_t nap;
    uv_thread_t chip_thread;
    atomic_bool stop;
    bool can_spin;          /* more than one CPU in the affinity mask */
    sim_error_t chip_error; /* written by the chip thread before chip_ended */
} vnpud_t;

/* A failure of a system call in words; `hint` says what may help. */
sim_status_t vnpud_fail(sim_error_t *err, sim_status_t status, const char *what,
                        const char *hint) SIM_MUST_USE;

/* Shared memory of `bytes` (whole pages), zeroed, sealed against resizing, mapped here. */
sim_status_t vnpud_shm_create(const char *name, uint64_t bytes, int *out_fd, void **out_pointer,
                              sim_error_t *err) SIM_MUST_USE;

/* Sends a frame with up to two descriptors (-1: none). A client that is gone is seen by the reader,
 * not here. */
void vnpud_send(int socket, const vnpu_control_message_t *message, int fd0, int fd1);
void vnpud_send_error(int socket, sim_status_t status, const char *step, const char *text);

/* The chip thread: start sets up its loop and starts it; it ends when `stop` is set and
 * stop_request was sent. */
sim_status_t vnpud_chip_start(vnpud_t *vnpud, sim_error_t *err) SIM_MUST_USE;
void vnpud_chip_join(vnpud_t *vnpud);

/* The control loop: set_up before the welcome, run until the client is gone and the chip thread has
 * ended. */
sim_status_t vnpud_control_init(vnpud_t *vnpud, sim_error_t *err) SIM_MUST_USE;
void vnpud_control_run(vnpud_t *vnpud);

#endif
