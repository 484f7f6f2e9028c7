/* The backend "psring" of torch.distributed: a c10d::Backend over libpsring's C API, for tensors in
 * the CPU's memory. _compile.py compiles this file when it is first used, and _backend.py calls
 * create(). */
#include "backend_tensors.hpp"

namespace
{

using c10d::OpType;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/* ---- what torch's versions differ in ---- */

/* Earlier versions, 2.6 for one, have no names of their own for these two. */
template <typename Type> constexpr Type allgather_into_coalesced()
{
    if constexpr (requires { Type::ALLGATHER_INTO_TENSOR_COALESCED; })
        return Type::ALLGATHER_INTO_TENSOR_COALESCED;
    else
        return Type::COALESCED;
}
template <typename Type> constexpr Type reduce_scatter_coalesced()
{
    if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; })
        return Type::REDUCE_SCATTER_TENSOR_COALESCED;
    else
        return Type::COALESCED;
}

/* ---- the backend ---- */

constexpr uint32_t MONITOR_TAG = PSRING_TAG_MAX; /* of a monitored barrier's messages */

class PsringBackend : public c10d::Backend
{
  public:
    PsringBackend(std::shared_ptr<Communicator> comm, psring_group *group, bool owned, int rank,
                  int size, milliseconds timeout)
        : Backend(rank, size), comm_(std::move(comm)), group_(group), owned_(owned),
          options_(c10::make_intrusive<Options>("psring", timeout))
    {
    }
    ~PsringBackend() override
    {
        try {
            PsringBackend::shutdown();
        } catch (...) { /* nobody is left to be told */
        }
    }

    const std::string getBackendName() const override
    {
        return "psring";
    }
    c10::intrusive_ptr<Options> getBackendOptions() OVERRIDES
    {
        return options_;
    }
    void setTimeout(milliseconds timeout) OVERRIDES
    {
        options_->timeout = timeout;
    }
    uint64_t getSequenceNumberForGroup() override
    {
        return number_;
    }
    void setSequenceNumberForGroup() override
    {
    }

    void shutdown() OVERRIDES
    {
        if (comm_ == nullptr)
            return;
        without_gil([&] {
            if (!comm_->closed()) {
                comm_->drain(group_);
                if (owned_)
                    psring_group_free(&group_);
            }
            comm_.reset(); /* the last group closes the communicator */
        });
    }
    void abort() OVERRIDES
    {
        if (comm_ != nullptr && !comm_->closed() &&
            psring_revoke(group_, "the group was aborted") != PSRING_OK)
            TORCH_WARN("psring: ", psring_err_detail());
    }

    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &o) override
    {
        const int root = root_of(o.rootRank, "broadcast");
        const at::Tensor &tensor = only(tensors, "broadcast");
        Plan plan;
        plan.results = tensors;
        const at::Tensor data = target_of(plan, tensor, rank_ == root);
        plan.starts.push_back([this, v = values_of(data), root](auto call, auto request) {
            return psring_broadcast(group_, v.data, v.count, v.type, root, call, request);
        });
        return run(OpType::BROADCAST, "broadcast", tensors, std::move(plan), o.timeout);
    }

    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &o) override
    {
        return all_reduce(OpType::ALLREDUCE, "all_reduce", tensors, o);
    }
    WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &o) override
    {
        return all_reduce(OpType::ALLREDUCE_COALESCED, "all_reduce", tensors, o);
    }
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &) override
    {
        only(tensors, "all_reduce");
        refuse("all_reduce: the tensor is sparse: call .to_dense()");
    }

    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &o) override
    {
        const int root = root_of(o.rootRank, "reduce");
        const at::Tensor &tensor = only(tensors, "reduce");
        const Reduction reduction = reduction_of(o.reduceOp, tensor, "reduce");
        Plan plan;
        plan.results = tensors;
        const bool here = rank_ == root;
        at::Tensor data = here ? target_of(plan, tensor, true) : multiplied(o.reduceOp, tensor);
        if (here) {
            multiply(o.reduceOp, data);
            divide_later(plan, reduction, data, size_);
        }
        plan.held.push_back(data);
        plan.starts.push_back(
            [=, this, v = values_of(data), op = reduction.op](auto call, auto request) {
                return psring_reduce(group_, v.data, here ? v.data : nullptr, v.count, v.type, op,
                                     root, call, request);
            });
        return run(OpType::REDUCE, "reduce", tensors, std::move(plan), o.timeout);
    }

    WorkPtr allgather(Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &o) override
    {
        const at::Tensor &input = only(inputs, "all_gather");
        Plan plan;
        plan.results = only(outputs, size_, "all_gather");
        gather_to_list(plan, plan.results, input, "all_gather");
        return run(OpType::ALLGATHER, "all_gather", inputs, std::move(plan), o.timeout);
    }
    WorkPtr allgather_coalesced(Lists &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &o) override
    {
        if (outputs.size() != (size_t)size_)
            refuse("all_gather: takes a list of tensors for each rank");
        Plan plan;
        for (size_t i = 0; i < inputs.size(); i++) {
            Tensors list;
            for (const Tensors &of_rank : outputs) {
                if (of_rank.size() != inputs.size())
                    refuse("all_gather: lists have different lengths");
                list.push_back(of_rank[i]);
            }
            check(inputs[i], "all_gather");
            gather_to_list(plan, list, inputs[i], "all_gather");
            plan.results.insert(plan.results.end(), list.begin(), list.end());
        }
        return run(OpType::ALLGATHER_COALESCED, "all_gather", inputs, std::move(plan), o.timeout);
    }
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &o) override
    {
        Tensors outputs = {output}, inputs = {input};
        return all_gather_whole(OpType::_ALLGATHER_BASE, outputs, inputs, o);
    }
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &o) override
    {
        return all_gather_whole(allgather_into_coalesced<OpType>(), outputs, inputs, o);
    }

    WorkPtr gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &o) override
    {
        const int root = root_of(o.rootRank, "gather");
        const at::Tensor &input = only(inputs, "gather");
        const at::Tensor data = flat_copy(input);
        Plan plan;
        plan.held.push_back(data);
        void *receive = nullptr;
        if (rank_ == root) {
            plan.results = only(outputs, size_, "gather");
            for (const at::Tensor &output : plan.results)
                if (output.numel() != input.numel())
                    refuse("gather: tensors have different sizes");
            const Row row = row_of(plan.results, input, "gather");
            spread_later(plan, row, plan.results);
            receive = row.flat.data_ptr();
        } else if (!outputs.empty() && !outputs[0].empty()) {
            refuse("gather: outputs are given on the root alone");
        }
        plan.starts.push_back([=, this, v = values_of(data)](auto call, auto request) {
            return psring_gather(group_, v.data, receive, v.count, v.type, root, call, request);
        });
        return run(OpType::GATHER, "gather", inputs, std::move(plan), o.timeout);
    }

    WorkPtr scatter(Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &o) override
    {
        const int root = root_of(o.rootRank, "scatter");
        const at::Tensor &output = only(outputs, "scatter");
        Plan plan;
        plan.results = outputs;
        const at::Tensor data = target_of(plan, output, false);
        void *send = nullptr;
        if (rank_ == root) {
            const Tensors &list = only(inputs, size_, "scatter");
            for (const at::Tensor &input : list)
                if (input.numel() != output.numel())
                    refuse("scatter: tensors have different sizes");
            Row row = row_of(list, output, "scatter");
            fill(row, list);
            plan.held.push_back(row.flat);
            send = row.flat.data_ptr();
        } else if (!inputs.empty() && !inputs[0].empty()) {
            refuse("scatter: inputs are given on the root alone");
        }
        plan.starts.push_back([=, this, v = values_of(data)](auto call, auto request) {
            return psring_scatter(group_, send, v.data, v.count, v.type, root, call, request);
        });
        return run(OpType::SCATTER, "scatter", rank_ == root ? inputs[0] : outputs, std::move(plan),
                   o.timeout);
    }

    WorkPtr reduce_scatter(Tensors &outputs, Lists &inputs,
                           const c10d::ReduceScatterOptions &o) override
    {
        const at::Tensor &output = only(outputs, "reduce_scatter");
        const Tensors &list = only(inputs, size_, "reduce_scatter");
        const Reduction reduction = reduction_of(o.reduceOp, output, "reduce_scatter");
        Plan plan;
        plan.results = outputs;
        const at::Tensor data = target_of(plan, output, false);
        divide_later(plan, reduction, data, size_);
        Row row = row_of(list, output, "reduce_scatter");
        if (row.counts[(size_t)rank_] != values_of(output).count)
            refuse("reduce_scatter: the output has another size than this rank's input");
        fill(row, list);
        multiply(o.reduceOp, row.flat);
        plan.held.push_back(row.flat);
        plan.starts.push_back([this, send = row.flat.data_ptr(), counts = row.counts,
                               v = values_of(data), op = reduction.op](auto call, auto request) {
            psring_call with = *call;
            with.counts = counts.data();
            return psring_reduce_scatter(group_, send, v.data, 0, v.type, op, &with, request);
        });
        return run(OpType::REDUCE_SCATTER, "reduce_scatter", list, std::move(plan), o.timeout);
    }
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &o) override
    {
        Tensors outputs = {output}, inputs = {input};
        return reduce_scatter_whole(OpType::_REDUCE_SCATTER_BASE, outputs, inputs, o);
    }
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &o) override
    {
        return reduce_scatter_whole(reduce_scatter_coalesced<OpType>(), outputs, inputs, o);
    }

    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_rows,
                          std::vector<int64_t> &input_rows, const c10d::AllToAllOptions &o) override
    {
        check(output, "all_to_all");
        check(input, "all_to_all");
        if (output.scalar_type() != input.scalar_type())
            refuse("all_to_all: its tensors have different types");
        Plan plan;
        plan.results = {output};
        const at::Tensor send = flat_copy(input), receive = target_of(plan, output, false);
        plan.held.push_back(send);
        exchange(plan, send, counts_of(send, input_rows), receive, counts_of(receive, output_rows));
        return run(OpType::ALLTOALL_BASE, "all_to_all", {input}, std::move(plan), o.timeout);
    }
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &o) override
    {
        if (outputs.size() != (size_t)size_ || inputs.size() != (size_t)size_)
            refuse("all_to_all: takes two lists of " + std::to_string(size_) + " tensors");
        Row send = row_of(inputs, inputs[0], "all_to_all");
        const Row receive = row_of(outputs, inputs[0], "all_to_all");
        fill(send, inputs);
        Plan plan;
        plan.results = outputs;
        plan.held.push_back(send.flat);
        spread_later(plan, receive, outputs);
        exchange(plan, send.flat, send.counts, receive.flat, receive.counts);
        return run(OpType::ALLTOALL, "all_to_all", inputs, std::move(plan), o.timeout);
    }

    WorkPtr barrier(const c10d::BarrierOptions &o) override
    {
        Plan plan;
        plan.starts.push_back(
            [this](auto call, auto request) { return psring_barrier(group_, call, request); });
        return run(OpType::BARRIER, "barrier", {}, std::move(plan), o.timeout);
    }

    WorkPtr send(Tensors &tensors, int to, int tag) override
    {
        const at::Tensor data = flat_copy(only(tensors, "send"));
        Plan plan;
        plan.results = tensors;
        plan.held.push_back(data);
        const Values v = values_of(data);
        /* As with Gloo, a small message leaves whether it is received yet or not. */
        plan.buffered = data.nbytes() <= PSRING_BUFFERED_MAX;
        plan.starts.push_back([=, this, tag = tag_of(tag, "send")](auto call, auto request) {
            return psring_send(group_, v.data, v.count, v.type, to, tag, call, request);
        });
        return run(OpType::SEND, "send", tensors, std::move(plan));
    }
    WorkPtr recv(Tensors &tensors, int from, int tag) override
    {
        return receive(OpType::RECV, "recv", tensors, from, tag);
    }
    WorkPtr recvAnysource(Tensors &tensors, int tag) override
    {
        return receive(OpType::RECVANYSOURCE, "recvAnySource", tensors, PSRING_ANY_RANK, tag);
    }

    /* Rank 0 hears of all others, and then tells them. Who does not come breaks the group: its
     * messages are still awaited. */
    void monitoredBarrier(const c10d::BarrierOptions &o, bool wait_all_ranks) override
    {
        check_alive("monitored_barrier");
        const milliseconds timeout =
            o.timeout == c10d::kUnsetTimeout ? options_->timeout : o.timeout;
        if (rank_ == 0)
            hear_all(timeout, wait_all_ranks);
        else
            be_heard(timeout);
    }

  private:
    void check_alive(const char *what) const
    {
        if (comm_ == nullptr || comm_->closed())
            fail(PSRING_ERR_BROKEN, std::string(what) + ": the process group was destroyed");
    }

    /* A message without values of a monitored barrier. */
    psring_err signal(int to, psring_request **ret_request)
    {
        psring_call call = {};
        call.size = sizeof call;
        call.buffered = true;
        return psring_send(group_, nullptr, 0, PSRING_UINT8, to, MONITOR_TAG, &call, ret_request);
    }
    psring_err await_signal(int from, int64_t deadline_ms, psring_request **ret_request)
    {
        psring_call call = {};
        call.size = sizeof call;
        call.deadline_ms = deadline_ms;
        return psring_receive(group_, nullptr, 0, PSRING_UINT8, from, MONITOR_TAG, &call,
                              ret_request);
    }

    void hear_all(milliseconds timeout, bool wait_all_ranks)
    {
        if (timeout.count() <= 0)
            fail(PSRING_ERR_TIMEOUT, "Rank 0 timed out in monitoredBarrier");
        const auto end = std::chrono::steady_clock::now() + timeout;
        std::vector<psring_request *> heard((size_t)size_, nullptr);
        std::vector<int> missing;
        std::exception_ptr error;
        for (int r = 1; r < size_ && error == nullptr; r++)
            if (const psring_err err = await_signal(r, PSRING_FOREVER, &heard[(size_t)r]);
                err != PSRING_OK)
                error = failure(err, "monitored_barrier");
        for (int r = 1; r < size_ && error == nullptr && (missing.empty() || wait_all_ranks); r++) {
            const auto left =
                std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
            const psring_err err =
                psring_wait(heard[(size_t)r], std::max<int64_t>(0, left.count()));
            if (err == PSRING_ERR_BUSY)
                missing.push_back(r);
            else if (err != PSRING_OK)
                error = failure(err, "monitored_barrier");
        }
        if (!missing.empty()) {
            std::string line = missing.size() > 1 ? "Ranks " : "Rank ";
            for (size_t i = 0; i < missing.size(); i++)
                line += (i > 0 ? ", " : "") + std::to_string(missing[i]);
            line +=
                " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) + " ms";
            if (psring_revoke(group_, line.c_str()) != PSRING_OK)
                line += std::string(", and the others were not told: ") + psring_err_detail();
            error = exception_of(PSRING_ERR_TIMEOUT, line);
        }
        for (psring_request *&request : heard)
            psring_request_free(&request);
        for (int r = 1; r < size_ && error == nullptr; r++)
            if (const psring_err err = signal(r, nullptr); err != PSRING_OK)
                error = failure(err, "monitored_barrier");
        if (error != nullptr)
            std::rethrow_exception(error);
    }
    void be_heard(milliseconds timeout)
    {
        psring_err err = signal(0, nullptr);
        if (err == PSRING_OK) /* twice: rank 0 may have begun that much later */
            err = await_signal(0, std::max<int64_t>(1, 2 * timeout.count()), nullptr);
        if (err != PSRING_OK)
            std::rethrow_exception(
                failure(err, ("Rank " + std::to_string(rank_) +
                              " successfully reached monitoredBarrier, but received errors while "
                              "waiting for send/recv from rank 0")
                                 .c_str()));
    }
    std::exception_ptr failure(psring_err err, const char *what) const
    {
        return failure_of(err, what, group_, comm_->world());
    }

    int root_of(int64_t root, const char *what) const
    {
        if (root < 0 || root >= size_)
            refuse(std::string(what) + ": there is no rank " + std::to_string(root) + " among " +
                   std::to_string(size_));
        return (int)root;
    }
    static uint32_t tag_of(int tag, const char *what)
    {
        if (tag < 0)
            refuse(std::string(what) + ": the tag " + std::to_string(tag) + " is below 0");
        return (uint32_t)tag;
    }

    WorkPtr all_reduce(OpType type, const char *what, Tensors &tensors,
                       const c10d::AllreduceOptions &o)
    {
        Plan plan;
        plan.results = tensors;
        for (const at::Tensor &tensor : tensors) {
            check(tensor, what);
            const Reduction reduction = reduction_of(o.reduceOp, tensor, what);
            const at::Tensor data = target_of(plan, tensor, true);
            multiply(o.reduceOp, data);
            divide_later(plan, reduction, data, size_);
            plan.starts.push_back(
                [this, v = values_of(data), op = reduction.op](auto call, auto request) {
                    return psring_all_reduce(group_, v.data, v.data, v.count, v.type, op, call,
                                             request);
                });
        }
        return run(type, what, tensors, std::move(plan), o.timeout);
    }

    void gather_to_list(Plan &plan, const Tensors &list, const at::Tensor &input, const char *what)
    {
        const at::Tensor data = flat_copy(input);
        const Row row = row_of(list, input, what);
        if (row.counts[(size_t)rank_] != values_of(data).count)
            refuse(std::string(what) + ": this rank's output has another size than its input");
        plan.held.push_back(data);
        spread_later(plan, row, list);
        plan.starts.push_back([this, v = values_of(data), counts = row.counts,
                               receive = row.flat.data_ptr()](auto call, auto request) {
            psring_call with = *call;
            with.counts = counts.data();
            return psring_all_gather(group_, v.data, receive, 0, v.type, &with, request);
        });
    }

    /* Pairs of a rank's part and the whole. */
    void check_pairs(const Tensors &wholes, const Tensors &parts, const char *what) const
    {
        if (wholes.size() != parts.size())
            refuse(std::string(what) + ": there are not as many outputs as inputs");
        for (size_t i = 0; i < wholes.size(); i++) {
            check(wholes[i], what);
            check(parts[i], what);
            if (wholes[i].scalar_type() != parts[i].scalar_type())
                refuse(std::string(what) + ": its tensors have different types");
            if (wholes[i].numel() != parts[i].numel() * size_)
                refuse(std::string(what) + ": " + std::to_string(wholes[i].numel()) +
                       " values are not " + std::to_string(size_) + " times " +
                       std::to_string(parts[i].numel()));
        }
    }

    WorkPtr all_gather_whole(OpType type, Tensors &outputs, Tensors &inputs,
                             const c10d::AllgatherOptions &o)
    {
        check_pairs(outputs, inputs, "all_gather");
        Plan plan;
        plan.results = outputs;
        for (size_t i = 0; i < outputs.size(); i++) {
            const at::Tensor data = flat_copy(inputs[i]);
            const at::Tensor whole = target_of(plan, outputs[i], false);
            plan.held.push_back(data);
            plan.starts.push_back([this, v = values_of(data),
                                   receive = whole.data_ptr()](auto call, auto request) {
                return psring_all_gather(group_, v.data, receive, v.count, v.type, call, request);
            });
        }
        return run(type, "all_gather", inputs, std::move(plan), o.timeout);
    }

    WorkPtr reduce_scatter_whole(OpType type, Tensors &outputs, Tensors &inputs,
                                 const c10d::ReduceScatterOptions &o)
    {
        check_pairs(inputs, outputs, "reduce_scatter");
        Plan plan;
        plan.results = outputs;
        for (size_t i = 0; i < outputs.size(); i++) {
            const Reduction reduction = reduction_of(o.reduceOp, outputs[i], "reduce_scatter");
            const at::Tensor data = multiplied(o.reduceOp, inputs[i]);
            const at::Tensor part = target_of(plan, outputs[i], false);
            divide_later(plan, reduction, part, size_);
            plan.held.push_back(data);
            plan.starts.push_back([this, send = data.data_ptr(), v = values_of(part),
                                   op = reduction.op](auto call, auto request) {
                return psring_reduce_scatter(group_, send, v.data, v.count, v.type, op, call,
                                             request);
            });
        }
        return run(type, "reduce_scatter", inputs, std::move(plan), o.timeout);
    }

    /* The library's values that go to each rank: so many rows, or equal parts if none are told. */
    std::vector<size_t> counts_of(const at::Tensor &tensor, const std::vector<int64_t> &rows) const
    {
        const size_t all = values_of(tensor).count;
        std::vector<size_t> counts((size_t)size_, all / (size_t)size_);
        if (rows.empty()) {
            if (tensor.dim() > 0 && tensor.size(0) % size_ != 0)
                refuse("all_to_all: the tensor's first dimension is not a multiple of " +
                       std::to_string(size_));
            return counts;
        }
        const int64_t height = tensor.dim() > 0 ? tensor.size(0) : 1;
        int64_t told = 0;
        for (const int64_t n : rows)
            told += n;
        if (rows.size() != (size_t)size_ || told != height)
            refuse("all_to_all: the sizes do not add up to the tensor's first dimension");
        for (size_t r = 0; r < rows.size(); r++)
            counts[r] = height > 0 ? all / (size_t)height * (size_t)rows[r] : 0;
        return counts;
    }
    void exchange(Plan &plan, const at::Tensor &send, const std::vector<size_t> &send_counts,
                  const at::Tensor &receive, const std::vector<size_t> &receive_counts)
    {
        if (sum(send_counts) != values_of(send).count ||
            sum(receive_counts) != values_of(receive).count)
            refuse("all_to_all: the tensor does not have equal parts for all ranks");
        plan.starts.push_back(
            [=, this, v = values_of(send), r = values_of(receive)](auto call, auto request) {
                return psring_all_to_all_v(group_, v.data, send_counts.data(), r.data,
                                           receive_counts.data(), v.type, call, request);
            });
    }

    WorkPtr receive(OpType type, const char *what, Tensors &tensors, int from, int tag)
    {
        const at::Tensor &tensor = only(tensors, what);
        Plan plan;
        plan.results = tensors;
        plan.any_source = from == PSRING_ANY_RANK;
        const at::Tensor data = target_of(plan, tensor, plan.any_source);
        plan.starts.push_back(
            [=, this, v = values_of(data), tag = tag_of(tag, what)](auto call, auto request) {
                return psring_receive(group_, v.data, v.count, v.type, from, tag, call, request);
            });
        return run(type, what, tensors, std::move(plan));
    }

    WorkPtr run(OpType type, const char *what, const Tensors &inputs, Plan plan,
                milliseconds timeout = c10d::kUnsetTimeout)
    {
        check_alive(what);
        if (timeout == c10d::kUnsetTimeout)
            timeout = options_->timeout;
        const bool alone =
            type == OpType::SEND || type == OpType::RECV || type == OpType::RECVANYSOURCE;
        if (!alone)
            number_++;
        const std::string title = std::string("psring:") + what;
        const auto operation =
            std::make_shared<Operation>(*comm_, group_, comm_->world(), what, std::move(plan));
        auto work = c10::make_intrusive<PsringWork>(operation, rank_, type, title.c_str(), inputs,
                                                    number_.load(), timeout);
        comm_->begin(operation);
        try {
            operation->start(timeout);
        } catch (...) {
            comm_->end(operation.get());
            throw;
        }
        work->started = true;
        return work;
    }

    std::shared_ptr<Communicator> comm_;
    psring_group *group_;
    const bool owned_;
    std::atomic<uint64_t> number_{0};
    const c10::intrusive_ptr<Options> options_;
};

/* ---- making one ---- */

std::mutex all_lock;
std::vector<std::weak_ptr<Communicator>>
    all; /* [0]: torch's default group, from which others come */

struct StoreContext {
    c10::intrusive_ptr<c10d::Store> store;
    std::string failure;
};

psring_err store_put(void *context, const char *name, const void *value, size_t bytes)
{
    auto *c = (StoreContext *)context;
    const auto *from = (const uint8_t *)value;
    try {
        c->store->set(name, std::vector<uint8_t>(from, from + bytes));
        return PSRING_OK;
    } catch (const std::exception &e) {
        c->failure = e.what();
        return PSRING_ERR_IO;
    }
}

psring_err store_get(void *context, const char *name, int64_t timeout_ms, void *ret_value,
                     size_t room, size_t *ret_bytes)
{
    auto *c = (StoreContext *)context;
    try {
        c->store->wait({name}, milliseconds(timeout_ms));
        std::vector<uint8_t> value = c->store->get(name);
        *ret_bytes = value.size();
        std::memcpy(ret_value, value.data(), std::min(room, value.size()));
        explicit_bzero(value.data(), value.size());
        return PSRING_OK;
    } catch (const std::exception &e) {
        c->failure = e.what();
        return PSRING_ERR_TIMEOUT;
    }
}

/* A process group with a communicator of its own. interface, sharing: psring_options; "": none. */
c10::intrusive_ptr<c10d::Backend> create(const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                         int size, milliseconds timeout, milliseconds deadline,
                                         const std::string &interface, const std::string &sharing,
                                         const std::string &transport, const std::string &host,
                                         bool is_default)
{
    StoreContext context = {store, ""};
    psring_store functions = {};
    functions.size = sizeof functions;
    functions.context = &context;
    functions.put = store_put;
    functions.get = store_get;
    const auto text = [](const std::string &s) { return s.empty() ? nullptr : s.c_str(); };
    psring_options options = {};
    options.size = sizeof options;
    options.ranks = size;
    options.rank = rank;
    options.host = text(host);
    options.interface = text(interface);
    options.deadline_ms = deadline.count();
    options.join_deadline_ms = std::max<int64_t>(1, timeout.count());
    options.transport = text(transport);
    options.sharing = text(sharing);
    options.store = &functions;
    std::shared_ptr<Communicator> comm;
    try {
        comm = std::make_shared<Communicator>(options, sharing);
    } catch (const c10::Error &e) {
        if (context.failure.empty())
            throw;
        fail(PSRING_ERR_IO, std::string(e.what_without_backtrace()) + ": " + context.failure);
    }
    {
        std::lock_guard<std::mutex> lock(all_lock);
        if (all.empty())
            all.emplace_back();
        if (is_default)
            all[0] = comm;
        else
            all.push_back(comm);
    }
    psring_group *group = comm->world();
    return c10::make_intrusive<PsringBackend>(std::move(comm), group, false, rank, size, timeout);
}

/* A process group of some ranks of the default one; None if that one is not psring's. Only these
 * ranks call it. */
c10::intrusive_ptr<c10d::Backend> create_from_default(const std::vector<int> &ranks, int rank,
                                                      int world_size, milliseconds timeout)
{
    std::shared_ptr<Communicator> comm;
    {
        std::lock_guard<std::mutex> lock(all_lock);
        comm = all.empty() ? nullptr : all[0].lock();
    }
    if (comm == nullptr || comm->closed() || comm->size() != world_size)
        return {};
    psring_call call = {};
    call.size = sizeof call;
    call.deadline_ms = std::max<int64_t>(1, timeout.count());
    call.name = "new_group";
    psring_group *group = nullptr;
    std::exception_ptr failed;
    without_gil([&] {
        const psring_err err =
            psring_group_from_ranks(comm->world(), ranks.data(), (int)ranks.size(), &call, &group);
        if (err != PSRING_OK)
            failed = failure_of(err, "new_group", comm->world(), comm->world());
    });
    if (failed)
        std::rethrow_exception(failed);
    return c10::make_intrusive<PsringBackend>(std::move(comm), group, true, rank, (int)ranks.size(),
                                              timeout);
}

/* The end of the process: leaves in order; with a line, or if operations are under way, at once. */
void leave_all(const std::string &line)
{
    std::vector<std::weak_ptr<Communicator>> leaving;
    {
        std::lock_guard<std::mutex> lock(all_lock);
        leaving.swap(all);
    }
    for (const auto &entry : leaving) {
        const std::shared_ptr<Communicator> comm = entry.lock();
        if (comm == nullptr || comm->closed())
            continue;
        if (!line.empty())
            comm->leave(line.c_str());
        else if (comm->under_way() > 0)
            comm->leave("the process ended while operations were under way");
        else
            comm->leave(nullptr);
    }
}

} // namespace

PYBIND11_MODULE(psring_torch_backend, m)
{
    pybind11::module_::import("torch._C._distributed_c10d");
    m.def("create", &create);
    m.def("create_from_default", &create_from_default);
    m.def("leave_all", &leave_all);
}
