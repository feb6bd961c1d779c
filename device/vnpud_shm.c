#include "device/vnpud_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

sim_status_t vnpud_fail(sim_error_t *err, sim_status_t status, const char *what, const char *hint) {
    int number = errno;
    return sim_error_set(err, status, "%s: %s%s%s", what, strerror(number),
                         hint[0] != '\0' ? "; " : "", hint);
}

/* Where memfd_create is forbidden: an unlinked file of /dev/shm, which cannot be sealed. */
static int open_unlinked(void) {
    char name[64];
    snprintf(name, sizeof name, "/vnpud-%d", (int)getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        shm_unlink(name);
    }
    return fd;
}

sim_status_t vnpud_shm_create(const char *name, uint64_t bytes, int *out_fd, void **out_pointer,
                              sim_error_t *err) {
    *out_fd = -1;
    *out_pointer = NULL;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool is_memfd = fd >= 0;
    if (fd < 0) {
        fd = open_unlinked();
    }
    if (fd < 0) {
        return vnpud_fail(err, SIM_ERROR_IO, "memfd_create and /dev/shm",
                          "set VNPU_TRANSPORT=inproc");
    }
    sim_status_t status = SIM_OK;
    if (ftruncate(fd, (off_t)bytes) != 0) {
        status = vnpud_fail(err, SIM_ERROR_OUT_OF_MEMORY, "size of shared memory", "");
    } else if (is_memfd && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        status =
            vnpud_fail(err, SIM_ERROR_IO, "seals of shared memory", "set VNPU_TRANSPORT=inproc");
    }
    void *pointer = MAP_FAILED;
    if (status == SIM_OK) {
        pointer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (pointer == MAP_FAILED) {
            status = vnpud_fail(err, SIM_ERROR_OUT_OF_MEMORY, "mapping of shared memory", "");
        }
    }
    if (status != SIM_OK) {
        close(fd);
        return status;
    }
    *out_fd = fd;
    *out_pointer = pointer;
    return SIM_OK;
}
