#include "tests/sim/alloc_count.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);
int __wrap_asprintf(char **out, const char *format, ...);

static unsigned long calls, fail_from = ULONG_MAX;
static long live;

void alloc_count_reset(void) {
    calls = 0;
    live = 0;
    fail_from = ULONG_MAX;
}

unsigned long alloc_count(void) {
    return calls;
}

long alloc_live(void) {
    return live;
}

void alloc_fail_from(unsigned long n) {
    fail_from = calls + n;
}

static bool fails(void) {
    return calls++ >= fail_from;
}

static void *counted(void *block) {
    if (block != NULL) live++;
    return block;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size) {
    if (fails()) return NULL;
    void *block = __real_realloc(old, size);
    return old == NULL ? counted(block) : block;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *block) {
    if (block != NULL) live--;
    __real_free(block);
}

char *__wrap_strdup(const char *text) {
    return fails() ? NULL : counted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t length) {
    return fails() ? NULL : counted(__real_strndup(text, length));
}

int __wrap_asprintf(char **out, const char *format, ...) {
    if (fails()) return -1;
    va_list args;
    va_start(args, format);
    int length = vasprintf(out, format, args);
    va_end(args);
    if (length >= 0) live++;
    return length;
}
