#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver/vnpu_internal.h"

extern char **environ;

/* Never PATH: a vnpud of another version may be there. */
static vnpu_status_t find_daemon(char *path, size_t bytes) {
    static const char *const places[] = {"vnpud", "../bin/vnpud", "../libexec/vnpud"};
    const char *given = getenv("VNPU_DAEMON");
    if (given != NULL && given[0] != '\0') {
        int length = snprintf(path, bytes, "%s", given);
        if (length < 0 || (size_t)length >= bytes || access(path, F_OK) != 0) {
            return vnpu__fail(VNPU_ERROR_NOT_FOUND, "VNPU_DAEMON=%s: %s", given, strerror(errno));
        }
        return VNPU_OK;
    }
    char dir[PATH_MAX];
    vnpu__library_dir(dir, sizeof dir);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int length = snprintf(path, bytes, "%s%s", dir, places[i]);
        if (length > 0 && (size_t)length < bytes && access(path, F_OK) == 0) {
            return VNPU_OK;
        }
    }
    return vnpu__fail(VNPU_ERROR_NOT_FOUND,
                      "vnpud was not found: tried %svnpud, %s../bin/vnpud and %s../libexec/vnpud; "
                      "VNPU_DAEMON names "
                      "it, VNPU_TRANSPORT=inproc does without it",
                      dir, dir, dir);
}

static const char *spawn_hint(int number) {
    switch (number) {
    case EAGAIN: return "; process limit? see ulimit -u, or set VNPU_TRANSPORT=inproc";
    case EACCES: return "; is it executable, is its file system mounted noexec?";
    case ENOENT: return "; the file or its interpreter is missing";
    case EPERM: return "; this sandbox forbids new processes: set VNPU_TRANSPORT=inproc";
    case ENOMEM: return "; out of memory";
    default: return "";
    }
}

/* Nothing of the host but stderr and the socket: an inherited pipe would make its reader wait for
 * vnpud's end. */
static int add_files(posix_spawn_file_actions_t *files, int socket) {
    int rc = posix_spawn_file_actions_adddup2(files, socket, VNPU_CONTROL_FD);
    if (rc == 0) {
        rc = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    }
    if (rc == 0) {
        rc = posix_spawn_file_actions_addopen(files, 1, "/dev/null", O_WRONLY, 0);
    }
    return rc == 0 ? posix_spawn_file_actions_addclosefrom_np(files, VNPU_CONTROL_FD + 1) : rc;
}

/* Its own group, or Ctrl-C would kill the device before the host handles it; no signal state of the
 * host. */
static int set_attributes(posix_spawnattr_t *attributes) {
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int rc = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                      POSIX_SPAWN_SETSIGMASK);
    rc = rc == 0 ? posix_spawnattr_setpgroup(attributes, 0) : rc;
    rc = rc == 0 ? posix_spawnattr_setsigdefault(attributes, &all) : rc;
    return rc == 0 ? posix_spawnattr_setsigmask(attributes, &none) : rc;
}

vnpu_status_t vnpu__spawn(int socket, int64_t *out_pid, char *path, size_t path_bytes) {
    *out_pid = 0;
    vnpu_status_t status = find_daemon(path, path_bytes);
    if (status != VNPU_OK) {
        return status;
    }
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files) != 0) {
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "no memory to start vnpud");
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return vnpu__fail(VNPU_ERROR_OUT_OF_MEMORY, "no memory to start vnpud");
    }
    char *argv[] = {(char[]){"vnpud"}, NULL};
    pid_t pid = 0;
    int rc = add_files(&files, socket);
    rc = rc == 0 ? set_attributes(&attributes) : rc;
    rc = rc == 0 ? posix_spawn(&pid, path, &files, &attributes, argv, environ) : rc;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (rc != 0) {
        return vnpu__fail(VNPU_ERROR_IO, "starting %s: %s%s", path, strerror(rc), spawn_hint(rc));
    }
    *out_pid = pid;
    return VNPU_OK;
}

void vnpu__describe_end(int64_t pid, char *text, size_t text_bytes) {
    int how = 0;
    pid_t ended = 0;
    /* The socket closes a moment before the process can be waited for. */
    for (int i = 0; i < 1000 && ended == 0; i++) {
        ended = waitpid((pid_t)pid, &how, WNOHANG);
        if (ended == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    if (ended == 0) {
        snprintf(text, text_bytes, "closed its socket but still runs");
    } else if (ended < 0) {
        snprintf(text, text_bytes, "ended"); /* somebody else reaped it, or SIGCHLD is ignored */
    } else if (WIFSIGNALED(how)) {
        int number = WTERMSIG(how);
        snprintf(text, text_bytes, "was killed by signal %d (%s)%s", number, strsignal(number),
                 number == SIGKILL   ? ": out of memory?"
                 : number == SIGABRT ? ": its message is on stderr"
                                     : "");
    } else {
        snprintf(text, text_bytes, "ended with status %d", WEXITSTATUS(how));
    }
}
