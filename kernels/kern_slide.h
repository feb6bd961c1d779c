/*
 * Sliding windows on the vector unit: pooling and depthwise convolution. A tile of the image with
 * its border lies in the scratchpad; each position of the window is one vector instruction over the
 * whole tile of results.
 *
 * maximum: out = max over the window; with `index`, where it lies: row * width + column of the
 * first one, the last NaN where there are NaNs sum:     out = scale * sum over the window, in f32
 * product: out = act(bias + sum of window * weight): one filter a channel, in f32, multiply and add
 * rounded each
 */
#ifndef KERN_SLIDE_H
#define KERN_SLIDE_H

#include "kernels/kern_internal.h"

typedef enum kern_slide_kind {
    KERN_SLIDE_MAX,
    KERN_SLIDE_SUM,
    KERN_SLIDE_PRODUCT
} kern_slide_kind_t;

enum { SLIDE_B = 0, SLIDE_C, SLIDE_H, SLIDE_W, SLIDE_AXES };

#define KERN_SLIDE_POSITIONS 128 /* of a window, at most: each is an instruction */

typedef struct kern_slide {
    kern_slide_kind_t kind;
    int64_t size[SLIDE_AXES]; /* of the result, >= 1 */
    int64_t in_size[2], kernel[2], stride[2], dilation[2], pad[2];
    int64_t in[SLIDE_AXES], out[SLIDE_AXES], index[SLIDE_AXES]; /* strides */
    int64_t weight[3], bias; /* strides: c, kernel rows, columns; c */
    vnpu_dtype_t in_dtype, out_dtype, weight_dtype, bias_dtype;
    bool has_index, has_bias;
    bool is_flipped; /* the filter's last position meets the window's first */
    kern_activation_t activation;
    double scale;
    vnpu_addr_t at_out, at_in, at_index, at_weight, at_bias;
} kern_slide_t;

/* UNSUPPORTED where a window has too many positions, or does not fit the scratchpad. */
vnpu_status_t kern_slide(kern_context_t *context, vnpu_stream_t stream, const kern_slide_t *call,
                         const char *name) __attribute__((warn_unused_result));
/* Core cycles of the vector unit for all results of one core, by closed form. */
uint64_t kern_slide_cycles(const vnpu_machine_t *machine, const kern_slide_t *call);

#endif
