/* Starts, ends and deaths of client and device. Real processes: each test waits for what it
 * expects, none sleeps. */
#include "tests/driver/driver_test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t device_pid(void) {
    int64_t pid = 0;
    OK(vnpu_sim_device_pid(0, &pid));
    return (pid_t)pid;
}

/* True when the process ends within the time (a zombie has ended). */
static bool ends_within(pid_t pid, int ms) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) {
        return errno == ESRCH;
    }
    struct pollfd look = {.fd = fd, .events = POLLIN};
    bool has_ended = poll(&look, 1, ms) == 1;
    close(fd);
    return has_ended;
}

Test(lifecycle, killed_device_is_lost_in_a_wait) {
    start("process");
    vnpu_module_t slow = load("slow", 1);
    vnpu_addr_t address;
    OK(vnpu_mem_alloc(0, 16, &address));
    OK(launch(slow, 0, (uint64_t[]){60000}, 1));
    pid_t pid = device_pid();
    cr_assert_eq(kill(pid, SIGKILL), 0);
    IS(vnpu_device_synchronize(0), VNPU_ERROR_DEVICE_LOST);
    char expected[64];
    snprintf(expected, sizeof expected, "(process %d) was killed by signal 9 (Killed)", (int)pid);
    cr_assert(strstr(detail(), expected) != NULL, "%s", detail());
    /* every later call says the same, none hangs */
    IS(launch(slow, 0, (uint64_t[]){1}, 1), VNPU_ERROR_DEVICE_LOST);
    IS(vnpu_memset(address, 0, 1, 1, 0), VNPU_ERROR_DEVICE_LOST);
    IS(vnpu_mem_free(0, address), VNPU_ERROR_DEVICE_LOST);
    IS(vnpu_init(0), VNPU_ERROR_DEVICE_LOST);
    cr_assert(strstr(detail(), expected) != NULL, "%s", detail());
    OK(vnpu_shutdown()); /* it was reported */
    start("process");    /* and a new one serves */
    OK(vnpu_mem_alloc(0, 16, &address));
    OK(vnpu_device_synchronize(0));
    OK(vnpu_shutdown());
}

Test(lifecycle, device_that_dies_in_a_packet) {
    start("process");
    vnpu_module_t die = load("die", 0);
    OK(launch(die, 0, NULL, 0));
    IS(vnpu_stream_query(0), VNPU_ERROR_DEVICE_LOST);
    cr_assert(strstr(detail(), "signal 9") != NULL, "%s", detail());
    OK(vnpu_shutdown());
    start("process");
    die = load("die", 0);
    OK(launch(die, 0, NULL, 0));
    IS(vnpu_shutdown(), VNPU_ERROR_DEVICE_LOST);
}

/* Loops that wait for room: ring and stream depth full, staging full, a large copy under way,
 * pinned memory. */
Test(lifecycle, killed_device_is_lost_in_every_loop) {
    for (int loop = 0; loop < 4; loop++) {
        start("process");
        vnpu_module_t die = load("die", 0), work = load("work", 1);
        vnpu_addr_t address;
        const size_t bytes = 8 * 1024 * 1024;
        uint8_t *data = calloc(1, bytes);
        void *pinned;
        OK(vnpu_mem_alloc(0, bytes, &address));
        if (loop == 3) {
            kill(device_pid(), SIGKILL);
            IS(vnpu_host_alloc(4096, &pinned), VNPU_ERROR_DEVICE_LOST);
        } else {
            OK(launch(die, 0, NULL, 0));
        }
        vnpu_status_t status = loop == 3 ? VNPU_ERROR_DEVICE_LOST : VNPU_OK;
        for (int i = 0; i < 100000 && status == VNPU_OK; i++) {
            status = loop == 0   ? launch(work, 0, (uint64_t[]){1}, 1)
                     : loop == 1 ? vnpu_memcpy_h2d(address, data, bytes, 0, 0)
                                 : vnpu_memcpy_d2h(data, address, bytes, 0, 0);
        }
        IS(status, VNPU_ERROR_DEVICE_LOST);
        cr_assert(strstr(detail(), "signal 9") != NULL, "loop %d: %s", loop, detail());
        OK(vnpu_shutdown());
        free(data);
    }
}

Test(lifecycle, shutdown_leaves_no_device) {
    start("process");
    pid_t pid = device_pid();
    OK(vnpu_shutdown());
    cr_assert_eq(kill(pid, 0), -1, "vnpud %d is still there", (int)pid);
    cr_assert_eq(errno, ESRCH);
}

/* A client in a child process: writes its device's pid, then dies as told. */
static pid_t spawn_client(int is_busy, int how, pid_t *out_client) {
    int pipe_fds[2];
    cr_assert_eq(pipe(pipe_fds), 0);
    pid_t client = fork();
    if (client == 0) {
        start("process");
        vnpu_module_t slow = load("slow", 1);
        pid_t pid = device_pid();
        if (is_busy) {
            OK(launch(slow, 0, (uint64_t[]){60000}, 1));
        }
        if (write(pipe_fds[1], &pid, sizeof pid) != sizeof pid) {
            _exit(1);
        }
        if (how == SIGKILL) {
            kill(getpid(), SIGKILL);
        }
        _exit(0);
    }
    pid_t device = 0;
    close(pipe_fds[1]);
    cr_assert_eq(read(pipe_fds[0], &device, sizeof device), (ssize_t)sizeof device);
    close(pipe_fds[0]);
    *out_client = client;
    return device;
}

Test(lifecycle, client_that_dies_leaves_no_device) {
    for (int i = 0; i < 4; i++) {
        pid_t client, device = spawn_client(i & 1, i & 2 ? SIGKILL : 0, &client);
        cr_assert_eq(waitpid(client, NULL, 0), client);
        cr_assert(ends_within(device, 10000), "vnpud %d outlived its client (%d)", (int)device, i);
    }
}

Test(lifecycle, forked_child_is_told_and_the_parent_goes_on) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_module_t add = load("add1", 2);
        vnpu_addr_t address;
        OK(vnpu_mem_alloc(0, 4, &address));
        OK(vnpu_memset(address, 7, 4, 1, 0));
        pid_t child = fork();
        if (child == 0) {
            uint32_t word;
            int count;
            bool is_told = vnpu_memcpy_d2h(&word, address, 4, 0, 0) == VNPU_ERROR_FORKED &&
                           vnpu_init(0) == VNPU_ERROR_FORKED &&
                           vnpu_device_count(&count) == VNPU_ERROR_FORKED &&
                           vnpu_device_synchronize(0) == VNPU_ERROR_FORKED &&
                           vnpu_shutdown() == VNPU_ERROR_FORKED &&
                           strstr(detail(), "forked") != NULL;
            _exit(is_told ? 0 : 1);
        }
        int how = -1;
        cr_assert_eq(waitpid(child, &how, 0), child);
        cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0, "the child was not told (%s)",
                  transports[t]);
        uint32_t value = 0;
        OK(launch(add, 0, (uint64_t[]){address, 1}, 2));
        OK(vnpu_memcpy_d2h(&value, address, 4, 0, 0));
        cr_assert_eq(value, 8);
        OK(vnpu_shutdown());
    }
}

/* The parent dies, a forked child that never touches the device lives on: the device ends all the
 * same. */
Test(lifecycle, forked_child_does_not_keep_the_device) {
    int pipe_fds[2], hold[2];
    cr_assert_eq(pipe(pipe_fds), 0);
    cr_assert_eq(pipe(hold), 0);
    pid_t client = fork();
    if (client == 0) {
        start("process");
        pid_t pids[2] = {device_pid(), fork()};
        if (pids[1] == 0) {
            char byte;
            close(hold[1]);
            _exit(read(hold[0], &byte, 1) < 0); /* until the test closes its end */
        }
        _exit(write(pipe_fds[1], pids, sizeof pids) != sizeof pids);
    }
    pid_t pids[2] = {0};
    cr_assert_eq(waitpid(client, NULL, 0), client);
    cr_assert_eq(read(pipe_fds[0], pids, sizeof pids), (ssize_t)sizeof pids);
    bool has_ended = ends_within(pids[0], 10000);
    bool child_lives = !ends_within(pids[1], 0);
    close(hold[0]), close(hold[1]);
    cr_assert(ends_within(pids[1], 10000));
    cr_assert(child_lives, "the test's own child ended early");
    cr_assert(has_ended, "vnpud waited for a forked child of its client");
}

Test(lifecycle, a_child_forked_before_the_first_use_has_its_own_device) {
    pid_t child = fork();
    if (child == 0) {
        start("process");
        vnpu_addr_t address;
        bool is_ok = vnpu_mem_alloc(0, 4, &address) == VNPU_OK && vnpu_shutdown() == VNPU_OK;
        _exit(is_ok ? 0 : 1);
    }
    int how = -1;
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void fails_to_start(const char *variable, const char *value, vnpu_status_t expected,
                           const char *text) {
    setenv("VNPU_DAEMON", FAKE_DAEMON, 1);
    setenv("VNPU_DEVICE_LIBRARY", FAKE_LIBRARY, 1);
    char *old = getenv(variable) != NULL ? strdup(getenv(variable)) : NULL;
    setenv(variable, value, 1);
    for (int i = 0; i < 2; i++) { /* nothing is left behind: the second try says the same */
        IS(vnpu_init(0), expected);
        cr_assert(strstr(detail(), text) != NULL, "%s=%s: \"%s\" lacks \"%s\"", variable, value,
                  detail(), text);
    }
    old != NULL ? setenv(variable, old, 1) : unsetenv(variable);
    free(old);
}

Test(lifecycle, errors_of_the_start_come_in_words) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        setenv("VNPU_TRANSPORT", transports[t], 1);
        setenv("VNPU_CONFIG_DIR", "/chips", 1);
        fails_to_start("VNPU_CONFIG", "bad", VNPU_ERROR_CONFIG,
                       "/chips/bad.ini:3: unknown key core.coutn (core.count?)");
        fails_to_start("VNPU_MODE", "bogus", VNPU_ERROR_INVALID_VALUE, "VNPU_MODE=bogus");
        fails_to_start("VNPU_SOCKET", "/run/x", VNPU_ERROR_UNSUPPORTED, "VNPU_SOCKET=/run/x");
        fails_to_start("VNPU_TRANSPORT", "pigeon", VNPU_ERROR_INVALID_VALUE,
                       "VNPU_TRANSPORT=pigeon");
    }
    setenv("VNPU_TRANSPORT", "process", 1);
    fails_to_start("VNPU_DAEMON", "/nowhere/vnpud", VNPU_ERROR_NOT_FOUND,
                   "VNPU_DAEMON=/nowhere/vnpud");
    fails_to_start("VNPU_DAEMON", "/etc/passwd", VNPU_ERROR_IO, "is it executable");
    fails_to_start("VNPU_DAEMON", "/bin/false", VNPU_ERROR_IO,
                   "ended with status 1 before it was ready");
    fails_to_start("VNPU_CONFIG", "dies", VNPU_ERROR_IO, "ended with status 7 before it was ready");
    setenv("VNPU_TRANSPORT", "inproc", 1);
    fails_to_start("VNPU_DEVICE_LIBRARY", "/nowhere/x.so", VNPU_ERROR_NOT_FOUND, "/nowhere/x.so");
    fails_to_start("VNPU_DEVICE_LIBRARY", "libc.so.6", VNPU_ERROR_ABI_MISMATCH, "another version");
    start("process"); /* after all that, a good one starts */
    OK(vnpu_shutdown());
}

/* vnpud holds nothing of its host: signals masked and ignored there are its own, standard output is
 * not kept open. */
Test(lifecycle, device_inherits_nothing) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    signal(SIGTERM, SIG_IGN);
    int pipe_fds[2];
    cr_assert_eq(pipe(pipe_fds), 0); /* without CLOEXEC */
    start("process");
    pid_t pid = device_pid();
    cr_assert_eq(getpgid(pid), pid);
    char path[64], target[256];
    for (int fd = 0; fd <= 1; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        cr_assert_gt(length, 0);
        target[length] = '\0';
        cr_assert_str_eq(target, "/dev/null");
    }
    close(pipe_fds[1]);
    struct pollfd look = {.fd = pipe_fds[0], .events = POLLIN};
    cr_assert_eq(poll(&look, 1, 0), 1, "vnpud holds a pipe of its host");
    cr_assert(look.revents & POLLHUP);
    cr_assert_eq(kill(pid, SIGTERM), 0);     /* neither blocked nor ignored */
    IS(vnpu_device_synchronize(0), VNPU_OK); /* nothing was in flight: nothing is missed */
    vnpu_addr_t address;
    cr_assert(ends_within(pid, 10000));
    IS(vnpu_mem_alloc(0, 4, &address), VNPU_ERROR_DEVICE_LOST);
    cr_assert(strstr(detail(), "signal 15 (Terminated)") != NULL, "%s", detail());
    OK(vnpu_shutdown());
}

/* A stopped device is waited for, not called lost. */
Test(lifecycle, stopped_device_goes_on) {
    start("process");
    vnpu_module_t work = load("work", 1);
    pid_t pid = device_pid();
    cr_assert_eq(kill(pid, SIGSTOP), 0);
    pid_t waker = fork();
    if (waker == 0) { /* a tenth of a second later: more than one liveness check */
        poll(NULL, 0, 120);
        _exit(kill(pid, SIGCONT));
    }
    OK(launch(work, 0, (uint64_t[]){1}, 1));
    OK(vnpu_device_synchronize(0));
    cr_assert_eq(waitpid(waker, NULL, 0), waker);
    OK(vnpu_shutdown());
}
