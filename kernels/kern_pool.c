#include "kernels/kern_slide.h"

static vnpu_status_t check_operands(kern_context_t *context, const kern_pool_t *call) {
    const kern_tensor_t *t[3] = {&call->out, &call->in, &call->indices};
    static const char *const name[3] = {"out", "in", "indices"};
    for (int i = 0; i < (call->indices.address ? 3 : 2); i++) {
        vnpu_status_t status = kern_check_tensor(context, "pool", name[i], t[i]);
        if (status == VNPU_OK && i != 1) status = kern_check_output(context, "pool", t[i]);
        if (status != VNPU_OK) return status;
        if (t[i]->ndims != 4)
            return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                             "pool: %s has %u dimensions, 4 are needed", name[i], t[i]->ndims);
    }
    for (int d = 0; d < 2; d++) {
        if (call->stride[d] == 0 || call->dilation[d] == 0 || call->kernel[d] == 0)
            return kern_fail(
                context, VNPU_ERROR_INVALID_VALUE,
                "pool: kernel %u, stride %u and dilation %u along dimension %d must be at least 1",
                call->kernel[d], call->stride[d], call->dilation[d], d);
    }
    return VNPU_OK;
}

static vnpu_status_t check_call(kern_context_t *context, const kern_pool_t *call) {
    vnpu_status_t status = check_operands(context, call);
    if (status != VNPU_OK) return status;
    const kern_tensor_t *o = &call->out, *in = &call->in, *index = &call->indices;
    bool is_right = o->size[0] == in->size[0] && o->size[1] == in->size[1];
    if (index->address)
        is_right = is_right && kern_same_sizes(o, index) && index->dtype == VNPU_I64 &&
                   call->kind == KERN_POOL_MAX;
    if (!is_right) {
        char ti[160], to[160], tx[160];
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                         "pool: operands do not agree: out %s, in %s, indices %s",
                         kern_describe(o, to, sizeof to), kern_describe(in, ti, sizeof ti),
                         index->address ? kern_describe(index, tx, sizeof tx) : "none");
    }
    if (!kern_dtype_is_float(in->dtype) || !kern_dtype_is_float(o->dtype))
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED, "pool: windows of %s to %s",
                         kern_dtype_name(in->dtype), kern_dtype_name(o->dtype));
    return VNPU_OK;
}

static vnpu_status_t run_pool(kern_context_t *context, vnpu_stream_t stream,
                              const kern_pool_t *call) {
    vnpu_status_t status = check_call(context, call);
    if (status != VNPU_OK || kern_numel(&call->out) == 0) return status;
    if (kern_numel(&call->in) == 0)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "pool: windows over an empty image");
    kern_slide_t slide = {.kind = call->kind == KERN_POOL_MAX ? KERN_SLIDE_MAX : KERN_SLIDE_SUM,
                          .in_dtype = call->in.dtype,
                          .out_dtype = call->out.dtype,
                          .has_index = call->indices.address != 0,
                          .scale = call->scale,
                          .at_out = call->out.address,
                          .at_in = call->in.address,
                          .at_index = call->indices.address};
    for (uint32_t x = 0; x < SLIDE_AXES; x++) {
        slide.size[x] = call->out.size[x];
        slide.out[x] = call->out.size[x] > 1 ? call->out.stride[x] : 0;
        slide.in[x] = call->in.size[x] > 1 ? call->in.stride[x] : 0;
        if (slide.has_index) slide.index[x] = call->out.size[x] > 1 ? call->indices.stride[x] : 0;
    }
    for (int d = 0; d < 2; d++) {
        slide.in_size[d] = call->in.size[2 + d];
        slide.kernel[d] = call->kernel[d];
        slide.stride[d] = call->stride[d];
        slide.dilation[d] = call->dilation[d];
        slide.pad[d] = call->pad[d];
    }
    return kern_slide(context, stream, &slide,
                      call->kind == KERN_POOL_MAX ? "max_pool" : "sum_pool");
}

vnpu_status_t kern_pool(kern_context_t *context, vnpu_stream_t stream, const kern_pool_t *call) {
    uint32_t before = kern_class_enter(context, VNPU_DTYPE_NONE);
    vnpu_status_t status = run_pool(context, stream, call);
    kern_class_leave(context, before);
    return status;
}
