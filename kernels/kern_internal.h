/*
 * What the families share: the context, errors, the module cache, launches, and tensors reduced to
 * their essence.
 */
#ifndef KERN_INTERNAL_H
#define KERN_INTERNAL_H

#include "kernels/kern.h"
#include "kernels/kern_builder.h"
#include "kernels/kern_cache.h"

typedef enum kern_planning {
    KERN_PLANNING_UNREAD = 0, /* VNPU_PLAN was not looked at yet */
    KERN_PLANNING_MODEL,
    KERN_PLANNING_MEASURE
} kern_planning_t;

struct kern_context {
    int device;
    vnpu_machine_t
        machine; /* as the cores see it that the call at work runs on (kern_class_enter) */
    vnpu_machine_t class_machine[VNPU_MAX_CLASSES];
    uint32_t num_classes;
    kern_cache_t cache;
    uint32_t tag;
    uint64_t programs, launches;
    char detail[512];
    kern_planning_t planning;
    const kern_mapping_t *last_plan;
};

/* Largest reach of an operand inside one program, in elements: strides and increments are 32 bits.
 */
#define KERN_MAX_SPAN ((int64_t)1 << 30)

/* ---- classes of cores ---- */

/*
 * Every family enters the class of cores that its programs run on, and leaves it when it returns:
 * from then on context->machine describes that class and launches go to it. A family whose only
 * engines are vector and DMA (matrix_dtype NONE) runs where the most vector elements a second are,
 * of the classes that have functions of every kind if there is one; one with matrix products, where
 * the most multiply-adds of matrix_dtype are. Equal ones: the first. The class is a function of the
 * chip, the family and the type, all of which are in the program's key or the same for all of them,
 * so the cache holds programs per class. Families may call each other.
 */
uint32_t kern_class_enter(kern_context_t *context, vnpu_dtype_t matrix_dtype);
void kern_class_leave(kern_context_t *context, uint32_t before);
/* Whether the vector engine has functions of the class (kern_cost.h): vector.passes.* above 0. */
bool kern_has_functions(const vnpu_machine_t *machine, uint32_t function_class);
bool kern_has_all_functions(const vnpu_machine_t *machine);
/* The class that kern_class_enter chooses. */
uint32_t kern_class_for(const kern_context_t *context, vnpu_dtype_t matrix_dtype);
/* What launches of this context say: 0 on a chip with one class. */
uint32_t kern_launch_class(const kern_context_t *context);

/* Whether the class at work has no functions for an activation: out = act(out) then follows as a
 * program of its own, on the class that has them. */
bool kern_lacks_activation(const kern_context_t *context, kern_activation_t activation);
vnpu_status_t kern_activate(kern_context_t *context, vnpu_stream_t stream, const kern_tensor_t *out,
                            kern_activation_t activation) __attribute__((warn_unused_result));

/* Sets the detail text and returns `status`. */
vnpu_status_t kern_fail(kern_context_t *context, vnpu_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4), warn_unused_result));
/* The driver's last failure becomes the detail. */
vnpu_status_t kern_fail_driver(kern_context_t *context, vnpu_status_t status, const char *what)
    __attribute__((warn_unused_result));

/* Builds the image and loads it. */
vnpu_status_t kern_load_program(kern_context_t *context, kern_builder_t *builder,
                                vnpu_module_t *out_module) __attribute__((warn_unused_result));
void kern_unload(vnpu_module_t module);
/* Puts a loaded module into the cache; unloads it on failure. */
vnpu_status_t kern_keep_program(kern_context_t *context, const kern_key_t *key,
                                const kern_entry_t *entry, const char *name,
                                const kern_entry_t **out_entry) __attribute__((warn_unused_result));
/* Both: the builder's program as the module of `key`. */
vnpu_status_t kern_add_program(kern_context_t *context, const kern_key_t *key,
                               kern_builder_t *builder, const uint32_t grid[2],
                               const kern_entry_t **out_entry) __attribute__((warn_unused_result));
vnpu_status_t kern_launch(kern_context_t *context, vnpu_stream_t stream, const kern_entry_t *entry,
                          const uint64_t *args, uint32_t num_args)
    __attribute__((warn_unused_result));

/* ---- choosing between programs (kern_plan.h) ---- */

#define KERN_TRIALS   5u /* programs that the simulator compares at most */
#define KERN_NO_TRIAL UINT32_MAX

/* Candidates of one call, the closed form's favourite first. */
typedef struct kern_trial {
    const char *name;
    const void *call;
    void (*generate)(const void *call, uint32_t candidate, kern_builder_t *builder,
                     uint32_t out_grid[2]);
    /* The row of the report. next: KERN_NO_TRIAL when there is no other candidate. */
    void (*describe)(const void *call, const vnpu_machine_t *machine, uint32_t chosen,
                     uint32_t next, kern_mapping_t *out_mapping);
    uint32_t ranked;          /* candidates that there are, 1 to KERN_TRIALS */
    uint32_t count;           /* in: to compare; out: compared, 0 when the closed form decided */
    uint64_t ps[KERN_TRIALS]; /* out: simulated times, 0: not asked */
} kern_trial_t;

/* Whether VNPU_PLAN lets the simulator decide. INVALID_VALUE: neither of its values. */
vnpu_status_t kern_plan_check(kern_context_t *context, bool *out_measures)
    __attribute__((warn_unused_result));
/* Puts a plan of `bytes` in the second of `*count` >= 1 places, KERN_TRIALS at most: the last one
 * makes room for it. */
void kern_plan_second(void *plans, uint32_t *count, const void *plan, size_t bytes);
/* Whether work of so many multiply-adds and cycles is too small for trials: its launch is set-up
 * more than work, and it is soon done on this chip. */
bool kern_plan_is_small(double macs, uint64_t cycles);
/* How many of `count` >= 1 ascending costs are within 10 % of the first, KERN_TRIALS at most. */
uint32_t kern_plan_close(const uint64_t *cycles, uint32_t count);
/* Loads the candidates, keeps the fastest in the cache, with its mapping and that of the runner-up.
 */
vnpu_status_t kern_plan_build(kern_context_t *context, const kern_key_t *key, kern_trial_t *trial,
                              const kern_entry_t **out_entry) __attribute__((warn_unused_result));

/* ---- tensors ---- */

int64_t kern_numel(const kern_tensor_t *tensor);
/* Highest reachable element offset + 1. */
int64_t kern_span(const kern_tensor_t *tensor);
bool kern_same_sizes(const kern_tensor_t *a, const kern_tensor_t *b);
/* "f32 [2, 3]", into text. */
const char *kern_describe(const kern_tensor_t *tensor, char *text, size_t bytes);
const char *kern_dtype_name(vnpu_dtype_t dtype);
bool kern_dtype_is_float(vnpu_dtype_t dtype);
/* UNSUPPORTED unless the matrix unit multiplies a by b: one float type, or 8-bit integers. */
vnpu_status_t kern_check_product(kern_context_t *context, const char *family, vnpu_dtype_t a,
                                 vnpu_dtype_t b, bool *out_is_int8)
    __attribute__((warn_unused_result));
/* INVALID_VALUE unless dims, sizes and strides are in range and the address is there when there are
 * elements. */
vnpu_status_t kern_check_tensor(kern_context_t *context, const char *family, const char *operand,
                                const kern_tensor_t *tensor) __attribute__((warn_unused_result));
/* The same for "out", whose elements must not overlap by a stride of 0. */
vnpu_status_t kern_check_output(kern_context_t *context, const char *family,
                                const kern_tensor_t *tensor) __attribute__((warn_unused_result));
/* f32 or i64 scalar as the 8 bytes of an argument. */
uint64_t kern_arg_f32(double value);
uint64_t kern_arg_i64(int64_t value);

/* ---- iteration spaces ---- */

#define KERN_ITER_OPERANDS 9u

/* Operands over one shape: sizes, and a stride per operand and dimension. */
typedef struct kern_iter {
    uint32_t ndims, num_operands;
    int64_t size[KERN_MAX_DIMS];
    int64_t stride[KERN_ITER_OPERANDS][KERN_MAX_DIMS];
} kern_iter_t;

/* Drops dimensions of size 1, sorts by operand 0's stride (descending, stable) when `sort`, merges
 * dimensions that continue each other in every operand. At least one dimension is left. */
void kern_iter_collapse(kern_iter_t *iter, bool sort);
/*
 * The dimension at which the space must be cut for one program (too many dimensions: the shortest;
 * too long reach: the one that reaches farthest), or -1. *out_part: elements of the part that is
 * peeled off.
 */
int32_t kern_iter_cut(const kern_iter_t *iter, uint32_t max_dims, int64_t *out_part);

#endif
