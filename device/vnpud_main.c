/*
 * vnpud: started by libvnpu with one end of a socketpair as descriptor 3. Says in an error frame
 * why it cannot serve, and ends with its client.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/vnpud_internal.h"

#ifdef VNPUD_JEMALLOC
#include <jemalloc/jemalloc.h>
/* Seen by jemalloc at start. Freed pages stay for reuse: the next client's modules are of the same
 * sizes. */
const char *malloc_conf = "dirty_decay_ms:10000,muzzy_decay_ms:-1";
#endif

extern char **environ;

/* "jemalloc VERSION" only when the program's malloc really is jemalloc's: strdup must show in its
 * count. */
static const char *allocator_name(void) {
#ifdef VNPUD_JEMALLOC
    uint64_t before = 0, after = 0;
    size_t size = sizeof before;
    const char *version = "";
    size_t version_size = sizeof version;
    if (mallctl("thread.allocated", &before, &size, NULL, 0) != 0 ||
        mallctl("version", &version, &version_size, NULL, 0) != 0) {
        return "jemalloc without statistics";
    }
    char *copy = strdup(version);
    bool is_bound = mallctl("thread.allocated", &after, &size, NULL, 0) == 0 && after > before;
    static char name[96];
    snprintf(name, sizeof name, "jemalloc %s", copy != NULL ? copy : "");
    free(copy);
    return is_bound ? name : "jemalloc, not bound";
#else
    return "libc";
#endif
}

static int parse_args(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("vnpud protocol %u, libuv %s, allocator %s\n", VNPU_PROTOCOL_VERSION,
               uv_version_string(), allocator_name());
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "--socket") == 0) {
        fprintf(
            stderr,
            "vnpud: a shared device (--socket) is not supported yet: each client starts its own\n");
        return 2;
    }
    int type = 0;
    socklen_t size = sizeof type;
    if (argc > 1 || getsockopt(VNPU_CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        type != SOCK_SEQPACKET) {
        fprintf(stderr, "usage: vnpud [--version]\n"
                        "The device process of the virtual NPU. libvnpu starts it, with a socket "
                        "as descriptor 3.\n");
        return 2;
    }
    return -1;
}

static sim_status_t receive_hello(int socket, sim_error_t *err) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != getuid()) {
        return sim_error_set(err, SIM_ERROR_NOT_PERMITTED, "the client belongs to another user");
    }
    vnpu_control_message_t hello;
    ssize_t bytes;
    do {
        bytes = recv(socket, &hello, sizeof hello, 0);
    } while (bytes < 0 && errno == EINTR);
    if (bytes == 0) {
        return sim_error_set(err, SIM_ERROR_IO, "the client is gone");
    }
    const vnpu_control_layout_t layout = VNPU_CONTROL_LAYOUT;
    if (bytes != (ssize_t)sizeof hello || hello.magic != VNPU_CONTROL_MAGIC ||
        hello.type != VNPU_CONTROL_HELLO || memcmp(&hello.layout, &layout, sizeof layout) != 0) {
        return sim_error_set(
            err, SIM_ERROR_ABI_MISMATCH,
            "libvnpu and vnpud are of different versions (vnpud speaks protocol %u)",
            VNPU_PROTOCOL_VERSION);
    }
    return SIM_OK;
}

/* Everything a client needs, in the order of its cost. *out_step names what failed. */
static sim_status_t set_up(vnpud_t *vnpud, const char **out_step, sim_error_t *err) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    *out_step = "handshake";
    sim_status_t status = receive_hello(vnpud->socket, err);
    if (status != SIM_OK) {
        return status;
    }
    status = dev_open(&vnpud->open, environ, path, err);
    *out_step = vnpud->open.step;
    if (status != SIM_OK) {
        return status;
    }
    *out_step = "shared memory";
    status = vnpud_shm_create("vnpu-client", dev_port_shared_bytes(), &vnpud->shared_fd,
                              &vnpud->shared, err);
    if (status != SIM_OK) {
        return status;
    }
    *out_step = "port";
    status =
        dev_port_create(vnpud->open.chip, vnpud->open.client, vnpud->shared, &vnpud->port, err);
    if (status != SIM_OK) {
        return status;
    }
    *out_step = "doorbell";
    vnpud->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (vnpud->doorbell < 0) {
        return vnpud_fail(err, SIM_ERROR_IO, "eventfd", "set VNPU_TRANSPORT=inproc");
    }
    *out_step = "loops";
    vnpud->client_pidfd = (int)syscall(SYS_pidfd_open, getppid(), 0);
    status = vnpud_control_init(vnpud, err);
    return status == SIM_OK ? vnpud_chip_start(vnpud, err) : status;
}

static void tear_down(vnpud_t *vnpud) {
    for (uint32_t block = dev_port_first_block(vnpud->port); block != 0;
         block = dev_port_first_block(vnpud->port)) {
        uint64_t bytes = 0;
        void *pointer = dev_port_unpin(vnpud->port, block, &bytes);
        munmap(pointer, bytes);
    }
    dev_port_destroy(vnpud->port);
    dev_open_close(&vnpud->open);
    munmap(vnpud->shared, dev_port_shared_bytes());
    close(vnpud->shared_fd);
    close(vnpud->doorbell);
    if (vnpud->client_pidfd >= 0) {
        close(vnpud->client_pidfd);
    }
    close(vnpud->socket);
}

int main(int argc, char **argv) {
    int code = parse_args(argc, argv);
    if (code >= 0) {
        return code;
    }
    signal(SIGPIPE, SIG_IGN);
    static vnpud_t vnpud;
    vnpud.socket = VNPU_CONTROL_FD;
    vnpud.shared_fd = vnpud.doorbell = vnpud.client_pidfd = -1;
    sim_error_t err = {0};
    const char *step = "";
    errno = 0;
    sim_status_t status = set_up(&vnpud, &step, &err);
    if (status != SIM_OK) {
        vnpud_send_error(vnpud.socket, status, step, err.text);
        _exit(1);
    }
    vnpu_control_message_t welcome = {.magic = VNPU_CONTROL_MAGIC,
                                      .type = VNPU_CONTROL_WELCOME,
                                      .layout = VNPU_CONTROL_LAYOUT,
                                      .pid = (int32_t)getpid(),
                                      .bytes = dev_port_shared_bytes()};
    vnpud_send(vnpud.socket, &welcome, vnpud.shared_fd, vnpud.doorbell);
    vnpud_control_run(&vnpud);
    vnpud_chip_join(&vnpud);
    code = vnpud.chip_error.status == SIM_OK ? 0 : 1;
    tear_down(&vnpud);
    return code;
}
