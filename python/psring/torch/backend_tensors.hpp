/* Tensors as what libpsring takes, and torch's reductions as its own: what backend.cpp's calls have
 * in common. What is contiguous goes as it lies; what is not, and lists of tensors, go through one
 * array that holds them one after another. */
#ifndef PSRING_TORCH_BACKEND_TENSORS_HPP
#define PSRING_TORCH_BACKEND_TENSORS_HPP

#include "backend_work.hpp"

namespace
{

using c10d::ReduceOp;
using Lists = std::vector<Tensors>;

/* ---- tensors as what the library takes ---- */

struct Values {
    void *data;
    size_t count;
    psring_type type;
};

void check(const at::Tensor &tensor, const char *what)
{
    if (tensor.layout() != at::kStrided)
        fail(PSRING_ERR_UNSUPPORTED,
             std::string(what) + ": the tensor is sparse: call .to_dense()");
    if (!tensor.device().is_cpu())
        fail(PSRING_ERR_UNSUPPORTED,
             std::string(what) + ": the tensor is on " + tensor.device().str() +
                 "; the backend psring takes tensors in the CPU's memory: call .cpu()");
}

/* The library's type for values that are only moved, and how many of it a value has. */
std::pair<psring_type, size_t> type_of(const at::Tensor &tensor)
{
    switch (tensor.scalar_type()) {
    case at::kFloat:
        return {PSRING_FLOAT32, 1};
    case at::kDouble:
        return {PSRING_FLOAT64, 1};
    case at::kHalf:
        return {PSRING_FLOAT16, 1};
    case at::kBFloat16:
        return {PSRING_BFLOAT16, 1};
    case at::kChar:
        return {PSRING_INT8, 1};
    case at::kShort:
        return {PSRING_INT16, 1};
    case at::kInt:
        return {PSRING_INT32, 1};
    case at::kLong:
        return {PSRING_INT64, 1};
#if TORCH_SINCE(3)
    case at::kUInt16:
        return {PSRING_UINT16, 1};
    case at::kUInt32:
        return {PSRING_UINT32, 1};
    case at::kUInt64:
        return {PSRING_UINT64, 1};
#endif
    case at::kComplexHalf:
        return {PSRING_FLOAT16, 2};
    case at::kComplexFloat:
        return {PSRING_FLOAT32, 2};
    case at::kComplexDouble:
        return {PSRING_FLOAT64, 2};
    default:
        return {PSRING_UINT8, tensor.element_size()}; /* bool, and 8-bit floats */
    }
}

Values values_of(const at::Tensor &tensor)
{
    const auto [type, width] = type_of(tensor);
    return {tensor.data_ptr(), (size_t)tensor.numel() * width, type};
}

/* A contiguous tensor with the same values; the tensor itself if it is one. */
at::Tensor flat_copy(const at::Tensor &tensor)
{
    at::NoGradGuard no_grad;
    return tensor.is_contiguous() ? tensor : tensor.contiguous();
}

/* A contiguous tensor that becomes `tensor` when the plan ends: itself, or one that is copied. */
at::Tensor target_of(Plan &plan, const at::Tensor &tensor, bool with_values)
{
    at::NoGradGuard no_grad;
    if (tensor.is_contiguous())
        return tensor;
    const at::Tensor dense =
        with_values ? tensor.contiguous() : at::empty_like(tensor, at::MemoryFormat::Contiguous);
    plan.finish.push_back([tensor, dense] { at::Tensor(tensor).copy_(dense); });
    plan.held.push_back(dense);
    return dense;
}

size_t sum(const std::vector<size_t> &counts)
{
    size_t total = 0;
    for (const size_t count : counts)
        total += count;
    return total;
}

/* Tensors of one type, in one array one after another. */
struct Row {
    at::Tensor flat;
    std::vector<size_t> counts; /* of the library's values, for each tensor */
};

Row row_of(const Tensors &tensors, const at::Tensor &like, const char *what)
{
    Row row;
    int64_t total = 0;
    for (const at::Tensor &tensor : tensors) {
        check(tensor, what);
        if (tensor.scalar_type() != like.scalar_type())
            refuse(std::string(what) + ": its tensors have different types");
        row.counts.push_back(values_of(tensor).count);
        total += tensor.numel();
    }
    row.flat = at::empty({total}, like.options());
    return row;
}

void fill(Row &row, const Tensors &tensors)
{
    at::NoGradGuard no_grad;
    int64_t at = 0;
    for (const at::Tensor &tensor : tensors) {
        row.flat.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor);
        at += tensor.numel();
    }
}

/* Copies the row to the tensors when the plan ends. */
void spread_later(Plan &plan, const Row &row, const Tensors &tensors)
{
    plan.held.push_back(row.flat);
    plan.finish.push_back([flat = row.flat, tensors] {
        int64_t at = 0;
        for (const at::Tensor &tensor : tensors) {
            at::Tensor(tensor).copy_(flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
            at += tensor.numel();
        }
    });
}

/* ---- reductions ---- */

struct Reduction {
    psring_op op;
    bool divide = false; /* whole numbers, at the end */
};

psring_op logical_of(ReduceOp::RedOpType op, const char *what)
{
    switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::MAX:
    case ReduceOp::BOR:
        return PSRING_LOGICAL_OR;
    case ReduceOp::PRODUCT:
    case ReduceOp::MIN:
    case ReduceOp::BAND:
        return PSRING_LOGICAL_AND;
    case ReduceOp::BXOR:
        return PSRING_LOGICAL_XOR;
    default:
        refuse(std::string(what) + ": there is no such reduction of bool");
    }
}

Reduction reduction_of(const ReduceOp &op, const at::Tensor &tensor, const char *what)
{
    const at::ScalarType type = tensor.scalar_type();
    if (type == at::kBool)
        return {logical_of(op, what)};
    const bool whole = at::isIntegralType(type, false), complex = at::isComplexType(type);
    if (!whole && !complex && type_of(tensor).first == PSRING_UINT8)
        fail(PSRING_ERR_UNSUPPORTED,
             std::string(what) + ": there is no reduction of " + c10::toString(type));
    switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::PREMUL_SUM:
        return {PSRING_SUM};
    case ReduceOp::AVG:
        return {whole ? PSRING_SUM : PSRING_MEAN, whole};
    default:
        break;
    }
    if (complex)
        refuse(std::string(what) + ": complex numbers have a sum and a mean only");
    switch (op) {
    case ReduceOp::PRODUCT:
        return {PSRING_PRODUCT};
    case ReduceOp::MIN:
        return {PSRING_MINIMUM};
    case ReduceOp::MAX:
        return {PSRING_MAXIMUM};
    default:
        break;
    }
    if (!whole)
        refuse(std::string(what) + ": BAND, BOR and BXOR take whole numbers, not " +
               c10::toString(type));
    switch (op) {
    case ReduceOp::BAND:
        return {PSRING_BITWISE_AND};
    case ReduceOp::BOR:
        return {PSRING_BITWISE_OR};
    case ReduceOp::BXOR:
        return {PSRING_BITWISE_XOR};
    default:
        refuse(std::string(what) + ": there is no such reduction");
    }
}

/* What PREMUL_SUM multiplies by, first. */
void multiply(const ReduceOp &op, at::Tensor tensor)
{
    if (op != ReduceOp::PREMUL_SUM)
        return;
    const auto *factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK(factor != nullptr, "psring: PREMUL_SUM without its factor");
    at::NoGradGuard no_grad;
    if (factor->tensor_factor.defined())
        tensor.mul_(factor->tensor_factor);
    else
        tensor.mul_(factor->double_factor);
}

/* A copy that may be multiplied, or the tensor itself if there is nothing to do. */
at::Tensor multiplied(const ReduceOp &op, const at::Tensor &tensor)
{
    if (op != ReduceOp::PREMUL_SUM)
        return flat_copy(tensor);
    at::Tensor copy = tensor.contiguous().clone();
    multiply(op, copy);
    return copy;
}

void divide_later(Plan &plan, const Reduction &reduction, const at::Tensor &tensor, int size)
{
    if (reduction.divide)
        plan.finish.insert(plan.finish.begin(),
                           [tensor, size] { at::Tensor(tensor).div_(size, "trunc"); });
}

const at::Tensor &only(const Tensors &tensors, const char *what)
{
    if (tensors.size() != 1)
        refuse(std::string(what) + ": takes one tensor, not " + std::to_string(tensors.size()));
    check(tensors[0], what);
    return tensors[0];
}

const Tensors &only(const Lists &lists, int size, const char *what)
{
    if (lists.size() != 1 || lists[0].size() != (size_t)size)
        refuse(std::string(what) + ": takes one list of " + std::to_string(size) + " tensors");
    return lists[0];
}

} // namespace

#endif
