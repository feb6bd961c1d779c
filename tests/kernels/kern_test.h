/* Tensors for the kernel tests: strided layouts in device memory, read and written element by
 * element. */
#ifndef KERN_TEST_H
#define KERN_TEST_H

#include <criterion/criterion.h>

#include "kernels/kern.h"
#include "tests/kernels/shim.h"

typedef struct machine_case {
    const char *config, *overrides;
    dev_exec_mode_t mode;
} machine_case_t;

/* default.ini and tiny.ini, one DMA queue, two classes of cores; in program order and in chaos
 * mode. */
extern const machine_case_t test_machines[];
extern const uint32_t test_num_machines;

/* Opens machine case `i`; the context is valid until test_close. */
kern_context_t *test_open(uint32_t i);
void test_close(kern_context_t *context);

uint32_t test_random(void); /* deterministic */
double test_uniform(double a, double b);

/* Dense row-major tensor, or with the given dimension order outermost first (a permutation), filled
 * with random values of its type. */
kern_tensor_t test_tensor(vnpu_dtype_t dtype, uint32_t ndims, const int64_t *size);
kern_tensor_t test_permuted(vnpu_dtype_t dtype, uint32_t ndims, const int64_t *size,
                            const uint32_t *order);
void test_release(kern_tensor_t *tensor);
void test_fill(const kern_tensor_t *tensor, double low, double high);
int64_t test_numel(const kern_tensor_t *tensor);
/* Byte offset of the element with row-major number `linear`. */
int64_t test_offset(const kern_tensor_t *tensor, int64_t linear);
double test_get(const kern_tensor_t *tensor, int64_t linear);
int64_t test_get_int(const kern_tensor_t *tensor, int64_t linear);
void test_set(const kern_tensor_t *tensor, int64_t linear, double value);
/* A view with the same memory: sizes and strides replaced. */
kern_tensor_t test_view(const kern_tensor_t *tensor, uint32_t ndims, const int64_t *size,
                        const int64_t *stride);
/* Asserts that status is VNPU_OK, with the texts of library and device. */
void test_ok(kern_context_t *context, vnpu_status_t status, const char *what);

#endif
