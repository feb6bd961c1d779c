/*
 * The packet ring under two threads, as a plain program: Criterion cannot run under
 * ThreadSanitizer. A client thread writes packets of every size into the ring as fast as it may, a
 * chip thread drains them into a chip that only counts; both sides use the sleep states and the
 * futex as libvnpu and vnpud do. Prints the counts; any disagreement ends with status 1.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device/dev_port.h"

#define PACKETS    300000u
#define SLOTS_MASK (VNPU_RING_SLOTS - 1u)

/* --- a chip that checks what it gets --- */

struct dev_chip {
    uint64_t seen, sum;
};

void dev_chip_execute(dev_chip_t *chip, uint32_t client, const vnpu_packet_t *packet,
                      const void *payload_in, void *payload_out, vnpu_completion_t *completion) {
    (void)client, (void)payload_out;
    uint64_t args[40];
    uint32_t num_args = packet->type == VNPU_PACKET_KERNEL ? packet->u.kernel.num_args : 0;
    memcpy(args, packet + 1, num_args * sizeof *args);
    for (uint32_t i = 0; i < num_args; i++) {
        chip->sum += args[i];
    }
    if (packet->type == VNPU_PACKET_COPY_H2D) {
        for (uint64_t i = 0; i < packet->u.copy.bytes; i++) {
            chip->sum += ((const uint8_t *)payload_in)[i];
        }
    }
    chip->seen++;
    completion->value[0] = chip->sum;
}

/* --- one test bed --- */

typedef struct bed {
    dev_chip_t chip;
    dev_port_t *port;
    vnpu_control_page_t *control;
    uint8_t *shared;
    _Atomic uint32_t doorbell; /* futex in the place of the eventfd */
    atomic_bool stop;
    uint64_t rings, sleeps, waits, slots;
    uint64_t sum; /* that the chip must have counted */
} bed_t;

static void futex_wait(const void *word, uint32_t seen) {
    const struct timespec limit = {.tv_nsec = 20000000};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0);
}

static void *chip_thread(void *opaque) {
    bed_t *bed = opaque;
    sim_error_t err = {0};
    while (!atomic_load(&bed->stop)) {
        uint32_t count = 0;
        if (dev_port_drain(bed->port, 64, &count, &err) != SIM_OK) {
            fprintf(stderr, "ring_stress: %s\n", err.text);
            exit(1);
        }
        if (count == 0) {
            uint32_t seen = atomic_load(&bed->doorbell);
            dev_port_set_state(bed->port, DEV_PORT_DEEP_SLEEP);
            if (!dev_port_has_work(bed->port) && !atomic_load(&bed->stop)) {
                bed->sleeps++;
                futex_wait(&bed->doorbell, seen);
            }
            dev_port_set_state(bed->port, DEV_PORT_AWAKE);
        }
    }
    return NULL;
}

static void ring(bed_t *bed) {
    bed->rings++;
    atomic_fetch_add(&bed->doorbell, 1);
    syscall(SYS_futex, &bed->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wait_for(bed_t *bed, uint64_t seq) {
    vnpu_control_page_t *control = bed->control;
    if (atomic_load(&control->state) != 0) {
        ring(bed);
    }
    while (atomic_load(&control->done) < seq) {
        bed->waits++;
        atomic_fetch_add(&control->waiters, 1);
        uint32_t seen = atomic_load(&control->done_futex);
        if (atomic_load(&control->done) < seq) {
            futex_wait(&control->done_futex, seen);
        }
        atomic_fetch_sub(&control->waiters, 1);
    }
}

/* Writes packet `seq`; *sum grows by what the chip must have counted after it. */
static uint64_t submit(bed_t *bed, uint64_t seq, uint64_t tail, uint64_t *sum) {
    uint8_t *slots = bed->shared + bed->control->ring_offset;
    uint32_t kind = (uint32_t)(seq * 2654435761u >> 7);
    vnpu_packet_t packet = {.type = VNPU_PACKET_KERNEL, .slots = 1, .seq = seq};
    uint64_t args[40] = {0};
    if (kind % 4 == 0) {
        packet.type = VNPU_PACKET_COPY_H2D;
        packet.u.copy.host = seq % 64 * 1024;
        packet.u.copy.bytes = 32;
        memset(bed->shared + bed->control->staging_in_offset + packet.u.copy.host,
               (int)(seq & 0xff), 32);
        *sum += (seq & 0xff) * 32;
    } else {
        uint32_t num_args = kind % 33;
        packet.u.kernel.num_args = (uint16_t)num_args;
        packet.slots = (uint16_t)(1 + (num_args + 7) / 8);
        for (uint32_t i = 0; i < num_args; i++) {
            args[i] = seq * 40 + i;
            *sum += args[i];
        }
    }
    memcpy(slots + (tail & SLOTS_MASK) * 64, &packet, 64);
    for (uint32_t i = 1; i < packet.slots; i++) {
        memcpy(slots + ((tail + i) & SLOTS_MASK) * 64, &args[(i - 1) * 8], 64);
    }
    atomic_exchange(&bed->control->tail, tail + packet.slots);
    if (atomic_load(&bed->control->state) != 0) {
        ring(bed);
    }
    return tail + packet.slots;
}

static int run(bed_t *bed) {
    uint64_t tail = 0, sum = 0, expected[64];
    const vnpu_completion_t *completions =
        (const void *)(bed->shared + bed->control->completion_offset);
    for (uint64_t seq = 1; seq <= PACKETS; seq++) {
        if (seq > 64) { /* 64 staging regions, 64 packets under way */
            wait_for(bed, seq - 64);
            const vnpu_completion_t *done = &completions[(seq - 65) % VNPU_COMPLETION_SLOTS];
            if (done->seq != seq - 64 || done->value[0] != expected[seq % 64]) {
                fprintf(stderr, "ring_stress: completion %llu is wrong\n",
                        (unsigned long long)(seq - 64));
                return 1;
            }
        }
        tail = submit(bed, seq, tail, &sum);
        expected[seq % 64] = sum;
        if (seq % 1000 == 0) {
            wait_for(bed, seq); /* now and then the ring runs empty and the chip sleeps */
        }
    }
    wait_for(bed, PACKETS);
    bed->slots = tail;
    bed->sum = sum;
    return 0;
}

int main(void) {
    static bed_t bed;
    sim_error_t err = {0};
    bed.shared = mmap(NULL, dev_port_shared_bytes(), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bed.shared == MAP_FAILED ||
        dev_port_create(&bed.chip, 1, bed.shared, &bed.port, &err) != SIM_OK) {
        fprintf(stderr, "ring_stress: no memory %s\n", err.text);
        return 1;
    }
    bed.control = (vnpu_control_page_t *)(void *)bed.shared;
    pthread_t thread;
    if (pthread_create(&thread, NULL, chip_thread, &bed) != 0) {
        return 1;
    }
    int code = run(&bed);
    atomic_store(&bed.stop, true);
    ring(&bed);
    pthread_join(thread, NULL);
    printf("ring_stress: %u packets, %llu slots, %llu rings, %llu sleeps, %llu waits\n", PACKETS,
           (unsigned long long)bed.slots, (unsigned long long)bed.rings,
           (unsigned long long)bed.sleeps, (unsigned long long)bed.waits);
    if (bed.chip.seen != PACKETS || bed.chip.sum != bed.sum) {
        fprintf(stderr, "ring_stress: the chip counted something else\n");
        code = 1;
    }
    dev_port_destroy(bed.port);
    munmap(bed.shared, dev_port_shared_bytes());
    return code;
}
