#include "kernels/kern_expr.h"

#include <string.h>

typedef struct compiler {
    const kern_pointwise_t *call;
    kern_expr_t *expr;
    uint32_t uses[KERN_MAX_NODES]; /* how often a node's value is read */
    int32_t
        fused_into[KERN_MAX_NODES]; /* the node whose instruction computes this one first, or -1 */
    int32_t fused_from[KERN_MAX_NODES]; /* the reverse */
    kern_ref_t value[KERN_MAX_NODES];   /* temporary that holds a node's value */
    bool is_temp_busy[KERN_MAX_NODES + 1];
} compiler_t;

static uint32_t arity(const kern_node_t *node) {
    switch (node->kind) {
    case KERN_NODE_UNARY: return 1;
    case KERN_NODE_BINARY: return 2;
    case KERN_NODE_SELECT: return 3;
    }
    return 0;
}

static bool is_node(uint8_t operand) {
    return operand >= 0x80 && operand < KERN_INDEX;
}

static const char *check_operand(const kern_pointwise_t *call, uint32_t node, uint8_t operand) {
    if (operand == KERN_INDEX) return NULL;
    if (operand < 0x40) return operand < call->num_inputs ? NULL : "an input that is not there";
    if (operand < 0x80)
        return operand - 0x40u < call->num_scalars ? NULL : "a scalar that is not there";
    return operand - 0x80u < node ? NULL : "a node that comes later";
}

static const char *check_node(const kern_pointwise_t *call, uint32_t n) {
    const kern_node_t *node = &call->node[n];
    if (arity(node) == 0) return "a node of unknown kind";
    for (uint32_t i = 0; i < arity(node); i++) {
        const char *reason = check_operand(call, n, node->operand[i]);
        if (reason) return reason;
    }
    bool is_bad_unary = node->kind == KERN_NODE_UNARY && node->func >= VNPU_U_COUNT;
    bool is_bad_binary =
        node->kind == KERN_NODE_BINARY && (node->func == 0 || node->func >= VNPU_B_COUNT);
    return is_bad_unary || is_bad_binary ? "a function that does not exist" : NULL;
}

static const char *check(const kern_pointwise_t *call) {
    if (call->num_inputs > KERN_MAX_INPUTS) return "too many inputs";
    if (call->num_scalars > KERN_MAX_SCALARS) return "too many scalars";
    if (call->num_nodes == 0 || call->num_nodes > KERN_MAX_NODES) return "no nodes, or too many";
    for (uint32_t n = 0; n < call->num_nodes; n++) {
        const char *reason = check_node(call, n);
        if (reason) return reason;
    }
    return NULL;
}

static void count_uses(compiler_t *compiler) {
    const kern_pointwise_t *call = compiler->call;
    for (uint32_t n = 0; n < call->num_nodes; n++) {
        for (uint32_t i = 0; i < arity(&call->node[n]); i++) {
            uint8_t operand = call->node[n].operand[i];
            if (is_node(operand)) compiler->uses[operand - 0x80]++;
        }
    }
}

/* A binary node whose only reader is a binary node becomes the first half of the reader's
 * instruction. */
static void fuse(compiler_t *compiler) {
    const kern_pointwise_t *call = compiler->call;
    for (uint32_t n = 0; n < call->num_nodes; n++) {
        compiler->fused_into[n] = compiler->fused_from[n] = -1;
        if (call->node[n].kind != KERN_NODE_BINARY) continue;
        for (uint32_t i = 0; i < 2 && compiler->fused_from[n] < 0; i++) {
            uint8_t operand = call->node[n].operand[i];
            if (!is_node(operand)) continue;
            uint32_t first = operand - 0x80u;
            bool is_single = call->node[first].kind == KERN_NODE_BINARY &&
                             compiler->uses[first] == 1 && compiler->fused_from[first] < 0;
            if (!is_single) continue;
            compiler->fused_from[n] = (int32_t)first;
            compiler->fused_into[first] = (int32_t)n;
        }
    }
}

static kern_ref_t ref_of(compiler_t *compiler, uint8_t operand) {
    if (operand == KERN_INDEX) {
        compiler->expr->uses_index = true;
        return (kern_ref_t){KERN_REF_INDEX, 0};
    }
    if (operand < 0x40) {
        compiler->expr->uses_input[operand] = true;
        return (kern_ref_t){KERN_REF_INPUT, operand};
    }
    if (operand < 0x80) return (kern_ref_t){KERN_REF_SCALAR, operand - 0x40u};
    return compiler->value[operand - 0x80];
}

/* Source operand i is read by the instruction being made: its temporary is free after the last
 * reader. */
static kern_ref_t read_operand(compiler_t *compiler, uint8_t operand) {
    kern_ref_t ref = ref_of(compiler, operand);
    if (is_node(operand) && --compiler->uses[operand - 0x80] == 0)
        compiler->is_temp_busy[ref.index] = false;
    return ref;
}

static kern_ref_t new_temp(compiler_t *compiler) {
    uint32_t t = 0;
    while (compiler->is_temp_busy[t])
        t++;
    compiler->is_temp_busy[t] = true;
    if (t + 1 > compiler->expr->num_temps) compiler->expr->num_temps = t + 1;
    return (kern_ref_t){KERN_REF_TEMP, t};
}

static void emit_binary(compiler_t *compiler, uint32_t n, kern_expr_insn_t *insn) {
    const kern_node_t *node = &compiler->call->node[n];
    int32_t first = compiler->fused_from[n];
    insn->op = VNPU_OP_V_BINARY;
    if (first < 0) {
        insn->func = node->func;
        for (uint32_t i = 0; i < 2; i++)
            insn->src[i] = read_operand(compiler, node->operand[i]);
        return;
    }
    const kern_node_t *inner = &compiler->call->node[first];
    insn->func = inner->func;
    insn->func2 = node->func;
    for (uint32_t i = 0; i < 2; i++)
        insn->src[i] = read_operand(compiler, inner->operand[i]);
    uint32_t fused_slot = node->operand[0] == KERN_NODE(first) ? 0 : 1;
    if (fused_slot == 1) insn->flags |= VNPU_F_REVERSE2;
    insn->src[2] = read_operand(compiler, node->operand[1 - fused_slot]);
}

static bool is_truth(const kern_pointwise_t *call, const kern_node_t *node) {
    if (node->kind == KERN_NODE_UNARY)
        return node->func >= VNPU_U_NOT && node->func != VNPU_U_BITNOT;
    if (node->kind != KERN_NODE_BINARY) return false;
    if (node->func >= VNPU_B_AND && node->func <= VNPU_B_XOR) {
        for (uint32_t i = 0; i < 2; i++) {
            uint8_t operand = node->operand[i];
            if (operand >= call->num_inputs || call->input[operand].dtype != VNPU_BOOL)
                return false;
        }
        return true;
    }
    return (node->func >= VNPU_B_EQ && node->func <= VNPU_B_GE) || node->func >= VNPU_B_LAND;
}

static void emit_node(compiler_t *compiler, uint32_t n, bool is_last) {
    const kern_node_t *node = &compiler->call->node[n];
    kern_expr_insn_t *insn = &compiler->expr->insn[compiler->expr->num_insns++];
    if (compiler->call->is_integer) insn->flags |= VNPU_F_INTEGER;
    switch (node->kind) {
    case KERN_NODE_UNARY:
        insn->op = VNPU_OP_V_UNARY;
        insn->func = node->func;
        insn->src[0] = read_operand(compiler, node->operand[0]);
        break;
    case KERN_NODE_BINARY: emit_binary(compiler, n, insn); break;
    case KERN_NODE_SELECT:
        insn->op = VNPU_OP_V_SELECT;
        for (uint32_t i = 0; i < 3; i++)
            insn->src[i] = read_operand(compiler, node->operand[i]);
        break;
    }
    insn->dst = is_last ? (kern_ref_t){KERN_REF_OUT, 0} : new_temp(compiler);
    compiler->value[n] = insn->dst;
}

const char *kern_expr_compile(const kern_pointwise_t *call, kern_expr_t *out_expr) {
    memset(out_expr, 0, sizeof *out_expr);
    const char *reason = check(call);
    if (reason) return reason;
    compiler_t compiler = {.call = call, .expr = out_expr};
    count_uses(&compiler);
    fuse(&compiler);
    uint32_t last = call->num_nodes - 1;
    bool needs_truth = call->out.dtype == VNPU_BOOL && !is_truth(call, &call->node[last]);
    for (uint32_t n = 0; n <= last; n++) {
        bool is_dead = n < last && compiler.uses[n] == 0;
        if (compiler.fused_into[n] >= 0 || is_dead) continue;
        emit_node(&compiler, n, n == last && !needs_truth);
    }
    if (needs_truth) {
        kern_expr_insn_t *insn = &out_expr->insn[out_expr->num_insns++];
        *insn = (kern_expr_insn_t){.op = VNPU_OP_V_UNARY,
                                   .func = VNPU_U_NE0,
                                   .flags = call->is_integer ? VNPU_F_INTEGER : 0,
                                   .dst = {KERN_REF_OUT, 0},
                                   .src = {compiler.value[last]}};
    }
    return NULL;
}
