/* vnpud by its control socket, without libvnpu: what it refuses, and how it says so. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/vnpu_control.h"
#include "sim/sim_status.h"

typedef struct peer {
    int socket, memory, doorbell;
    pid_t pid;
    uint8_t *shared;
} peer_t;

static peer_t spawn_daemon(char *argument) {
    extern char **environ;
    peer_t peer = {.memory = -1, .doorbell = -1};
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, pair[1], VNPU_CONTROL_FD);
    char *argv[] = {(char[]){"vnpud"}, argument, NULL};
    cr_assert_eq(posix_spawn(&peer.pid, FAKE_DAEMON, &files, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    close(pair[1]);
    peer.socket = pair[0];
    return peer;
}

static vnpu_control_message_t message_of(vnpu_control_type_t type) {
    return (vnpu_control_message_t){
        .magic = VNPU_CONTROL_MAGIC, .type = (uint32_t)type, .layout = VNPU_CONTROL_LAYOUT};
}

static void say(const peer_t *peer, const void *data, size_t bytes) {
    cr_assert_eq(send(peer->socket, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

/* The next frame; bytes 0: end of file. */
static ssize_t hear(const peer_t *peer, vnpu_control_message_t *message, int fds[2]) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    struct pollfd look = {.fd = peer->socket, .events = POLLIN};
    cr_assert_eq(poll(&look, 1, 20000), 1, "vnpud says nothing");
    ssize_t bytes = recvmsg(peer->socket, &header, 0);
    const struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    fds[0] = fds[1] = -1;
    if (rights != NULL) {
        memcpy(fds, CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
    }
    return bytes < 0 && errno == ECONNRESET ? 0 : bytes;
}

static void expect_error(const peer_t *peer, sim_status_t status, const char *text) {
    vnpu_control_message_t answer = {0};
    int fds[2];
    cr_assert_eq(hear(peer, &answer, fds), (ssize_t)sizeof answer, "end of file instead of \"%s\"",
                 text);
    cr_assert_eq(answer.type, VNPU_CONTROL_ERROR);
    cr_assert_eq(answer.status, status);
    cr_assert(strstr(answer.text, text) != NULL, "\"%s\" lacks \"%s\"", answer.text, text);
}

static void expect_end(const peer_t *peer, int code) {
    vnpu_control_message_t answer;
    int fds[2], how = 0;
    cr_assert_eq(hear(peer, &answer, fds), 0);
    cr_assert_eq(waitpid(peer->pid, &how, 0), peer->pid);
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == code, "wait status 0x%x", how);
    close(peer->socket);
}

static peer_t greeted(void) {
    peer_t peer = spawn_daemon(NULL);
    vnpu_control_message_t hello = message_of(VNPU_CONTROL_HELLO), welcome = {0};
    say(&peer, &hello, sizeof hello);
    int fds[2];
    cr_assert_eq(hear(&peer, &welcome, fds), (ssize_t)sizeof welcome);
    cr_assert_eq(welcome.type, VNPU_CONTROL_WELCOME, "%s", welcome.text);
    peer.memory = fds[0];
    peer.doorbell = fds[1];
    peer.shared = mmap(NULL, welcome.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, peer.memory, 0);
    cr_assert(peer.shared != MAP_FAILED);
    return peer;
}

Test(vnpud, refuses_other_versions) {
    for (int i = 0; i < 4; i++) {
        peer_t peer = spawn_daemon(NULL);
        vnpu_control_message_t hello = message_of(i == 0 ? VNPU_CONTROL_PIN : VNPU_CONTROL_HELLO);
        hello.magic += i == 1;
        hello.layout.protocol_version += i == 2;
        say(&peer, &hello, sizeof hello - (i == 3));
        expect_error(&peer, SIM_ERROR_ABI_MISMATCH, "different versions");
        expect_end(&peer, 1);
    }
}

Test(vnpud, ends_with_its_client) {
    peer_t silent = spawn_daemon(NULL);
    shutdown(silent.socket, SHUT_WR); /* before it said hello */
    expect_error(&silent, SIM_ERROR_IO, "the client is gone");
    expect_end(&silent, 1);
    peer_t peer = greeted();
    shutdown(peer.socket, SHUT_WR);
    expect_end(&peer, 0);
}

Test(vnpud, shared_memory_is_sealed) {
    peer_t peer = greeted();
    cr_assert_eq(ftruncate(peer.memory, 0), -1);
    cr_assert_eq(errno, EPERM);
    vnpu_control_message_t pin = message_of(VNPU_CONTROL_PIN), answer = {0};
    pin.bytes = 5000;
    say(&peer, &pin, sizeof pin);
    int fds[2];
    struct stat info;
    cr_assert_eq(hear(&peer, &answer, fds), (ssize_t)sizeof answer);
    cr_assert_eq(answer.type, VNPU_CONTROL_PINNED);
    cr_assert_eq(answer.bytes, 8192);
    cr_assert_eq(fstat(fds[0], &info), 0);
    cr_assert_eq(info.st_size, 8192);
    cr_assert_eq(ftruncate(fds[0], 0), -1);
    cr_assert_eq(errno, EPERM);
    vnpu_control_message_t unpin = message_of(VNPU_CONTROL_UNPIN);
    unpin.block = answer.block;
    for (int i = 0; i < 2; i++) { /* the second time it is gone already: nothing happens */
        say(&peer, &unpin, sizeof unpin);
    }
    say(&peer, &pin, sizeof pin);
    cr_assert_eq(hear(&peer, &answer, fds), (ssize_t)sizeof answer);
    cr_assert_eq(answer.block, unpin.block, "the block is free again");
    shutdown(peer.socket, SHUT_WR);
    expect_end(&peer, 0);
}

Test(vnpud, refuses_bad_frames) {
    peer_t peer = greeted();
    vnpu_control_message_t pin = message_of(VNPU_CONTROL_PIN);
    static const uint64_t sizes[] = {0, UINT64_MAX, UINT64_C(1) << 41};
    for (size_t i = 0; i < 3; i++) {
        pin.bytes = sizes[i];
        say(&peer, &pin, sizeof pin);
        expect_error(&peer, SIM_ERROR_INVALID_VALUE, "pinned block of");
    }
    vnpu_control_message_t odd = message_of((vnpu_control_type_t)99);
    say(&peer, &odd, sizeof odd);
    expect_error(&peer, SIM_ERROR_UNSUPPORTED, "not for the device");
    say(&peer, "garbage", 7);
    expect_error(&peer, SIM_ERROR_INVALID_VALUE, "malformed frame");
    expect_end(&peer, 0);
}

Test(vnpud, gives_a_client_with_a_bad_ring_up) {
    peer_t peer = greeted();
    vnpu_control_page_t *control = (vnpu_control_page_t *)(void *)peer.shared;
    atomic_store(&control->tail, 1); /* a slot of zeros */
    const uint64_t one = 1;
    cr_assert_eq(write(peer.doorbell, &one, sizeof one), (ssize_t)sizeof one);
    expect_error(&peer, SIM_ERROR_INVALID_VALUE, "a packet of 0 slots");
    expect_end(&peer, 1);
}

/* Light sleep ends by itself: a packet that nobody rings for is executed. */
Test(vnpud, sees_a_packet_without_a_doorbell_in_light_sleep) {
    peer_t peer = greeted();
    vnpu_control_page_t *control = (vnpu_control_page_t *)(void *)peer.shared;
    const uint64_t one = 1;
    uint64_t seq = 0, unrung = 0;
    for (int round = 0; round < 200 && unrung < 5; round++) {
        for (int i = 0; i < 2; i++) {
            vnpu_packet_t packet = {.type = VNPU_PACKET_NOP, .slots = 1, .seq = ++seq};
            memcpy(peer.shared + control->ring_offset + (seq - 1) % VNPU_RING_SLOTS * 64, &packet,
                   64);
            atomic_exchange(&control->tail, seq);
            bool is_deep = atomic_load(&control->state) == 2;
            if (is_deep) {
                cr_assert_eq(write(peer.doorbell, &one, sizeof one), (ssize_t)sizeof one);
            }
            unrung += !is_deep;
            while (atomic_load(&control->done) < seq) {
                poll(NULL, 0, 0);
            }
        }
    }
    cr_assert_geq(unrung, 5, "the chip was never awake or in light sleep");
    shutdown(peer.socket, SHUT_WR);
    expect_end(&peer, 0);
}

Test(vnpud, needs_no_arguments) {
    peer_t peer = spawn_daemon((char[]){"--socket"});
    expect_end(&peer, 2);
    peer = spawn_daemon((char[]){"--what"});
    expect_end(&peer, 2);
    peer = spawn_daemon((char[]){"--version"});
    expect_end(&peer, 0);
}
