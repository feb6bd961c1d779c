/*
 * The kernel library: builds tile programs for tensor operations and launches them. It knows the
 * machine (vnpu_machine_t) and the instruction set, not torch. One builder per family; every shape
 * is correct (0, 1, tile - 1, tile, tile + 1, primes).
 *
 * A call describes operands (address, dtype, sizes, strides in elements), picks a tiling by closed
 * form (kern_cost.h; a pure function of machine and shape), builds the program once (cache: family
 * + shapes + strides + dtypes -> module) and launches it asynchronously on `stream`. Scalars travel
 * as arguments, so they never cause another program. Empty tensors launch nothing. Sizes that
 * exceed what one access pattern holds are split.
 *
 * Errors: VNPU_ERROR_UNSUPPORTED with kern_error_detail naming family, dtype and shape when the
 * chip or the family cannot do it (the caller falls back or refuses); VNPU_ERROR_INVALID_VALUE for
 * inconsistent shapes; driver errors pass through. Thread safety: one thread at a time per context
 * (callers hold a lock).
 */
#ifndef KERN_H
#define KERN_H

#include <stdbool.h>

#include "device/vnpu_isa.h"
#include "driver/vnpu.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERN_API         __attribute__((visibility("default"))) __attribute__((warn_unused_result))
#define KERN_API_VOID    __attribute__((visibility("default")))
#define KERN_MAX_DIMS    8u
#define KERN_MAX_INPUTS  6u /* tensor operands of a pointwise expression */
#define KERN_MAX_SCALARS 8u
#define KERN_MAX_NODES   16u

typedef struct kern_context kern_context_t;

/* device: driver device index. */
KERN_API vnpu_status_t kern_context_create(int device, kern_context_t **out_context);
KERN_API_VOID void
kern_context_destroy(kern_context_t *context); /* unloads its modules; NULL is fine */
KERN_API_VOID const vnpu_machine_t *kern_machine(const kern_context_t *context);
/* Text of the last failure in this context; "" if none. */
KERN_API_VOID const char *kern_error_detail(const kern_context_t *context);
/* Label of the launches that follow (profiles). */
KERN_API_VOID void kern_set_tag(kern_context_t *context, uint32_t tag);
/* Programs built and launches made so far. */
KERN_API_VOID void kern_stats(const kern_context_t *context, uint64_t *out_programs,
                              uint64_t *out_launches);

/* A strided tensor in device memory. dim 0 outermost; strides in elements, 0 = broadcast, never
 * negative. */
typedef struct kern_tensor {
    vnpu_addr_t address;
    vnpu_dtype_t dtype;
    uint32_t ndims; /* 0: one element */
    int64_t size[KERN_MAX_DIMS];
    int64_t stride[KERN_MAX_DIMS];
} kern_tensor_t;

/*
 * Sizes with which a chip stores a tensor (layout.tile): two minor dimensions, chosen so that they
 * pad least and put last, in whole tiles; of equal padding the smaller leading sizes. A vector is
 * padded to a row of a tile, from a whole tile on to tiles. Without a tile: `size` as it is. For
 * who allocates; the kernels take any strides. ndims <= KERN_MAX_DIMS, elements.
 */
KERN_API_VOID void kern_stored_sizes(const kern_context_t *context, uint32_t ndims,
                                     const int64_t *size, int64_t *out_size);
/* The same of one dimension that a compiler lays along the columns of the tiles: k of a product,
 * channels. */
KERN_API_VOID int64_t kern_stored_columns(const kern_context_t *context, int64_t size);

/* ---- pointwise
 * ---------------------------------------------------------------------------------------------------
 */
/* An expression over inputs and scalars. Operand codes of a node: input i, scalar i, or an earlier
 * node's value. */
typedef enum kern_node_kind {
    KERN_NODE_UNARY,
    KERN_NODE_BINARY,
    KERN_NODE_SELECT
} kern_node_kind_t;
#define KERN_INPUT(i)  ((uint8_t)(i))
#define KERN_SCALAR(i) ((uint8_t)(0x40 + (i)))
#define KERN_NODE(i)   ((uint8_t)(0x80 + (i)))
#define KERN_INDEX     ((uint8_t)0xc0) /* the linear index of the output element (arange) */
typedef struct kern_node {
    kern_node_kind_t kind;
    uint8_t func; /* vnpu_unary_t or vnpu_binary_t */
    uint8_t operand[3];
} kern_node_t;
typedef struct kern_pointwise {
    const char *name; /* for profiles and error texts */
    kern_tensor_t out;
    uint32_t num_inputs;
    kern_tensor_t input[KERN_MAX_INPUTS]; /* same sizes as out (broadcast = stride 0) */
    bool is_integer;                      /* compute in i64 instead of f32 */
    uint32_t num_scalars;
    double scalar_f[KERN_MAX_SCALARS];  /* used when !is_integer (rounded to f32) */
    int64_t scalar_i[KERN_MAX_SCALARS]; /* used when is_integer */
    uint32_t num_nodes;
    kern_node_t node[KERN_MAX_NODES]; /* the last node is the result */
} kern_pointwise_t;
/* Each operand is converted on load, the result on store (device/dev_exec.h: casts). out may alias
 * an input exactly. */
KERN_API vnpu_status_t kern_pointwise(kern_context_t *context, vnpu_stream_t stream,
                                      const kern_pointwise_t *call);

/* Strided copy with cast; transposes and gathers of dimensions are recognised. */
KERN_API vnpu_status_t kern_copy(kern_context_t *context, vnpu_stream_t stream,
                                 const kern_tensor_t *out, const kern_tensor_t *in);
/* Value as double (float types) or int64 (integers, bool). Strided. */
KERN_API vnpu_status_t kern_fill(kern_context_t *context, vnpu_stream_t stream,
                                 const kern_tensor_t *out, double value_f, int64_t value_i);

/* ---- reductions
 * --------------------------------------------------------------------------------------------------
 */
typedef enum kern_reduction {
    KERN_SUM,
    KERN_MEAN,
    KERN_AMAX,
    KERN_AMIN,
    KERN_PROD,
    KERN_ANY,
    KERN_ALL,
    KERN_NORM2 /* sqrt of the sum of squares */
} kern_reduction_t;
/* out has in's ndims with size 1 in the reduced dimensions (mask bit d). Any set of dimensions. */
KERN_API vnpu_status_t kern_reduce(kern_context_t *context, vnpu_stream_t stream,
                                   kern_reduction_t kind, const kern_tensor_t *out,
                                   const kern_tensor_t *in, uint32_t dim_mask);

/* ---- rows: softmax and layer norm
 * ---------------------------------------------------------------------------------- */
/* Over dimension `dim`; is_log: log-softmax. */
KERN_API vnpu_status_t kern_softmax(kern_context_t *context, vnpu_stream_t stream,
                                    const kern_tensor_t *out, const kern_tensor_t *in, uint32_t dim,
                                    bool is_log);
/* Over the last `norm_dims` dimensions; weight, bias, mean, rstd may be NULL. eps > 0. mean/rstd:
 * one element a row. */
KERN_API vnpu_status_t kern_layer_norm(kern_context_t *context, vnpu_stream_t stream,
                                       const kern_tensor_t *out, const kern_tensor_t *in,
                                       const kern_tensor_t *weight, const kern_tensor_t *bias,
                                       const kern_tensor_t *mean, const kern_tensor_t *rstd,
                                       uint32_t norm_dims, double eps);

/* ---- matrix products
 * -----------------------------------------------------------------------------------------------
 */
typedef enum kern_activation {
    KERN_ACT_NONE = 0,
    KERN_ACT_RELU,
    KERN_ACT_GELU_ERF,
    KERN_ACT_GELU_TANH,
    KERN_ACT_SILU,
    KERN_ACT_TANH
} kern_activation_t;
typedef struct kern_gemm {
    kern_tensor_t out; /* [..., M, N]: 2 or 3 dims, batch first */
    kern_tensor_t a;   /* [..., M, K] any strides (a transposed matrix is a stride order) */
    kern_tensor_t b;   /* [..., K, N] any strides; batch stride 0 broadcasts */
    kern_tensor_t
        c; /* address 0: none. Added: beta * c, broadcast to out's sizes (bias: stride 0 over M) */
    double alpha, beta; /* out = act(alpha * a @ b + beta * c) */
    kern_activation_t activation;
} kern_gemm_t;
KERN_API vnpu_status_t kern_gemm(kern_context_t *context, vnpu_stream_t stream,
                                 const kern_gemm_t *call);

/* ---- convolutions
 * ---------------------------------------------------------------------------------------------------
 */
typedef struct kern_conv {
    kern_tensor_t out;               /* [B, O, OH, OW], any strides; of one dimension: OH = 1 */
    kern_tensor_t in;                /* [B, C, H, W], any strides */
    kern_tensor_t weight;            /* [O, C / groups, KH, KW], any strides */
    kern_tensor_t bias;              /* address 0: none. [O], added before the activation */
    uint32_t stride[2], dilation[2]; /* rows, columns; >= 1 */
    uint32_t pad[2]; /* zeros before the first row and column; behind the last one as many as out's
                        size needs */
    uint32_t groups; /* >= 1; results of group i see the i-th part of the channels */
    bool is_flipped; /* weights are read with rows and columns in reverse order: gradients,
                        transposed convolutions */
    kern_activation_t activation;
} kern_conv_t;
/* out[b, o, y, x] = act(bias[o] + sum over c, i, j of in[b, c, y * stride + i * dilation - pad,
 * ...] * weight[o, c, i, j]): the cross-correlation that torch calls convolution. Types as in
 * kern_gemm; i8 by i8 gives i32 sums, with ReLU at most. Patterns reach pads up to 255 and borders
 * of tiles up to 127; beyond that VNPU_ERROR_UNSUPPORTED. */
KERN_API vnpu_status_t kern_conv(kern_context_t *context, vnpu_stream_t stream,
                                 const kern_conv_t *call);

typedef struct kern_conv_weight {
    kern_tensor_t out;  /* [O, C / groups, KH, KW]: gradient of the weights */
    kern_tensor_t in;   /* [B, C, H, W] */
    kern_tensor_t grad; /* [B, O, OH, OW]: gradient of the result, of in's float type */
    uint32_t stride[2], dilation[2], pad[2], groups; /* of the convolution */
} kern_conv_weight_t;
/* out[o, c, i, j] = sum over b, y, x of grad[b, o, y, x] * in[b, c, y * stride + i * dilation -
 * pad, ...]. The gradient of the input is kern_conv itself, with flipped weights
 * (kern_conv_t.is_flipped). Limits as in kern_conv. */
KERN_API vnpu_status_t kern_conv_weight(kern_context_t *context, vnpu_stream_t stream,
                                        const kern_conv_weight_t *call);

/* ---- pooling
 * --------------------------------------------------------------------------------------------------------
 */
typedef enum kern_pool_kind { KERN_POOL_MAX, KERN_POOL_SUM } kern_pool_kind_t;
typedef struct kern_pool {
    kern_tensor_t out;     /* [B, C, OH, OW], any strides; of one dimension: OH = 1 */
    kern_tensor_t in;      /* [B, C, H, W], float, any strides */
    kern_tensor_t indices; /* address 0: none. i64, sizes of out: row * W + column of the maximum
                              (KERN_POOL_MAX) */
    kern_pool_kind_t kind;
    uint32_t kernel[2], stride[2], dilation[2],
        pad[2];   /* pad: before the first row and column; as kern_conv_t */
    double scale; /* KERN_POOL_SUM: out = scale * sum of the window, summed in f32, zeros outside */
} kern_pool_t;
/* What lies outside is no maximum; a NaN wins. Windows of more than 128 elements are
 * VNPU_ERROR_UNSUPPORTED. */
KERN_API vnpu_status_t kern_pool(kern_context_t *context, vnpu_stream_t stream,
                                 const kern_pool_t *call);

/* ---- attention
 * ------------------------------------------------------------------------------------------------------
 */
typedef struct kern_attention {
    kern_tensor_t out, q, k,
        v; /* [B, H, S, D] each, any strides; k and v: [B, Hkv, Skv, D], H a multiple of Hkv */
    kern_tensor_t mask;      /* address 0: none. Float bias broadcast to [B, H, S, Skv] */
    kern_tensor_t logsumexp; /* address 0: none. f32 [B, H, S] */
    double scale;
    bool is_causal; /* query i sees keys j <= i (torch's top-left rule) */
} kern_attention_t;
/* softmax(scale * q @ k^T + mask) @ v, keys in blocks with running maximum and sum. A row without
 * any key gives 0. */
/* UNSUPPORTED where no class of cores has both products of the type and all vector functions. */
KERN_API vnpu_status_t kern_attention(kern_context_t *context, vnpu_stream_t stream,
                                      const kern_attention_t *call);

/* False: the cores that multiply the type lack vector functions, so products and softmax have to be
 * calls of their own. A type that no core multiplies is kern_attention's to refuse. */
KERN_API bool kern_has_attention(const kern_context_t *context, vnpu_dtype_t dtype);

/* ---- gathers
 * -------------------------------------------------------------------------------------------------------
 */
/* out[o, i, r] = table[o, index[i], r]: index_select along `dim`, embedding with dim 0. index: i32
 * or i64, 1 dimension. A negative or too large index is VNPU_ERROR_INDEX_OUT_OF_RANGE at the next
 * synchronize. */
KERN_API vnpu_status_t kern_index_select(kern_context_t *context, vnpu_stream_t stream,
                                         const kern_tensor_t *out, const kern_tensor_t *table,
                                         uint32_t dim, const kern_tensor_t *index);

#ifdef __cplusplus
}
#endif
#endif
