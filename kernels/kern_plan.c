#include "kernels/kern_plan.h"

#include <stdlib.h>
#include <string.h>

#include "driver/vnpu_sim.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_profile.h"

/* Stand-in operands lie this far apart, as far as canonical placement puts them. */
#define OPERAND_SHIFT 40u

const kern_mapping_t *kern_last_plan(const kern_context_t *context) {
    return context->last_plan;
}

vnpu_status_t kern_plan_check(kern_context_t *context, bool *out_measures) {
    const char *text = getenv("VNPU_PLAN");
    *out_measures = false;
    if (context->planning == KERN_PLANNING_UNREAD) {
        if (!text || !*text || strcmp(text, "measure") == 0) {
            context->planning = KERN_PLANNING_MEASURE;
        } else if (strcmp(text, "model") == 0) {
            context->planning = KERN_PLANNING_MODEL;
        } else {
            return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                             "VNPU_PLAN=%s: it must be model or measure", text);
        }
    }
    *out_measures = context->planning == KERN_PLANNING_MEASURE &&
                    kern_profile_of(&context->machine)->has_trials;
    return VNPU_OK;
}

void kern_plan_second(void *plans, uint32_t *count, const void *plan, size_t bytes) {
    char *second = (char *)plans + bytes;
    if (*count < KERN_TRIALS) ++*count;
    memmove(second + bytes, second, (*count - 2) * bytes);
    memcpy(second, plan, bytes);
}

bool kern_plan_is_small(double macs, uint64_t cycles) {
    return macs < 4e6 && cycles < 8192;
}

uint32_t kern_plan_close(const uint64_t *cycles, uint32_t count) {
    uint32_t close = 1;
    while (close < count && close < KERN_TRIALS && cycles[close] - cycles[0] <= cycles[0] / 10)
        close++;
    return close;
}

/* ---- trials ---- */

typedef struct loaded {
    kern_entry_t entry;
    uint64_t args[VNPU_MAX_ARGS];
    uint32_t num_args;
} loaded_t;

static vnpu_status_t load(kern_context_t *context, const kern_trial_t *trial, uint32_t candidate,
                          loaded_t *out) {
    *out = (loaded_t){0};
    kern_builder_t builder;
    kern_builder_init(&builder, &context->machine, trial->name);
    trial->generate(trial->call, candidate, &builder, out->entry.grid);
    out->num_args = builder.num_args;
    for (uint32_t a = 0; a < builder.num_args; a++) {
        bool is_pointer = builder.arg_kind[a] != VNPU_ARG_SCALAR;
        out->args[a] = is_pointer ? (uint64_t)(a + 1) << OPERAND_SHIFT : 0;
    }
    vnpu_status_t status = kern_load_program(context, &builder, &out->entry.module);
    kern_builder_fini(&builder);
    return status;
}

static vnpu_status_t time_of(const kern_context_t *context, const loaded_t *program,
                             uint64_t *out_ps) {
    vnpu_launch_config_t config = {.size = sizeof config,
                                   .grid = {program->entry.grid[0], program->entry.grid[1]},
                                   .core_class = kern_launch_class(context)};
    return vnpu_program_time(program->entry.module, &config, program->args, program->num_args,
                             out_ps);
}

/* The first is loaded already: it is `best`. */
static vnpu_status_t compare(kern_context_t *context, kern_trial_t *trial, loaded_t *best,
                             uint32_t *out_chosen) {
    vnpu_status_t status = time_of(context, best, &trial->ps[0]);
    if (status == VNPU_ERROR_NOT_PERMITTED) { /* a device without time */
        context->planning = KERN_PLANNING_MODEL;
        trial->count = 0;
        return VNPU_OK;
    }
    if (status != VNPU_OK) return kern_fail_driver(context, status, trial->name);
    for (uint32_t i = 1; i < trial->count; i++) {
        loaded_t other;
        status = load(context, trial, i, &other);
        if (status != VNPU_OK) return status;
        status = time_of(context, &other, &trial->ps[i]);
        if (status != VNPU_OK) status = kern_fail_driver(context, status, trial->name);
        bool is_better = status == VNPU_OK && trial->ps[i] < trial->ps[*out_chosen];
        kern_unload(is_better ? best->entry.module : other.entry.module);
        if (status != VNPU_OK) return status;
        if (!is_better) continue;
        *best = other;
        *out_chosen = i;
    }
    return VNPU_OK;
}

static vnpu_status_t try_all(kern_context_t *context, kern_trial_t *trial, kern_entry_t *out_entry,
                             uint32_t *out_chosen) {
    *out_entry = (kern_entry_t){0};
    *out_chosen = 0;
    loaded_t best;
    vnpu_status_t status = load(context, trial, 0, &best);
    if (status != VNPU_OK) return status;
    if (trial->count > 1) {
        status = compare(context, trial, &best, out_chosen);
    } else {
        trial->count = 0;
    }
    if (status != VNPU_OK) {
        kern_unload(best.entry.module);
        return status;
    }
    *out_entry = best.entry;
    return VNPU_OK;
}

/* Of those that were timed the fastest other one, else the closed form's. */
static uint32_t runner_up(const kern_trial_t *trial, uint32_t chosen) {
    uint32_t next = chosen == 0 ? 1 : 0;
    for (uint32_t i = 0; i < trial->count; i++) {
        if (i != chosen && trial->ps[i] < trial->ps[next]) next = i;
    }
    return next < trial->ranked ? next : KERN_NO_TRIAL;
}

vnpu_status_t kern_plan_build(kern_context_t *context, const kern_key_t *key, kern_trial_t *trial,
                              const kern_entry_t **out_entry) {
    kern_entry_t entry;
    uint32_t chosen;
    vnpu_status_t status = try_all(context, trial, &entry, &chosen);
    if (status != VNPU_OK) return status;
    uint32_t next = runner_up(trial, chosen);
    kern_mapping_t *mapping = &entry.mapping;
    trial->describe(trial->call, &context->machine, chosen, next, mapping);
    mapping->candidates = trial->count;
    mapping->chosen.measured_ps = trial->ps[chosen];
    if (next != KERN_NO_TRIAL) mapping->next.measured_ps = trial->ps[next];
    return kern_keep_program(context, key, &entry, trial->name, out_entry);
}
