/*
 * The instruction set: binary formats of programs, instructions and access patterns. docs/isa.md is
 * the manual; this header is the law. All fields are little-endian. Reserved fields must be zero:
 * the validator refuses others.
 *
 * A program holds one instruction stream per engine queue of a core. Each queue runs its stream in
 * order; queues are ordered against each other by counting semaphores alone. Every launch runs
 * `grid[0] * grid[1]` instances of the program; instance i runs on the (i mod n)-th core of the
 * launch's core mask, one instance at a time per core. Instances of a program that signals or
 * multicasts to other instances are a team: all of them run at once, each on a core of its own.
 */
#ifndef VNPU_ISA_H
#define VNPU_ISA_H

#include <assert.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VNPU_ISA_MAGIC   0x55504e56u /* "VNPU" */
#define VNPU_ISA_VERSION 1u

#define VNPU_MAX_DIMS   5u  /* dimensions of an access pattern */
#define VNPU_MAX_LOOPS  4u  /* nested hardware loops of a queue, level 0 outermost */
#define VNPU_MAX_AXES   2u  /* grid axes */
#define VNPU_MAX_SEMS   64u /* semaphores of a core, per launch instance */
#define VNPU_MAX_ARGS   32u /* arguments of a program, 8 bytes each */
#define VNPU_MAX_QUEUES 8u  /* queue sections of a program */
#define VNPU_PARTIALS                                                                              \
    16u /* partial results of a row reduction: lane = index mod 16 (docs/numerics.md) */
#define VNPU_NO_AP   0xffffu /* operand absent */
#define VNPU_NO_SEM  0xffffu /* no semaphore */
#define VNPU_NO_ARG  0xffu   /* the pattern is not relative to an argument */
#define VNPU_NO_LOOP 0xffu   /* clip or rotation is off */

/* Element types. A chip declares which of them its units accept (vnpu_machine_t.dtypes). */
typedef enum vnpu_dtype {
    VNPU_DTYPE_NONE = 0,
    VNPU_F32 = 1,
    VNPU_BF16 = 2,
    VNPU_F16 = 3,
    VNPU_F8E4M3 = 4,
    VNPU_F8E5M2 = 5,
    VNPU_I8 = 6,
    VNPU_U8 = 7,
    VNPU_I16 = 8,
    VNPU_I32 = 9,
    VNPU_I64 = 10,
    VNPU_BOOL = 11, /* one byte, 0 or 1; any other byte reads as 1 */
    /* Block floating point: one element of a pattern is a block of 16 values that share an exponent
     * of 8 bits, in front of 16 signs and mantissas. Timed, not computed: programs with them run in
     * VNPU_MODE=timing only. */
    VNPU_BFP8 = 12, /* 8 bits a value: 17 bytes, 8.5 bits a value in all */
    VNPU_BFP4 = 13, /* 4 bits a value: 9 bytes, 4.5 bits a value in all */
    VNPU_DTYPE_COUNT
} vnpu_dtype_t;

/* Memory spaces of an access pattern. */
typedef enum vnpu_space {
    VNPU_SPACE_NONE = 0,
    VNPU_SPACE_DRAM = 1, /* chip memory; only DMA queues reach it */
    VNPU_SPACE_SRAM = 2, /* the core's scratchpad */
    VNPU_SPACE_ACC = 3,  /* the core's accumulator: matrix results (f32, i32); the vector engine
                            reads and writes it */
    VNPU_SPACE_ARG =
        4, /* the launch's argument block, read-only, 8 bytes an argument; no port, no time */
    VNPU_SPACE_IOTA =
        5, /* no memory: the value of an element is its own element offset (i64); read-only */
    VNPU_SPACE_COUNT
} vnpu_space_t;

/* Engine kinds. A program names a queue by (kind, index). */
typedef enum vnpu_queue_kind {
    VNPU_QUEUE_CTRL = 0,
    VNPU_QUEUE_DMA = 1,
    VNPU_QUEUE_MATRIX = 2,
    VNPU_QUEUE_VECTOR = 3,
    VNPU_QUEUE_KIND_COUNT
} vnpu_queue_kind_t;

/* Opcodes. The high nibble is the class; a class runs on the queues named in brackets. */
typedef enum vnpu_op {
    /* control [every queue] */
    VNPU_OP_NOP = 0x00,
    VNPU_OP_LOOP = 0x01,    /* imm[0] = trip count >= 1; opens a level */
    VNPU_OP_ENDLOOP = 0x02, /* closes the innermost level */
    VNPU_OP_SYNC = 0x03,    /* does nothing but its waits and signals */
    VNPU_OP_FENCE = 0x04,   /* waits until everything this queue has issued is complete */
    VNPU_OP_TRAP = 0x05,    /* imm[0] = code: the launch fails with VNPU_ERROR_TRAP */
    VNPU_OP_MARK = 0x06,    /* imm[0] = id shown in traces */
    /* dma [DMA] */
    VNPU_OP_DMA_COPY =
        0x10, /* dst[i] = cast(src0[i]); F_ACCUMULATE adds into dst; F_PAD: imm[0..1], as in
                 DMA_FILL, where the windows of src0 lie outside (vnpu_clip_t) */
    VNPU_OP_DMA_TRANSPOSE = 0x11, /* as DMA_COPY; runs are read along src0's innermost dimension and
                                     turned on the fly */
    VNPU_OP_DMA_FILL =
        0x12, /* dst[i] = imm[0..1] as i64 (integers) or imm[0] as f32 bits (floats) */
    VNPU_OP_DMA_GATHER =
        0x13, /* dst[i][:] = src0 row src1[i]; see vnpu_oob_t in func, imm[0] = rows of the table */
    VNPU_OP_DMA_SCATTER = 0x14, /* dst row src1[i] = src0[i][:]; F_ACCUMULATE adds, i ascending */
    /* matrix [MATRIX] */
    VNPU_OP_MM = 0x20, /* dst[m..][n..] (+)= sum_k src0[m..][k..] * src1[k..][n..]; func =
                          dimensions of k - 1, the last of src0 and the first of src1, k ascending
                          over them in order; not_first decides overwrite or accumulate */
    /* vector [VECTOR] */
    VNPU_OP_V_UNARY =
        0x30, /* dst = func(src0), or func(src0 * imm[0] + imm[1]) with F_SCALE (f32 bits) */
    VNPU_OP_V_BINARY = 0x31, /* dst = func(src0, src1), then func2(that, src2) if func2 != 0 */
    VNPU_OP_V_SELECT = 0x32, /* dst = src0 != 0 ? src1 : src2 */
    VNPU_OP_V_REDUCE = 0x33, /* dst[row] = func over the innermost dimension of func2-mapped src0
                                (vnpu_reduce_t) */
    VNPU_OP_V_FOLD =
        0x34, /* dst[row] = func over the 16 partials src0[row][16], in the fixed tree */
    VNPU_OP_V_ARGRED = 0x35, /* dst[row] = index (i64, first wins) of the max (func 1) or min (func
                                2) along src0's innermost dimension; reserved until a chip has it */
    VNPU_OP_V_RANDOM = 0x36, /* reserved: Philox counters */
    VNPU_OP_V_SCAN = 0x37,   /* reserved: inclusive scan along the innermost dimension */
    VNPU_OP_REMOTE = 0x40, /* reserved: DMA from scratchpad to the scratchpad of another core, or to
                              another chip */
} vnpu_op_t;

/* vnpu_insn_t.flags */
enum {
    VNPU_F_ACCUMULATE = 1u << 0, /* DMA, MM: add into the destination */
    VNPU_F_KEEP_WEIGHTS =
        1u << 1,               /* MM: src1 is the tile that the array holds already: no preload */
    VNPU_F_SCALE = 1u << 2,    /* V_UNARY: x = src0 * imm[0] + imm[1], two roundings, before func */
    VNPU_F_REVERSE = 1u << 3,  /* V_BINARY: func(src1, src0) */
    VNPU_F_REVERSE2 = 1u << 4, /* V_BINARY: func2(src2, first result) */
    VNPU_F_PARTIAL =
        1u << 5, /* V_REDUCE: dst is [row][16] partials; not_first decides fresh or continued.
                    V_UNARY/V_BINARY: the same for the row-sum operand src[3] */
    VNPU_F_INTEGER = 1u << 6,       /* vector: compute in i64 (wrapping), not in f32 */
    VNPU_F_WRAP_NEGATIVE = 1u << 7, /* gather/scatter: a negative index counts from the end */
    VNPU_F_NO_CONSUME = 1u << 8,    /* both waits leave the semaphore as it is */
    VNPU_F_PAD = 1u << 9, /* DMA_COPY, DMA_TRANSPOSE: src0 has windows, dst takes imm[0..1] for what
                             lies outside */
    VNPU_F_ALL = (1u << 10) - 1u
};

/* Out-of-range policy of DMA_GATHER / DMA_SCATTER (func). */
typedef enum vnpu_oob { VNPU_OOB_ERROR = 0, VNPU_OOB_CLAMP = 1, VNPU_OOB_SKIP = 2 } vnpu_oob_t;

/* Functions of V_UNARY (func) and of the map before V_REDUCE (func2: COPY, SQUARE, ABS, NE0 only).
 */
typedef enum vnpu_unary {
    VNPU_U_COPY = 0,
    VNPU_U_NEG,
    VNPU_U_ABS,
    VNPU_U_SQUARE,
    VNPU_U_SIGN,
    VNPU_U_RELU,
    VNPU_U_FLOOR,
    VNPU_U_CEIL,
    VNPU_U_TRUNC,
    VNPU_U_ROUND, /* ROUND: half to even */
    VNPU_U_RECIP,
    VNPU_U_SQRT,
    VNPU_U_RSQRT,
    VNPU_U_EXP,
    VNPU_U_EXPM1,
    VNPU_U_LOG,
    VNPU_U_LOG1P,
    VNPU_U_SIN,
    VNPU_U_COS,
    VNPU_U_TANH,
    VNPU_U_SIGMOID,
    VNPU_U_ERF,
    VNPU_U_SILU,
    VNPU_U_GELU_ERF,
    VNPU_U_GELU_TANH,
    VNPU_U_SOFTPLUS,
    VNPU_U_NOT,    /* logical: x == 0 */
    VNPU_U_BITNOT, /* integers */
    VNPU_U_NE0,    /* x != 0 (NaN counts) */
    VNPU_U_ISNAN,
    VNPU_U_ISINF,
    VNPU_U_ISNEGINF,
    VNPU_U_ISPOSINF,
    VNPU_U_COUNT
} vnpu_unary_t;

/* Functions of V_BINARY (func, func2; 0 = none in func2). Comparisons and logical ones give 0 or 1.
 */
typedef enum vnpu_binary {
    VNPU_B_NONE = 0,
    VNPU_B_ADD,
    VNPU_B_SUB,
    VNPU_B_MUL,
    VNPU_B_DIV,
    VNPU_B_MAX,
    VNPU_B_MIN, /* NaN wins, as torch.maximum */
    VNPU_B_POW,
    VNPU_B_FMOD,
    VNPU_B_REMAINDER,
    VNPU_B_FLOORDIV,
    VNPU_B_ATAN2,
    VNPU_B_EQ,
    VNPU_B_NE,
    VNPU_B_LT,
    VNPU_B_LE,
    VNPU_B_GT,
    VNPU_B_GE,
    VNPU_B_AND,
    VNPU_B_OR,
    VNPU_B_XOR,
    VNPU_B_SHL,
    VNPU_B_SHR, /* integers, bitwise; SHR arithmetic */
    VNPU_B_LAND,
    VNPU_B_LOR,
    VNPU_B_LXOR, /* logical, any type */
    VNPU_B_COUNT
} vnpu_binary_t;

/* Functions of V_REDUCE and V_FOLD. */
typedef enum vnpu_reduce {
    VNPU_R_ADD = 1,
    VNPU_R_MAX,
    VNPU_R_MIN,
    VNPU_R_MUL,
    VNPU_R_COUNT
} vnpu_reduce_t;

/* How the tile index of a clip is formed from loop counter i (trip count T), grid coordinate g
 * (grid size G). */
typedef enum vnpu_clip_mode {
    VNPU_CLIP_LOOP = 0,   /* i */
    VNPU_CLIP_GRID = 1,   /* g */
    VNPU_CLIP_BLOCK = 2,  /* g * T + i: each grid coordinate owns a block of tiles */
    VNPU_CLIP_CYCLIC = 3, /* i * G + g: tiles are dealt round */
} vnpu_clip_mode_t;

/*
 * One clip of a last tile: size[dim] becomes max(0, min(size, extent - index * size)). 8 bytes.
 *
 * A window (VNPU_CLIP_WINDOW) also has an overlap and a pad (vnpu_ap_t.pad): tile number `index`
 * covers the coordinates [first, first + size) with first = index * (size - overlap) - pad, of
 * which [0, extent) exist. What lies before or behind is cut away. Windows belong to src0 of a DMA
 * with F_PAD alone; a dimension with a window has no other clip. In mode LOOP with loop
 * VNPU_NO_LOOP a window does not move: index 0.
 */
typedef struct vnpu_clip {
    uint32_t extent;   /* elements of the whole dimension */
    uint8_t dim;       /* which dimension of this pattern */
    uint8_t loop;      /* loop level 0..3 (modes LOOP, BLOCK, CYCLIC); VNPU_NO_LOOP in mode GRID */
    uint8_t axis_mode; /* bits 0..1 vnpu_clip_mode_t, bit 2 grid axis, bit 3 window, bit 7: this
                          clip is in use */
    int8_t overlap; /* window: elements that a tile shares with the next one; < 0: that lie between
                       them; < size */
} vnpu_clip_t;
static_assert(sizeof(vnpu_clip_t) == 8, "clip");
#define VNPU_CLIP_USED   0x80u
#define VNPU_CLIP_WINDOW 0x08u

typedef struct vnpu_dim {
    uint32_t size;  /* elements, >= 1; dims[0] is the outermost, dims[ndims - 1] the innermost */
    int32_t stride; /* elements */
} vnpu_dim_t;

/*
 * Access pattern, 128 bytes: a strided walk over one space.
 *   element offset = sum_d idx[d] * stride[d] + sum_l i[l] * loop_inc[l] + sum_a g[a] * grid_inc[a]
 *                    + (rot_loop in use ? (n mod rot_count) * rot_stride : 0)
 *   n: iterations, in order, of the loops rot_loop - rot_outer .. rot_loop: i[rot_loop] when
 * rot_outer is 0 byte address   = start(space, arg) + base + element offset * size of dtype start:
 * the argument's address (DRAM, arg given), 0 (SRAM, ACC, ARG). IOTA: the value is base + element
 * offset. A pattern with a dimension clipped to 0 makes its instruction a no-op that still waits
 * and signals. Two operands of one instruction correspond value by value: same ndims after clipping
 * sizes must agree, except where the opcode says otherwise. Broadcasting is a stride of 0. Blocks
 * (vnpu_dtype_block) hold values of the innermost dimension: its size, clips, strides and
 * increments count blocks.
 */
typedef struct vnpu_ap {
    uint8_t space;  /* vnpu_space_t */
    uint8_t dtype;  /* vnpu_dtype_t */
    uint8_t ndims;  /* 1..5 */
    uint8_t arg;    /* argument index for DRAM, else VNPU_NO_ARG */
    uint8_t pad[4]; /* by clip, of windows: elements of tile 0 that lie before coordinate 0 */
    int64_t base;   /* bytes; IOTA: elements */
    vnpu_dim_t dim[VNPU_MAX_DIMS];
    float scale;                      /* reserved for quantised operands: 0 */
    int16_t zero_point;               /* reserved: 0 */
    uint8_t sparsity;                 /* reserved: 0 */
    uint8_t reserved1;                /* first 64-byte line ends here */
    int32_t loop_inc[VNPU_MAX_LOOPS]; /* elements per trip of each loop level */
    int32_t grid_inc[VNPU_MAX_AXES];  /* elements per grid coordinate */
    uint8_t rot_loop;  /* loop level whose counter rotates buffers, or VNPU_NO_LOOP */
    uint8_t rot_count; /* buffers, >= 1 */
    uint8_t rot_outer; /* loops outside rot_loop whose iterations count too, <= rot_loop; SRAM and
                          ACC only */
    uint8_t reserved2;
    uint32_t rot_stride; /* elements between buffers */
    vnpu_clip_t clip[4];
} vnpu_ap_t;
static_assert(sizeof(vnpu_ap_t) == 128, "access pattern");

typedef struct vnpu_sem_wait {
    uint16_t sem;   /* semaphore, or VNPU_NO_SEM */
    uint16_t value; /* waits for sem >= value, then subtracts value (unless VNPU_F_NO_CONSUME) */
} vnpu_sem_wait_t;

typedef struct vnpu_sem_signal {
    uint16_t sem;  /* semaphore, or VNPU_NO_SEM */
    int16_t delta; /* added when the instruction completes */
} vnpu_sem_signal_t;

/*
 * Grid coordinates of instances: VNPU_PLACE(x, y) is coordinate x on axis 0 and y on axis 1.
 * VNPU_PLACE_ANY: any coordinate (only), the instance's own (remote_core).
 */
#define VNPU_PLACE_ANY   127u
#define VNPU_PLACE(x, y) ((uint16_t)(0x8000u | (x) | (y) << 7))
static inline uint32_t vnpu_place_axis(uint16_t place, uint32_t axis) {
    return (uint32_t)place >> (7u * axis) & 127u;
}

/* Groups of a multicast, the instance itself included: those that differ from it in the coordinate
 * of axis 0 at most, of axis 1 at most, all. */
typedef enum vnpu_multicast {
    VNPU_MULTICAST_NONE = 0,
    VNPU_MULTICAST_AXIS0 = 1,
    VNPU_MULTICAST_AXIS1 = 2,
    VNPU_MULTICAST_ALL = 3
} vnpu_multicast_t;

/*
 * Instruction, 64 bytes. Loop masks have bit l for loop level l:
 *   first_only  the instruction is skipped (waits and signals too) unless i[l] == 0 for every l in
 * the mask last_only   the same for i[l] == T[l] - 1 not_first   MM, PARTIAL: accumulate if any
 * i[l] > 0 for l in the mask, overwrite otherwise
 */
typedef struct vnpu_insn {
    uint8_t op;     /* vnpu_op_t */
    uint8_t func;   /* vnpu_unary_t, vnpu_binary_t, vnpu_reduce_t or vnpu_oob_t, by opcode */
    uint16_t flags; /* VNPU_F_* */
    uint8_t first_only;
    uint8_t last_only;
    uint8_t not_first;
    uint8_t func2; /* second function of V_BINARY, map of V_REDUCE */
    vnpu_sem_wait_t wait[2];
    vnpu_sem_signal_t signal[2];
    uint16_t
        remote_core; /* VNPU_PLACE of the instance whose semaphores the signals go to; 0: its own */
    uint16_t multicast; /* vnpu_multicast_t: DMA_COPY or _TRANSPOSE from DRAM writes, and signals,
                           in every instance of the group */
    uint16_t dst;       /* access pattern index, or VNPU_NO_AP */
    uint16_t src[4];    /* src[3] of V_UNARY / V_BINARY: row sums of the results, [row] or [row][16]
                           with PARTIAL */
    uint16_t only; /* VNPU_PLACE of the instances that execute it, others skip it (waits and signals
                      too); 0: all */
    uint32_t imm[4];
    uint32_t line; /* line of the assembler source, 0 if unknown */
    uint32_t reserved1;
} vnpu_insn_t;
static_assert(sizeof(vnpu_insn_t) == 64, "instruction");

/* One queue's stream inside a program. 16 bytes. */
typedef struct vnpu_queue_section {
    uint8_t kind;  /* vnpu_queue_kind_t */
    uint8_t index; /* which queue of that kind */
    uint16_t reserved;
    uint32_t first; /* index of the first instruction */
    uint32_t count; /* instructions */
    uint32_t reserved1;
} vnpu_queue_section_t;
static_assert(sizeof(vnpu_queue_section_t) == 16, "queue section");

typedef enum vnpu_arg_kind {
    VNPU_ARG_SCALAR = 0,
    VNPU_ARG_IN = 1,
    VNPU_ARG_OUT = 2,
    VNPU_ARG_INOUT = 3
} vnpu_arg_kind_t;

/*
 * Header of a program image, 128 bytes, followed by: queue sections, instructions, access patterns,
 * string bytes. The strings are none, or the names of all arguments, all semaphores, all patterns,
 * each NUL-terminated (device/dev_image.h).
 */
typedef struct vnpu_program_header {
    uint32_t magic;   /* VNPU_ISA_MAGIC */
    uint32_t version; /* VNPU_ISA_VERSION */
    uint32_t bytes;   /* whole image */
    uint32_t crc32;   /* zlib polynomial 0xEDB88320 over the image with this field zero */
    uint16_t num_queues;
    uint16_t num_args;
    uint16_t num_sems;
    uint16_t reserved0;
    uint32_t num_insns;
    uint32_t num_aps;
    uint32_t sram_bytes; /* scratchpad needed by one instance */
    uint32_t acc_bytes;  /* accumulator needed by one instance */
    uint32_t strings_bytes;
    uint8_t arg_kind[VNPU_MAX_ARGS]; /* vnpu_arg_kind_t */
    char name[52];                   /* NUL-terminated */
} vnpu_program_header_t;
static_assert(sizeof(vnpu_program_header_t) == 128, "program header");

/* Bytes of one element of a pattern; 0 for an unknown code. */
static inline uint32_t vnpu_dtype_bytes(vnpu_dtype_t dtype) {
    switch (dtype) {
    case VNPU_F32:
    case VNPU_I32: return 4;
    case VNPU_BF16:
    case VNPU_F16:
    case VNPU_I16: return 2;
    case VNPU_F8E4M3:
    case VNPU_F8E5M2:
    case VNPU_I8:
    case VNPU_U8:
    case VNPU_BOOL: return 1;
    case VNPU_I64: return 8;
    case VNPU_BFP8: return 17;
    case VNPU_BFP4: return 9;
    case VNPU_DTYPE_NONE:
    case VNPU_DTYPE_COUNT: return 0;
    }
    return 0;
}

/* Values of one element of a pattern: a block, or 1. */
static inline uint32_t vnpu_dtype_block(vnpu_dtype_t dtype) {
    return dtype == VNPU_BFP8 || dtype == VNPU_BFP4 ? 16 : 1;
}

/* Bytes of `values` values that follow each other: whole blocks. */
static inline uint64_t vnpu_dtype_span(vnpu_dtype_t dtype, uint64_t values) {
    uint64_t block = vnpu_dtype_block(dtype);
    return (values / block + (values % block != 0)) * vnpu_dtype_bytes(dtype);
}

#ifdef __cplusplus
}
#endif
#endif
