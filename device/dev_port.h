/*
 * One client's shared memory as the chip sees it: takes packets off the ring, checks everything
 * that lies in memory which the client may change, has the chip execute them, and publishes the
 * completions. vnpud's chip thread and the in-process device drive it; it knows no sockets and no
 * loops.
 *
 * drain, has_work and the sleep states belong to one thread (the chip's); pin and unpin may come
 * from another.
 */
#ifndef DEV_PORT_H
#define DEV_PORT_H

#include <stdbool.h>

#include "device/dev_chip.h"

typedef struct dev_port dev_port_t;

typedef enum dev_port_state {
    DEV_PORT_AWAKE = 0,
    DEV_PORT_LIGHT_SLEEP =
        1, /* wakes by itself within a millisecond; rung at 8 pending slots or a flush */
    DEV_PORT_DEEP_SLEEP = 2 /* every submission rings */
} dev_port_state_t;

#define DEV_PORT_MAX_BLOCKS 4096u

/* Bytes of shared memory that a client needs: control page, rings, staging. */
uint32_t dev_port_shared_bytes(void);

/* Formats `shared` (zeroed, page-aligned, dev_port_shared_bytes) for a client of the chip. Both are
 * borrowed. */
sim_status_t dev_port_create(dev_chip_t *chip, uint32_t client, void *shared, dev_port_t **out_port,
                             sim_error_t *err) SIM_MUST_USE;
void dev_port_destroy(
    dev_port_t *port); /* NULL is fine; forgets pinned blocks, does not unmap them */

/*
 * Executes at most max_packets packets. *out_count: how many there were. A packet with bad contents
 * completes with an error; a ring that makes no sense any more (cursor, packet size, sequence) is
 * an error of the port: the client is lost.
 */
sim_status_t dev_port_drain(dev_port_t *port, uint32_t max_packets, uint32_t *out_count,
                            sim_error_t *err) SIM_MUST_USE;

bool dev_port_has_work(const dev_port_t *port);
bool dev_port_client_waits(
    const dev_port_t *port); /* the last executed packet was one that the client waits for */
/* True when a short spin makes sense: the client last ran on another CPU than this thread. */
bool dev_port_client_is_elsewhere(const dev_port_t *port);
/* Publishes the sleep state with a full fence; the caller looks at has_work once more before it
 * sleeps. */
void dev_port_set_state(dev_port_t *port, dev_port_state_t state);

/* Registers memory that packets with VNPU_PACKET_PINNED name by block. The memory is borrowed until
 * unpin returns. */
sim_status_t dev_port_pin(dev_port_t *port, void *pointer, uint64_t bytes, uint32_t *out_block,
                          sim_error_t *err) SIM_MUST_USE;
/* Waits for a copy under way. Returns the memory of the block (NULL: no such block). */
void *dev_port_unpin(dev_port_t *port, uint32_t block, uint64_t *out_bytes);
/* Any block that is still pinned, 0 when there is none: for the client's end. */
uint32_t dev_port_first_block(dev_port_t *port);

#endif
