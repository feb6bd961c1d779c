/* Softmax and layer norm: what their programs share. */
#ifndef KERN_ROWS_H
#define KERN_ROWS_H

#include "kernels/kern_rowset.h"

enum { ROWS_IN = 0, ROWS_OUT, ROWS_WEIGHT, ROWS_BIAS, ROWS_MEAN, ROWS_RSTD, ROWS_OPERANDS };

typedef enum kern_rows_kind {
    KERN_ROWS_SOFTMAX,
    KERN_ROWS_LOG_SOFTMAX,
    KERN_ROWS_LAYER_NORM
} kern_rows_kind_t;

typedef struct kern_rows {
    kern_context_t *context;
    vnpu_stream_t stream;
    kern_rows_kind_t kind;
    kern_iter_t iter;
    uint32_t kept;
    bool has[ROWS_OPERANDS];
    vnpu_dtype_t dtype[ROWS_OPERANDS];
    vnpu_addr_t address[ROWS_OPERANDS];
    float eps;
} kern_rows_t;

/* What a generator works with. Buffers of operands lie in `sram`; work and spare are f32 tiles of
 * the vector queue alone. */
typedef struct kern_rows_coder {
    const kern_rows_t *call;
    const kern_rowset_t *rows;
    kern_builder_t *builder;
    uint8_t arg[ROWS_OPERANDS];
    uint32_t sram[ROWS_OPERANDS];
    uint32_t work, spare, partial, row[2]; /* row: f32 vectors */
    kern_ring_t in, out;
    uint16_t fixed;  /* weights that are loaded once */
    bool has_passes; /* R has a loop: the rows are read several times */
    bool in_place;   /* input and results share a buffer, and work where all are f32 */
} kern_rows_coder_t;

/* A pattern's place in the tables: of an operand's buffer, or of work, spare, partial and row
 * vectors. */
uint16_t kern_rows_operand(const kern_rows_coder_t *c, uint32_t operand, kern_shape_t shape);
uint16_t kern_rows_local(const kern_rows_coder_t *c, uint32_t base, kern_shape_t shape);
/* Vector instructions; dst and sources are pattern indices. */
vnpu_insn_t *kern_rows_unary(const kern_rows_coder_t *c, uint8_t func, uint16_t dst, uint16_t src);
vnpu_insn_t *kern_rows_binary(const kern_rows_coder_t *c, uint8_t func, uint16_t dst, uint16_t a,
                              uint16_t b);
/* func over the row of src into the f32 vector at `base`; in chunks: partial results, folded after
 * the last chunk. Returns the instruction that reads src. */
vnpu_insn_t *kern_rows_reduce(const kern_rows_coder_t *c, uint8_t func, uint8_t map, uint32_t base,
                              uint16_t src);
/* Loads operand 0 (and the weights, `columns`, when they come in chunks); the first vector
 * instruction waits for it. Returns what it has to wait for. */
uint32_t kern_rows_load(const kern_rows_coder_t *c, bool columns);

void kern_softmax_generate(const kern_rows_coder_t *c);
void kern_layer_norm_generate(const kern_rows_coder_t *c);

#endif
