/*
 * The transport to a private vnpud: a socket for the handshake, pinned blocks and liveness; shared
 * memory for the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver/vnpu_internal.h"

#define SPIN_NS           50000 /* a caller that waits, if the chip runs on another CPU */
#define LIVENESS_MS       50    /* between two looks at the socket */
#define STOPPED_MS        5000  /* after which a stopped vnpud is named */
#define LIGHT_SLEEP_SLOTS 8u
#define END_MS            5000 /* for an orderly end */

/* --- doorbell and completion --- */

static void ring(const vnpu__device_t *device) {
    const uint64_t one = 1;
    ssize_t written = write(device->doorbell, &one, sizeof one);
    (void)written; /* EAGAIN: rung 2^64 times already; the chip is awake */
}

static void process_published(vnpu__device_t *device, uint64_t tail) {
    uint32_t state = atomic_load(&device->control->state);
    if (state == 0) {
        return;
    }
    uint64_t head = atomic_load_explicit(&device->control->head, memory_order_relaxed);
    if (state != 1 || tail - head >= LIGHT_SLEEP_SLOTS) {
        ring(device);
    }
}

static bool is_done(const vnpu__device_t *device, uint64_t seq) {
    return atomic_load(&device->control->done) >= seq;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Only when the chip last ran on another CPU: on the same one a spin keeps it from running. */
static bool spin(const vnpu__device_t *device, uint64_t seq) {
    int cpu = sched_getcpu();
    atomic_store_explicit(&device->control->client_cpu, cpu, memory_order_relaxed);
    int chip = atomic_load_explicit(&device->control->chip_cpu, memory_order_relaxed);
    if (chip < 0 || chip == cpu) {
        return is_done(device, seq);
    }
    int64_t end = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if (is_done(device, seq)) {
                return true;
            }
            __builtin_ia32_pause();
        }
    } while (now_ns() < end);
    return false;
}

/* True when the other end of the socket is closed. */
static bool is_gone(const vnpu__device_t *device) {
    struct pollfd look = {.fd = device->socket, .events = POLLIN};
    return poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/* A stopped device is neither gone nor slow: say so once, and go on waiting. */
static void name_stopped(int64_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    const char *end = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
    if (end != NULL && (end[2] == 'T' || end[2] == 't')) {
        fprintf(
            stderr,
            "vnpu: the device process %lld is stopped (SIGSTOP or a debugger): waiting for it\n",
            (long long)pid);
    }
    fclose(file);
}

/* Sleeps until `done` moves or LIVENESS_MS are over; the handshake of waiters and done is
 * sequentially consistent. */
static void sleep_on(vnpu__device_t *device, uint64_t seq) {
    vnpu_control_page_t *control = device->control;
    const struct timespec limit = {.tv_nsec = LIVENESS_MS * 1000000L};
    atomic_fetch_add(&control->waiters, 1);
    uint32_t seen = atomic_load(&control->done_futex);
    if (!is_done(device, seq)) {
        syscall(SYS_futex, &control->done_futex, FUTEX_WAIT, seen, &limit, NULL, 0);
    }
    atomic_fetch_sub(&control->waiters, 1);
}

static bool process_wait(vnpu__device_t *device, uint64_t seq) {
    if (atomic_load(&device->control->state) != 0) {
        ring(device);
    }
    if (spin(device, seq)) {
        return true;
    }
    int64_t start = now_ns();
    bool is_stop_named = false;
    while (!is_done(device, seq)) {
        sleep_on(device, seq);
        if (is_done(device, seq)) {
            return true;
        }
        if (is_gone(device)) {
            return is_done(device, seq);
        }
        if (atomic_load(&device->control->state) != 0) {
            ring(device); /* never needed in a million round trips; a lost wake-up must not hang a
                             program */
        }
        if (!is_stop_named && now_ns() - start > STOPPED_MS * INT64_C(1000000)) {
            is_stop_named = true;
            name_stopped(device->pid);
        }
    }
    return true;
}

/* --- control frames --- */

static void send_frame(const vnpu__device_t *device, vnpu_control_type_t type, uint64_t bytes,
                       uint32_t block) {
    vnpu_control_message_t message = {.magic = VNPU_CONTROL_MAGIC,
                                      .type = (uint32_t)type,
                                      .layout = VNPU_CONTROL_LAYOUT,
                                      .pid = (int32_t)getpid(),
                                      .block = block,
                                      .bytes = bytes};
    while (send(device->socket, &message, sizeof message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    } /* EPIPE: the receiver is gone, which the next receive tells */
}

static void close_fds(const int *fds, int count) {
    for (int i = 0; i < count; i++) {
        close(fds[i]);
    }
}

/* Takes a frame that is there; out_fds are filled with -1 where none came. */
static bool take_frame(const vnpu__device_t *device, vnpu_control_message_t *message,
                       int out_fds[2]) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    out_fds[0] = out_fds[1] = -1;
    ssize_t bytes = recvmsg(device->socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0) {
        return false;
    }
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    int count = 0;
    if (rights != NULL && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
        count = rights->cmsg_len >= CMSG_LEN(2 * sizeof(int)) ? 2 : 1;
        memcpy(out_fds, CMSG_DATA(rights), (size_t)count * sizeof(int));
    }
    if (bytes == (ssize_t)sizeof *message && message->magic == VNPU_CONTROL_MAGIC) {
        message->step[sizeof message->step - 1] = '\0';
        message->text[sizeof message->text - 1] = '\0';
        return true;
    }
    close_fds(out_fds, count);
    out_fds[0] = out_fds[1] = -1;
    return false;
}

/* Waits for a frame; false when vnpud is gone without having sent one. */
static bool await_frame(const vnpu__device_t *device, vnpu_control_message_t *message,
                        int out_fds[2]) {
    for (;;) {
        struct pollfd look = {.fd = device->socket, .events = POLLIN};
        int ready = poll(&look, 1, -1); /* ends with the peer: its death is a hang-up */
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (take_frame(device, message, out_fds)) {
            return true;
        }
        if (ready < 0 || (look.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
            return false;
        }
    }
}

static void process_obituary(vnpu__device_t *device, char *text, size_t text_bytes) {
    vnpu_control_message_t message, last = {.type = 0};
    int fds[2];
    while (take_frame(device, &message, fds)) {
        close_fds(fds, (fds[0] >= 0) + (fds[1] >= 0));
        last = message.type == VNPU_CONTROL_ERROR ? message : last;
    }
    char how[256];
    vnpu__describe_end(device->pid, how, sizeof how);
    if (last.type == VNPU_CONTROL_ERROR) {
        snprintf(text, text_bytes, "vnpud (process %lld) gave up at %s: %s; it %s",
                 (long long)device->pid, last.step, last.text, how);
    } else {
        snprintf(text, text_bytes, "vnpud (process %lld) %s", (long long)device->pid, how);
    }
}

/* --- start and end --- */

static vnpu_status_t map_shared(vnpu__device_t *device, int fd, uint64_t bytes) {
    struct stat info;
    if (fstat(fd, &info) != 0 || (uint64_t)info.st_size != bytes ||
        bytes < sizeof(vnpu_control_page_t)) {
        return vnpu__fail(VNPU_ERROR_ABI_MISMATCH,
                          "vnpud announced shared memory of another size than it sent");
    }
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "mapping %llu bytes shared with vnpud: %s",
                          (unsigned long long)bytes, strerror(errno));
    }
    (void)madvise(shared, bytes, MADV_DONTFORK);
    device->shared = shared;
    device->shared_bytes = bytes;
    return VNPU_OK;
}

static vnpu_status_t shake_hands(vnpu__device_t *device) {
    vnpu_control_message_t answer;
    int fds[2] = {-1, -1};
    send_frame(device, VNPU_CONTROL_HELLO, 0, 0);
    if (!await_frame(device, &answer, fds)) {
        char how[256];
        vnpu__describe_end(device->pid, how, sizeof how);
        return vnpu__fail(VNPU_ERROR_IO, "vnpud (process %lld) %s before it was ready",
                          (long long)device->pid, how);
    }
    vnpu_status_t status;
    const vnpu_control_layout_t layout = VNPU_CONTROL_LAYOUT;
    if (answer.type == VNPU_CONTROL_ERROR) {
        status = answer.status > 0 ? (vnpu_status_t)answer.status : VNPU_ERROR_INTERNAL;
        bool is_users = strcmp(answer.step, "config") == 0 || strcmp(answer.step, "options") == 0;
        if (is_users) { /* the text begins with file and line */
            vnpu__fail(status, "%s", answer.text);
        } else {
            vnpu__fail(status, "vnpud could not start, %s: %s", answer.step, answer.text);
        }
    } else if (answer.type != VNPU_CONTROL_WELCOME ||
               memcmp(&answer.layout, &layout, sizeof layout) != 0 || fds[0] < 0 || fds[1] < 0) {
        status = vnpu__fail(VNPU_ERROR_ABI_MISMATCH, "vnpud is of another version than libvnpu");
    } else {
        status = map_shared(device, fds[0], answer.bytes);
    }
    if (fds[0] >= 0) {
        close(fds[0]);
    }
    if (status == VNPU_OK) {
        device->doorbell = fds[1];
    } else if (fds[1] >= 0) {
        close(fds[1]);
    }
    return status;
}

/* Closes our end and waits for vnpud to go: after that nothing of this client is left. */
static void process_close(vnpu__device_t *device) {
    if (device->shared != NULL) {
        munmap(device->shared, device->shared_bytes);
    }
    if (device->doorbell >= 0) {
        close(device->doorbell);
    }
    if (device->socket >= 0) {
        shutdown(device->socket, SHUT_WR);
        struct pollfd look = {.fd = device->socket};
        if (device->pid > 0 && poll(&look, 1, END_MS) == 0) {
            kill((pid_t)device->pid, SIGKILL);
        }
        close(device->socket);
    }
    if (device->pid > 0) {
        while (waitpid((pid_t)device->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    device->socket = device->doorbell = -1;
    device->pid = 0;
    device->shared = NULL;
}

static vnpu_status_t process_open(vnpu__device_t *device) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return vnpu__fail(VNPU_ERROR_IO, "socketpair: %s; %s", strerror(errno),
                          errno == EMFILE
                              ? "see ulimit -n"
                              : "this sandbox forbids UNIX sockets: set VNPU_TRANSPORT=inproc");
    }
    char path[PATH_MAX];
    vnpu_status_t status = vnpu__spawn(pair[1], &device->pid, path, sizeof path);
    close(pair[1]);
    device->socket = pair[0];
    if (status == VNPU_OK) {
        status = shake_hands(device);
    }
    if (status != VNPU_OK) {
        process_close(device);
    }
    return status;
}

static void process_fork_child(vnpu__device_t *device) {
    if (device->socket >= 0) {
        close(device->socket);
    }
    if (device->doorbell >= 0) {
        close(device->doorbell);
    }
    device->socket = device->doorbell = -1;
}

/* --- pinned blocks --- */

static vnpu_status_t process_pin(vnpu__device_t *device, uint64_t bytes,
                                 vnpu__pinned_t *out_pinned) {
    vnpu_control_message_t answer;
    int fds[2] = {-1, -1};
    send_frame(device, VNPU_CONTROL_PIN, bytes, 0);
    if (!await_frame(device, &answer, fds)) {
        device->is_lost = true;
        process_obituary(device, device->lost_text, sizeof device->lost_text);
        return vnpu__report_loss(device);
    }
    vnpu_status_t status = VNPU_OK;
    void *pointer = MAP_FAILED;
    if (answer.type == VNPU_CONTROL_ERROR) {
        status = vnpu__fail(answer.status > 0 ? (vnpu_status_t)answer.status : VNPU_ERROR_INTERNAL,
                            "%s: %s", answer.step, answer.text);
    } else if (answer.type != VNPU_CONTROL_PINNED || fds[0] < 0 || answer.bytes < bytes) {
        status = vnpu__fail(VNPU_ERROR_INTERNAL, "vnpud sent no pinned block");
    } else {
        pointer = mmap(NULL, answer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
        if (pointer == MAP_FAILED) {
            status =
                vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "mapping a pinned block of %llu bytes: %s",
                           (unsigned long long)answer.bytes, strerror(errno));
            send_frame(device, VNPU_CONTROL_UNPIN, 0, answer.block);
        }
    }
    close_fds(fds, (fds[0] >= 0) + (fds[1] >= 0));
    if (status == VNPU_OK) {
        *out_pinned = (vnpu__pinned_t){.pointer = pointer,
                                       .bytes = bytes,
                                       .mapped_bytes = answer.bytes,
                                       .block = answer.block};
    }
    return status;
}

static void process_unpin(vnpu__device_t *device, const vnpu__pinned_t *pinned) {
    munmap(pinned->pointer, pinned->mapped_bytes);
    if (!device->is_lost) {
        send_frame(device, VNPU_CONTROL_UNPIN, 0, pinned->block);
    }
}

const vnpu__transport_t vnpu__process_transport = {
    .name = "process",
    .open = process_open,
    .close = process_close,
    .published = process_published,
    .wait = process_wait,
    .obituary = process_obituary,
    .pin = process_pin,
    .unpin = process_unpin,
    .fork_child = process_fork_child,
};
