#include "device/vnpud_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define GRACE_MS   100
#define PAGE_BYTES 4096u

void vnpud_send(int socket, const vnpu_control_message_t *message, int fd0, int fd1) {
    int fds[2] = {fd0, fd1};
    size_t count = fd0 < 0 ? 0 : fd1 < 0 ? 1 : 2;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fds)];
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
    }
    while (sendmsg(socket, &header, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

void vnpud_send_error(int socket, sim_status_t status, const char *step, const char *text) {
    vnpu_control_message_t message = {.magic = VNPU_CONTROL_MAGIC,
                                      .type = VNPU_CONTROL_ERROR,
                                      .layout = VNPU_CONTROL_LAYOUT,
                                      .pid = (int32_t)getpid(),
                                      .status = (int32_t)status,
                                      .error_number = status == SIM_ERROR_IO ? errno : 0};
    snprintf(message.step, sizeof message.step, "%s", step);
    snprintf(message.text, sizeof message.text, "%s", text);
    vnpud_send(socket, &message, -1, -1);
}

static void pin(vnpud_t *vnpud, uint64_t bytes) {
    sim_error_t err = {0};
    int fd = -1;
    void *pointer = NULL;
    uint32_t block = 0;
    errno = 0;
    if (bytes == 0 || bytes > (UINT64_C(1) << 40) - PAGE_BYTES) {
        sim_error_set(&err, SIM_ERROR_INVALID_VALUE, "pinned block of %llu bytes",
                      (unsigned long long)bytes);
        vnpud_send_error(vnpud->socket, err.status, "pinned memory", err.text);
        return;
    }
    uint64_t rounded = (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    sim_status_t status = vnpud_shm_create("vnpu-pinned", rounded, &fd, &pointer, &err);
    if (status == SIM_OK) {
        status = dev_port_pin(vnpud->port, pointer, rounded, &block, &err);
        if (status != SIM_OK) {
            munmap(pointer, rounded);
        }
    }
    if (status == SIM_OK) {
        vnpu_control_message_t answer = {.magic = VNPU_CONTROL_MAGIC,
                                         .type = VNPU_CONTROL_PINNED,
                                         .layout = VNPU_CONTROL_LAYOUT,
                                         .pid = (int32_t)getpid(),
                                         .block = block,
                                         .bytes = rounded};
        vnpud_send(vnpud->socket, &answer, fd, -1);
    } else {
        vnpud_send_error(vnpud->socket, status, "pinned memory", err.text);
    }
    if (fd >= 0) {
        close(fd); /* the mapping and the client keep the memory */
    }
}

static void unpin(vnpud_t *vnpud, uint32_t block) {
    uint64_t bytes = 0;
    void *pointer = dev_port_unpin(vnpud->port, block, &bytes);
    if (pointer != NULL) {
        munmap(pointer, bytes);
    }
}

static void on_grace_over(uv_timer_t *handle) {
    (void)handle;
    _exit(0); /* a long packet of a client that is gone: nobody is left to see its end */
}

static void begin_stop(vnpud_t *vnpud) {
    if (vnpud->is_stopping) {
        return;
    }
    vnpud->is_stopping = true;
    uv_poll_stop(&vnpud->socket_poll);
    if (vnpud->client_pidfd >= 0) {
        uv_poll_stop(&vnpud->client_poll);
    }
    atomic_store(&vnpud->stop, true);
    uv_async_send(&vnpud->stop_request);
    uv_update_time(&vnpud->control_loop);
    uv_timer_start(&vnpud->grace, on_grace_over, GRACE_MS, 0);
}

static void on_socket(uv_poll_t *handle, int status, int events) {
    (void)status, (void)events;
    vnpud_t *vnpud = handle->data;
    vnpu_control_message_t message;
    while (!vnpud->is_stopping) {
        ssize_t bytes = recv(vnpud->socket, &message, sizeof message, MSG_DONTWAIT);
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (bytes <= 0) { /* end of file: the client is gone */
            begin_stop(vnpud);
        } else if (bytes != (ssize_t)sizeof message || message.magic != VNPU_CONTROL_MAGIC) {
            errno = 0;
            vnpud_send_error(vnpud->socket, SIM_ERROR_INVALID_VALUE, "control socket",
                             "malformed frame");
            begin_stop(vnpud);
        } else if (message.type == VNPU_CONTROL_PIN) {
            pin(vnpud, message.bytes);
        } else if (message.type == VNPU_CONTROL_UNPIN) {
            unpin(vnpud, message.block);
        } else {
            errno = 0;
            vnpud_send_error(vnpud->socket, SIM_ERROR_UNSUPPORTED, "control socket",
                             "a frame of this type is not for the device");
        }
    }
}

static void on_client_end(uv_poll_t *handle, int status, int events) {
    (void)status, (void)events;
    begin_stop(handle->data);
}

/* The chip thread has ended: asked to, or because the client's ring made no sense. */
static void on_chip_ended(uv_async_t *handle) {
    vnpud_t *vnpud = handle->data;
    if (vnpud->chip_error.status != SIM_OK) {
        errno = 0;
        vnpud_send_error(vnpud->socket, vnpud->chip_error.status, "packet ring",
                         vnpud->chip_error.text);
    }
    uv_close((uv_handle_t *)&vnpud->socket_poll, NULL);
    if (vnpud->client_pidfd >= 0) {
        uv_close((uv_handle_t *)&vnpud->client_poll, NULL);
    }
    uv_close((uv_handle_t *)&vnpud->chip_ended, NULL);
    uv_close((uv_handle_t *)&vnpud->grace, NULL);
}

sim_status_t vnpud_control_init(vnpud_t *vnpud, sim_error_t *err) {
    const char *step = "uv_loop_init";
    int rc = uv_loop_init(&vnpud->control_loop);
    if (rc == 0) {
        step = "uv_async_init";
        rc = uv_async_init(&vnpud->control_loop, &vnpud->chip_ended, on_chip_ended);
    }
    if (rc == 0) {
        step = "uv_timer_init";
        rc = uv_timer_init(&vnpud->control_loop, &vnpud->grace);
    }
    if (rc == 0) {
        step = "uv_poll_init of the control socket";
        rc = uv_poll_init(&vnpud->control_loop, &vnpud->socket_poll, vnpud->socket);
    }
    if (rc == 0) {
        step = "uv_poll_start of the control socket";
        rc = uv_poll_start(&vnpud->socket_poll, UV_READABLE, on_socket);
    }
    if (rc != 0) { /* the process ends: what is half built goes with it */
        return sim_error_set(err, SIM_ERROR_IO, "%s: %s", step, uv_strerror(rc));
    }
    vnpud->socket_poll.data = vnpud->chip_ended.data = vnpud->grace.data = vnpud;
    /* The pidfd sees a client die whose forked child keeps the socket open. Without it, end of file
     * suffices. */
    if (vnpud->client_pidfd >= 0 &&
        uv_poll_init(&vnpud->control_loop, &vnpud->client_poll, vnpud->client_pidfd) != 0) {
        close(vnpud->client_pidfd);
        vnpud->client_pidfd = -1;
    }
    if (vnpud->client_pidfd >= 0) {
        vnpud->client_poll.data = vnpud;
        uv_poll_start(&vnpud->client_poll, UV_READABLE, on_client_end);
    }
    return SIM_OK;
}

void vnpud_control_run(vnpud_t *vnpud) {
    uv_run(&vnpud->control_loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&vnpud->control_loop) != 0) {
        sim_bug("vnpud", 0, "control loop still has handles");
    }
}
