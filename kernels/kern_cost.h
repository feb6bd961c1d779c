/*
 * Closed forms of time, in core cycles, from the machine description. They rank tilings; they are
 * not the simulator. Pure functions, integers only: the same choice on every host.
 */
#ifndef KERN_COST_H
#define KERN_COST_H

#include <stdbool.h>

#include "device/vnpu_isa.h"
#include "driver/vnpu.h"

static inline uint64_t kern_ceil_div(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

typedef enum kern_class {
    KERN_CLASS_ALU = 1, /* indices of vnpu_machine_t.vector_passes_* */
    KERN_CLASS_MUL,
    KERN_CLASS_DIV,
    KERN_CLASS_TRANSCENDENTAL,
    KERN_CLASS_CAST,
    KERN_CLASS_REDUCE
} kern_class_t;

kern_class_t kern_class_unary(uint8_t func);
kern_class_t kern_class_binary(uint8_t func);

/* One vector instruction over outer x inner elements. */
uint64_t kern_cost_vector(const vnpu_machine_t *machine, uint64_t outer, uint64_t inner,
                          kern_class_t cls);
/* One transfer of `bytes` in runs of `run_bytes`, alone on its queue. */
uint64_t kern_cost_dma(const vnpu_machine_t *machine, uint64_t bytes, uint64_t run_bytes);
/* The same when the memory has nothing else to do: for whoever counts the memory's time itself. */
uint64_t kern_cost_dma_alone(const vnpu_machine_t *machine, uint64_t bytes, uint64_t run_bytes);
/* DRAM time of `bytes` when all of the chip's bandwidth serves them. */
uint64_t kern_cost_dram(const vnpu_machine_t *machine, uint64_t bytes);
/* Openings of DRAM rows by `runs` runs of `run_bytes` that begin every `pitch_bytes` (0: anywhere):
 * runs that lie near each other find rows open. */
uint64_t kern_cost_openings(const vnpu_machine_t *machine, uint64_t runs, uint64_t run_bytes,
                            uint64_t pitch_bytes);
/* DRAM time of so many openings at random places, over all channels. */
uint64_t kern_cost_opening(const vnpu_machine_t *machine, uint64_t openings);
/* Latency of a first byte. */
uint64_t kern_cost_latency(const vnpu_machine_t *machine);
/* The same with every core's outstanding requests queued in front of the DRAM (Little). */
uint64_t kern_cost_loaded_latency(const vnpu_machine_t *machine);

/* A streamed loop: per tile some loads, vector work, a store; double-buffered; `instances` side by
 * side. */
typedef struct kern_stream_cost {
    uint64_t tiles;                                    /* of one instance */
    uint64_t instances;                                /* that share the DRAM */
    uint64_t load_cycles, vector_cycles, store_cycles; /* per tile */
    uint64_t dram_bytes;                               /* per tile */
} kern_stream_cost_t;
uint64_t kern_cost_stream(const vnpu_machine_t *machine, const kern_stream_cost_t *stream);

/* What fills the matrix unit (one array of it when they split what pads least): tiles are best
 * multiples of it. */
typedef struct kern_fold {
    uint64_t m, k, n;
} kern_fold_t;
kern_fold_t kern_cost_fold(const vnpu_machine_t *machine);
/* The array: cycles of an M x K x N product given as one or more MM of at most mt x kt x nt, in the
 * steady state: the closed form of sim/sim_matrix.h, any dataflow. */
uint64_t kern_cost_matrix(const vnpu_machine_t *machine, vnpu_dtype_t dtype, uint64_t m, uint64_t k,
                          uint64_t n, uint64_t mt, uint64_t kt, uint64_t nt);
/* Multiplications that the unit's cells could do during the steps of one M x K x N product. */
uint64_t kern_cost_padded_macs(const vnpu_machine_t *machine, uint64_t m, uint64_t k, uint64_t n);

#endif
