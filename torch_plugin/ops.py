"""The operator table of the device "vnpu": one row per operator that runs on the chip.

Rows are data. ``gen_ops.py`` turns them into the registrations (C++) and into docs/operators.md; the tests and
``torch_vnpu.coverage`` read them too. An operator without a row falls back to the host (``VNPU_FALLBACK``).

A pointwise row is a list of cases, each a condition and an expression over

* ``x0, x1, ...``: the tensor arguments in the order of the schema (an ``out`` argument is not one of them),
* ``s0, s1, ...``: the other arguments in the order of the schema; strings count as codes (STRING_CODES),
* numbers, and the functions of the vector engine (UNARY, BINARY, ``select``).

The first case whose condition holds is taken; none: the host. A condition is a comma-separated list of
``s0 == 2``, ``s0 < 1``, ``none s0`` and of the class of the promoted type: ``float``, ``int``, ``bool``.
"""

from dataclasses import dataclass, field

UNARY = {
    name: "VNPU_U_" + name.upper()
    for name in (
        "copy neg abs square sign relu floor ceil trunc round recip sqrt rsqrt exp expm1 log log1p sin cos tanh "
        "sigmoid erf silu gelu_erf gelu_tanh softplus not bitnot ne0 isnan isinf isneginf isposinf"
    ).split()
}
BINARY = {
    name: "VNPU_B_" + name.upper()
    for name in (
        "add sub mul div max min pow fmod remainder floordiv atan2 eq ne lt le gt ge and or xor shl shr land lor lxor"
    ).split()
}
# Python keywords cannot name a function in an expression.
ALIASES = {"not_": "not", "and_": "and", "or_": "or", "max_": "max", "min_": "min", "abs_": "abs"}
STRING_CODES = {"none": 0, "tanh": 1, "trunc": 1, "floor": 2}


@dataclass(frozen=True)
class Pointwise:
    """A pointwise operator.

    promote : "common" (type of the operands), "float" (the same, integers become float) or "bool" (computed in
        the type of the operands, result bool).
    dtypes : classes that the chip computes: f (f32, bf16, f16), i (integers), b (bool).
    tensors, scalars : which arguments take part in type promotion (None: every tensor; no scalar).
    """

    op: str
    cases: tuple
    promote: str = "common"
    dtypes: str = "fib"
    tensors: tuple | None = None
    scalars: tuple = ()
    note: str = ""
    family: str = field(default="pointwise", init=False)


@dataclass(frozen=True)
class Kernel:
    """An operator with a handler of its own (csrc/, ``vnpu::ops::<handler>``)."""

    op: str
    handler: str
    family: str
    dtypes: str = "f"
    note: str = ""
    where: str = "device"  # "host": the handler itself takes it there, because torch has no CPU kernel of that name


def _pointwise(op, expr, **kwargs):
    cases = tuple(expr.items()) if isinstance(expr, dict) else (("", expr),)
    return Pointwise(op, cases, **kwargs)


def _float_unary(*names):
    return [_pointwise(f"{name}.out", f"{name}(x0)", promote="float") for name in names]


def _rounding(*names):
    return [_pointwise(f"{name}.out", {"float": f"{name}(x0)", "": "copy(x0)"}, dtypes="fi") for name in names]


def _comparison(*names):
    rows = []
    for name in names:
        rows.append(_pointwise(f"{name}.Tensor_out", f"{name}(x0, x1)", promote="bool"))
        rows.append(_pointwise(f"{name}.Scalar_out", f"{name}(x0, s0)", promote="bool", scalars=(0,)))
    return rows


def _bitwise(*names):
    return [
        _pointwise(f"bitwise_{name}.Tensor_out", f"{name}_(x0, x1)" if name != "xor" else "xor(x0, x1)", dtypes="ib")
        for name in names
    ]


def _logical(*names):
    rows = [_pointwise(f"logical_{name}.out", f"l{name}(x0, x1)", promote="bool") for name in names]
    return [*rows, _pointwise("logical_not.out", "not_(x0)", promote="bool")]


_GELU_ERF_GRAD = (
    "mul(x0, add(mul(add(erf(mul(x1, 0.7071067811865476)), 1.0), 0.5), "
    "mul(x1, mul(exp(mul(square(x1), -0.5)), 0.3989422804014327))))"
)

POINTWISE = [
    # arithmetic
    _pointwise("add.out", {"s0 == 1": "add(x0, x1)", "": "add(x0, mul(x1, s0))"}),
    _pointwise("sub.out", {"s0 == 1": "sub(x0, x1)", "": "sub(x0, mul(x1, s0))"}),
    _pointwise("mul.out", "mul(x0, x1)"),
    _pointwise("div.out", "div(x0, x1)", promote="float"),
    _pointwise(
        "div.out_mode",
        {
            "none s0": ("div(x0, x1)", "float"),
            "s0 == 1, float": "trunc(div(x0, x1))",
            "s0 == 1, int": "div(x0, x1)",
            "s0 == 2": "floordiv(x0, x1)",
        },
    ),
    *(_pointwise(f"floor_divide{form}", "floordiv(x0, x1)", dtypes="fi") for form in ("", "_.Tensor", ".out")),
    _pointwise("remainder.Tensor_out", "remainder(x0, x1)", dtypes="fi"),
    _pointwise("fmod.Tensor_out", "fmod(x0, x1)", dtypes="fi"),
    _pointwise("atan2.out", "atan2(x0, x1)", promote="float"),
    _pointwise("maximum.out", "max_(x0, x1)"),
    _pointwise("minimum.out", "min_(x0, x1)"),
    _pointwise(
        "pow.Tensor_Scalar_out",
        {
            "s0 == 1": "copy(x0)",
            "s0 == 2": "square(x0)",
            "s0 == 3": "mul(square(x0), x0)",
            "s0 == 0.5, float": "sqrt(x0)",
            "s0 == -0.5, float": "rsqrt(x0)",
            "s0 == -1, float": "recip(x0)",
            "s0 == -2, float": "recip(square(x0))",
            "float": "pow(x0, s0)",
        },
        scalars=(0,),
        dtypes="fi",
    ),
    _pointwise("pow.Tensor_Tensor_out", "pow(x0, x1)", dtypes="f"),
    _pointwise("pow.Scalar_out", "pow(s0, x0)", dtypes="f", scalars=(0,)),
    _pointwise("addcmul.out", {"s0 == 1": "add(x0, mul(x1, x2))", "": "add(x0, mul(mul(x1, s0), x2))"}, dtypes="fi"),
    _pointwise("addcdiv.out", {"s0 == 1": "add(x0, div(x1, x2))", "": "add(x0, div(mul(x1, s0), x2))"}, dtypes="f"),
    _pointwise(
        "lerp.Scalar_out",
        {"s0 < 0.5": "add(x0, mul(sub(x1, x0), s0))", "": "sub(x1, mul(sub(x1, x0), sub(1.0, s0)))"},
        dtypes="f",
    ),
    _pointwise(
        "lerp.Tensor_out",
        "select(lt(abs_(x2), 0.5), add(x0, mul(sub(x1, x0), x2)), sub(x1, mul(sub(x1, x0), sub(1.0, x2))))",
        dtypes="f",
    ),
    _pointwise("rsub.Tensor", {"s0 == 1": "sub(x1, x0)", "": "sub(x1, mul(x0, s0))"}),
    # unary
    _pointwise("neg.out", "neg(x0)", dtypes="fi"),
    _pointwise("abs.out", "abs_(x0)", dtypes="fi"),
    _pointwise("sign.out", "sign(x0)", dtypes="fi"),
    _pointwise("sgn.out", "sign(x0)", dtypes="fi"),
    _pointwise("reciprocal.out", "recip(x0)", promote="float"),
    *_float_unary("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "sigmoid", "sqrt", "rsqrt", "erf"),
    *_rounding("floor", "ceil", "trunc", "round"),
    _pointwise(
        "clamp.out",
        {"none s0": "min_(x0, s1)", "none s1": "max_(x0, s0)", "": "min_(max_(x0, s0), s1)"},
        scalars=(0, 1),
        dtypes="fi",
    ),
    _pointwise("clamp_min.out", "max_(x0, s0)", scalars=(0,), dtypes="fi"),
    _pointwise("clamp_max.out", "min_(x0, s0)", scalars=(0,), dtypes="fi"),
    _pointwise("clamp_min.Tensor_out", "max_(x0, x1)", dtypes="fi"),
    _pointwise("clamp_max.Tensor_out", "min_(x0, x1)", dtypes="fi"),
    # activations and their derivatives
    _pointwise("relu", "max_(x0, 0.0)", dtypes="fi"),
    _pointwise("relu_", "max_(x0, 0.0)", dtypes="fi"),
    _pointwise("gelu.out", {"s0 == 0": "gelu_erf(x0)", "s0 == 1": "gelu_tanh(x0)"}, dtypes="f"),
    _pointwise("silu.out", "silu(x0)", dtypes="f"),
    *(_pointwise(f"hardtanh{form}", "min_(max_(x0, s0), s1)", dtypes="fi") for form in ("", "_", ".out")),
    _pointwise("leaky_relu.out", "select(gt(x0, 0.0), x0, mul(x0, s0))", dtypes="f"),
    _pointwise("softplus.out", "select(gt(mul(x0, s0), s1), x0, div(log1p(exp(mul(x0, s0))), s0))", dtypes="f"),
    _pointwise("threshold_backward.grad_input", "select(le(x1, s0), 0.0, x0)", dtypes="f"),
    _pointwise("sigmoid_backward.grad_input", "mul(x0, mul(sub(1.0, x1), x1))", dtypes="f"),
    _pointwise("tanh_backward.grad_input", "mul(x0, sub(1.0, square(x1)))", dtypes="f"),
    _pointwise("silu_backward", "mul(mul(x0, sigmoid(x1)), add(mul(x1, sub(1.0, sigmoid(x1))), 1.0))", dtypes="f"),
    _pointwise(
        "silu_backward.grad_input", "mul(mul(x0, sigmoid(x1)), add(mul(x1, sub(1.0, sigmoid(x1))), 1.0))", dtypes="f"
    ),
    _pointwise("gelu_backward.grad_input", {"s0 == 0": _GELU_ERF_GRAD}, dtypes="f", note="approximate='tanh': host"),
    _pointwise("native_dropout_backward", "mul(mul(x0, x1), s0)", dtypes="f", tensors=(0,)),
    # comparisons and logic
    *_comparison("eq", "ne", "lt", "le", "gt", "ge"),
    *_logical("and", "or", "xor"),
    *_bitwise("and", "or", "xor"),
    _pointwise("bitwise_not.out", {"bool": "not_(x0)", "": "bitnot(x0)"}, dtypes="ib"),
    _pointwise("isnan", "ne(x0, x0)", promote="bool"),
    _pointwise("isposinf.out", {"float": "isposinf(x0)", "": "ne(x0, x0)"}, promote="bool"),
    _pointwise("isneginf.out", {"float": "isneginf(x0)", "": "ne(x0, x0)"}, promote="bool"),
    # selection
    _pointwise("where.self", "select(x0, x1, x2)", tensors=(1, 2)),
    _pointwise("where.self_out", "select(x0, x1, x2)", tensors=(1, 2)),
    _pointwise("masked_fill_.Scalar", "select(x1, s0, x0)", tensors=(0,)),
    _pointwise("masked_fill_.Tensor", "select(x1, x2, x0)", tensors=(0,)),
]

KERNELS = [
    # copies and fills
    Kernel(
        "_copy_from", "copy_from", "copy", "fib", "f64 and complex: storage, copies; a change to or from them: host"
    ),
    Kernel("_copy_from_and_resize", "copy_from_and_resize", "copy", "fib"),
    Kernel("_local_scalar_dense", "local_scalar_dense", "copy", "fib"),
    Kernel("fill_.Scalar", "fill_scalar", "copy", "fib"),
    Kernel("fill_.Tensor", "fill_tensor", "copy", "fib"),
    Kernel("zero_", "zero", "copy", "fib"),
    Kernel("cat.out", "cat_out", "copy", "fib"),
    Kernel("arange.start_out", "arange_out", "copy", "fi"),
    # matrix products
    Kernel("mm.out", "mm_out", "gemm"),
    Kernel("bmm.out", "bmm_out", "gemm"),
    Kernel("addmm.out", "addmm_out", "gemm"),
    Kernel("baddbmm.out", "baddbmm_out", "gemm"),
    Kernel("addmv.out", "addmv_out", "gemm"),
    *(
        Kernel(f"{name}.{form}", handler, "gemm", "f", "bf16 or f16 operands, f32 result")
        for name, handler in (
            ("mm", "mm_dtype"),
            ("bmm", "mm_dtype"),
            ("addmm", "addmm_dtype"),
            ("baddbmm", "addmm_dtype"),
        )
        for form in ("dtype", "dtype_out")
    ),
    Kernel("_int_mm", "int_mm", "gemm", "i", "int8 by int8, exact in int32"),
    Kernel("_int_mm.out", "int_mm", "gemm", "i", "int8 by int8, exact in int32"),
    Kernel("addbmm", "addbmm", "gemm"),
    Kernel("addbmm.out", "addbmm", "gemm"),
    Kernel("addr", "addr", "composite", "fi"),
    Kernel("addr.out", "addr", "composite", "fi"),
    Kernel("dot", "dot", "gemm"),
    Kernel("vdot", "dot", "gemm"),
    # attention
    Kernel(
        "_scaled_dot_product_flash_attention_for_cpu",
        "flash_attention",
        "attention",
        "f",
        "chosen for one float type, 4 dimensions, no dropout, no gradient; else the composite of matrix products",
    ),
    # rows
    Kernel("_softmax.out", "softmax_out", "softmax"),
    Kernel("_log_softmax.out", "log_softmax_out", "softmax"),
    Kernel("_softmax_backward_data.out", "softmax_backward_out", "softmax"),
    Kernel("_log_softmax_backward_data.out", "log_softmax_backward_out", "softmax"),
    Kernel("native_layer_norm", "native_layer_norm", "norm"),
    Kernel("native_batch_norm", "native_batch_norm", "norm"),
    # reductions
    Kernel("sum.IntList_out", "sum_out", "reduction", "fib"),
    Kernel("mean.out", "mean_out", "reduction"),
    Kernel("amax.out", "amax_out", "reduction", "fib"),
    Kernel("amin.out", "amin_out", "reduction", "fib"),
    Kernel("max", "max_all", "reduction", "fib"),
    Kernel("min", "min_all", "reduction", "fib"),
    Kernel("prod", "prod_all", "reduction", "fi"),
    Kernel("prod.int_out", "prod_out", "reduction", "fi"),
    Kernel("any.out", "any_out", "reduction", "fib"),
    Kernel("any.dims_out", "any_dims_out", "reduction", "fib"),
    Kernel("any.all_out", "any_all_out", "reduction", "fib"),
    Kernel("all.out", "all_out", "reduction", "fib"),
    Kernel("all.dims_out", "all_dims_out", "reduction", "fib"),
    Kernel("all.all_out", "all_all_out", "reduction", "fib"),
    Kernel("linalg_vector_norm.out", "vector_norm_out", "reduction"),
    # made of the operators above
    Kernel("var.correction", "var_correction", "composite"),
    Kernel("std.correction", "std_correction", "composite"),
    Kernel("var_mean.correction", "var_mean_correction", "composite"),
    Kernel("std_mean.correction", "std_mean_correction", "composite"),
    Kernel("argmax.out", "argmax_out", "composite", "fib"),
    Kernel("argmin.out", "argmin_out", "composite", "fib"),
    Kernel("max.dim_max", "max_dim_out", "composite", "fib"),
    Kernel("min.dim_min", "min_dim_out", "composite", "fib"),
    Kernel("clamp.Tensor_out", "clamp_tensor_out", "composite", "fi"),
    Kernel("mse_loss.out", "mse_loss_out", "composite"),
    Kernel("tril.out", "tril_out", "composite", "fib"),
    Kernel("triu.out", "triu_out", "composite", "fib"),
    Kernel("native_layer_norm_backward", "native_layer_norm_backward", "composite"),
    Kernel("_native_multi_head_attention", "multi_head_attention", "composite"),
    Kernel("_transformer_encoder_layer_fwd", "transformer_encoder_layer", "composite"),
    # gathers
    Kernel("index_select", "index_select", "index", "fib", "embedding is index_select"),
    Kernel("index_select.out", "index_select_out", "index", "fib"),
    Kernel(
        "index.Tensor_out", "index_tensor_out", "index", "fib", "integer indices of adjacent dimensions; masks: host"
    ),
    # convolutions arrive here; the CPU has none of that name, so the handlers do the host's part themselves
    Kernel("convolution_overrideable", "convolution", "convolution", "f", "three dimensions: host"),
    Kernel(
        "convolution_backward_overrideable",
        "convolution_backward",
        "convolution",
        "f",
        "three dimensions, stride with dilation: host",
    ),
    # pooling
    Kernel("max_pool2d", "max_pool2d", "pooling", "f", "where no gradient is needed: without indices"),
    Kernel("max_pool2d_with_indices.out", "max_pool2d_with_indices_out", "pooling"),
    Kernel("avg_pool2d.out", "avg_pool2d_out", "pooling"),
    Kernel("_adaptive_avg_pool2d", "adaptive_avg_pool2d", "pooling", "f", "windows of unequal size: host"),
    # random
    Kernel("native_dropout", "native_dropout", "random", "f", "the mask is drawn on the host"),
]

ROWS = [*POINTWISE, *KERNELS]

# Random operators draw on the host from a generator seeded with the device generator's seed and offset.
RANDOM_ON_HOST = (
    "normal_ uniform_ random_ random_.from random_.to bernoulli_.float bernoulli_.Tensor exponential_ geometric_ "
    "log_normal_ cauchy_ randperm.generator_out multinomial poisson"
).split()
