/* What the backend "psring" of torch.distributed (backend.cpp) stands on: a communicator of
 * libpsring, its operations, and the Work that torch's callers hold.
 *
 * Who waits: Work.wait() waits in the library itself, so a call that is waited for at once costs no
 * change of threads. Only where somebody asks for a Future, or drops a Work before its end, the
 * communicator's watcher, a thread that sleeps on psring_event_fd, brings the operation to its end.
 *
 * Who owns: an Operation has the requests and all tensors that the library reads or writes. It is
 * in its communicator's set from its start to its end, whatever becomes of the Work. */
#ifndef PSRING_TORCH_BACKEND_WORK_HPP
#define PSRING_TORCH_BACKEND_WORK_HPP

#include <psring/psring.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>
#include <unordered_map>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

/* Whether this is torch 2.MINOR or a later one. */
#define TORCH_SINCE(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

/* override, of a function that earlier versions of torch do not have, and so do not call. */
#if TORCH_SINCE(15)
#define OVERRIDES override
#else
#define OVERRIDES
#endif

namespace
{

using Tensors = std::vector<at::Tensor>;
using std::chrono::milliseconds;

constexpr int64_t SLICE_MS = 200; /* a wait looks for Ctrl-C so often */

/* ---- errors ---- */

std::exception_ptr exception_of(psring_err err, const std::string &line)
{
    const c10::SourceLocation here = {__func__, __FILE__, __LINE__};
    const std::string text = "psring: " + line;
    if (err == PSRING_ERR_USAGE)
        return std::make_exception_ptr(c10::ValueError(here, text));
    if (err == PSRING_ERR_UNSUPPORTED)
        return std::make_exception_ptr(c10::NotImplementedError(here, text));
    return std::make_exception_ptr(c10::DistBackendError(here, text));
}

[[noreturn]] void fail(psring_err err, const std::string &line)
{
    std::rethrow_exception(exception_of(err, line));
}

[[noreturn]] void refuse(const std::string &line)
{
    fail(PSRING_ERR_USAGE, line);
}

/* What a call on this thread has just returned, with the rank to blame and its host. */
std::exception_ptr failure_of(psring_err err, const char *what, const psring_group *group,
                              const psring_group *world)
{
    std::string line = psring_err_detail();
    psring_failure failure = {};
    failure.size = sizeof failure;
    const bool own = err == PSRING_ERR_USAGE || err == PSRING_ERR_UNSUPPORTED;
    if (!own && psring_group_failure(group, &failure) == PSRING_OK) {
        if (err == PSRING_ERR_BROKEN)
            line = failure.line;
        const char *host = failure.rank >= 0 ? psring_host(world, failure.rank) : nullptr;
        if (host != nullptr && line.find(host) == std::string::npos)
            line += " (rank " + std::to_string(failure.rank) + " is on " + host + ")";
    }
    const bool late = err == PSRING_ERR_TIMEOUT;
    return exception_of(err, std::string(what) + (late ? " ended by timeout : " : ": ") + line);
}

/* Without Python's lock if this thread has it: others need it while we wait. */
template <typename F> void without_gil(F f)
{
    if (Py_IsInitialized() && PyGILState_Check()) {
        pybind11::gil_scoped_release release;
        f();
    } else {
        f();
    }
}

/* Ctrl-C, as the exception that it is in Python. */
void raise_signals()
{
    if (!Py_IsInitialized())
        return;
    pybind11::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0)
        throw pybind11::error_already_set();
}

/* ---- operations ---- */

class Communicator;

/* What a call starts, and what is left to do when it has ended. */
struct Plan {
    using Start = std::function<psring_err(const psring_call *, psring_request **)>;
    std::vector<Start> starts;
    std::vector<std::function<void()>> finish; /* after success: copies out of `held` */
    Tensors results;
    Tensors held; /* what else the library reads or writes */
    bool buffered = false, any_source = false;
};

class Operation
{
  public:
    Operation(Communicator &comm, const psring_group *group, const psring_group *world,
              const char *what, Plan plan)
        : comm_(comm), group_(group), world_(world), what_(what), plan_(std::move(plan))
    {
        message_.size = sizeof message_;
    }

    void start(milliseconds timeout);
    bool test();                     /* whether it has ended; does not wait */
    bool wait(milliseconds at_most); /* false: it has not ended. 0: its own deadline alone */
    c10::intrusive_ptr<c10::ivalue::Future> future();
    void watch();   /* the watcher brings it to its end */
    void abandon(); /* the communicator is gone, and its requests with it */

    const psring_group *group() const
    {
        return group_;
    }
    bool watched() const
    {
        return watched_;
    }
    const Tensors &results() const
    {
        return plan_.results;
    }
    int source() const
    {
        return message_.from;
    }
    std::exception_ptr error()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return ended_ ? error_ : nullptr;
    }
    std::function<void()> on_end; /* the profiler's; set before start */

  private:
    bool advance(std::unique_lock<std::mutex> &lock, int64_t wait_ms);
    void complete(std::unique_lock<std::mutex> &lock);

    Communicator &comm_; /* not touched once ended */
    const psring_group *group_, *world_;
    const char *what_;
    Plan plan_;
    psring_message message_ = {};
    std::vector<psring_request *> requests_;

    std::mutex mutex_; /* for what follows */
    std::condition_variable changed_;
    size_t next_ = 0;    /* the first request that has not ended */
    bool taken_ = false; /* a thread is in a call with that request, or completes the operation */
    bool ended_ = false;
    std::atomic<bool> watched_{false};
    std::exception_ptr error_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/* ---- the communicator ---- */

class Communicator
{
  public:
    /* sharing: a folder that goes with the last rank of this host; "": there is none. */
    Communicator(const psring_options &options, std::string sharing);
    ~Communicator()
    {
        leave(nullptr);
    }

    psring_comm *handle() const
    {
        return comm_;
    }
    psring_group *world() const
    {
        return psring_world(comm_);
    }
    int size() const
    {
        return size_;
    }
    bool closed() const
    {
        return comm_ == nullptr || getpid() != pid_;
    }

    void begin(const std::shared_ptr<Operation> &operation);
    void end(Operation *operation);
    void notice_watched();
    /* Waits for the operations of a group; nullptr: of all. */
    void drain(const psring_group *group);
    /* Leaves in order; or, with a line, at once, and all others read it. */
    void leave(const char *line);
    size_t under_way();

  private:
    std::vector<std::shared_ptr<Operation>> operations(bool watched_only);
    void watcher();
    void stop_watcher();
    void remove_sharing(bool failed) const;

    psring_comm *comm_ = nullptr;
    const std::string sharing_;
    int size_, pid_ = getpid();
    std::mutex mutex_; /* for what follows */
    std::condition_variable changed_;
    std::unordered_map<Operation *, std::shared_ptr<Operation>> live_;
    bool stop_ = false, begun_ = false;
    int event_ = -1, kick_ = -1;
    std::thread thread_;
};

void Operation::start(milliseconds timeout)
{
    psring_call call = {};
    call.size = sizeof call;
    call.deadline_ms = std::max<int64_t>(1, timeout.count());
    call.name = what_;
    call.buffered = plan_.buffered;
    call.message = plan_.any_source ? &message_ : nullptr;
    for (const Plan::Start &start : plan_.starts) {
        psring_request *request = nullptr;
        const psring_err err = start(&call, &request);
        if (err != PSRING_OK) {
            error_ = failure_of(err, what_, group_, world_);
            break;
        }
        requests_.push_back(request);
    }
    if (error_ != nullptr) {
        if (requests_.empty())
            std::rethrow_exception(error_);
        watch(); /* what was started goes on and holds its tensors */
    }
}

/* Gets on with the next request, with the lock held. False: it has not ended, or another thread is
 * at it. */
bool Operation::advance(std::unique_lock<std::mutex> &lock, int64_t wait_ms)
{
    while (next_ < requests_.size()) {
        if (taken_)
            return false;
        psring_request *request = requests_[next_];
        psring_err err;
        if (wait_ms == 0) {
            err = psring_test(request);
        } else {
            taken_ = true;
            lock.unlock();
            err = psring_wait(request, wait_ms);
            lock.lock();
            taken_ = false;
            /* The watcher may have passed it by meanwhile. */
            if (err == PSRING_ERR_BUSY && watched_)
                err = psring_test(request);
        }
        if (ended_) /* abandoned meanwhile */
            return true;
        if (err == PSRING_ERR_BUSY)
            return false;
        if (err != PSRING_OK && error_ == nullptr)
            error_ = failure_of(err, what_, group_, world_);
        psring_request_free(&requests_[next_++]);
    }
    if (taken_ || ended_)
        return ended_;
    complete(lock);
    return true;
}

void Operation::complete(std::unique_lock<std::mutex> &lock)
{
    taken_ = true;
    std::exception_ptr error = error_;
    lock.unlock();
    if (error == nullptr) {
        try {
            at::NoGradGuard no_grad;
            for (const auto &finish : plan_.finish)
                finish();
        } catch (...) {
            error = std::current_exception();
        }
    }
    plan_.starts.clear();
    plan_.finish.clear();
    plan_.held.clear();
    if (on_end)
        on_end();
    lock.lock();
    error_ = error;
    ended_ = true;
    taken_ = false;
    const c10::intrusive_ptr<c10::ivalue::Future> future = future_;
    lock.unlock();
    changed_.notify_all();
    if (future && error != nullptr)
        future->setError(error);
    else if (future)
        future->markCompleted(c10::IValue(plan_.results));
    comm_.end(this); /* last; the caller still holds this */
    lock.lock();
}

bool Operation::test()
{
    std::unique_lock<std::mutex> lock(mutex_);
    return ended_ || advance(lock, 0);
}

bool Operation::wait(milliseconds at_most)
{
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + at_most;
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ended_) {
        int64_t left_ms = SLICE_MS;
        if (at_most.count() > 0) {
            left_ms = std::chrono::ceil<milliseconds>(end - Clock::now()).count();
            if (left_ms <= 0)
                return advance(lock, 0);
            left_ms = std::min(left_ms, SLICE_MS);
        }
        if (taken_)
            changed_.wait_for(lock, milliseconds(left_ms));
        else if (advance(lock, left_ms))
            break;
        if (!ended_) {
            lock.unlock();
            raise_signals();
            lock.lock();
        }
    }
    return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::future()
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (future_)
        return future_;
    const auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (ended_ && error_ != nullptr)
        future->setError(error_);
    else if (ended_)
        future->markCompleted(c10::IValue(plan_.results));
    future_ = future; /* held here: the watcher may complete and free what it completes */
    const bool ended = ended_;
    lock.unlock();
    if (!ended)
        watch();
    return future;
}

void Operation::watch()
{
    if (watched_.exchange(true))
        return;
    comm_.notice_watched();
    /* It may have ended before the watcher knew of it. */
    test();
}

void Operation::abandon()
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (ended_)
        return;
    error_ = exception_of(PSRING_ERR_CANCELLED, std::string(what_) + ": this rank has left");
    ended_ = true;
    requests_.clear();
    const auto future = future_;
    const auto error = error_;
    lock.unlock();
    changed_.notify_all();
    if (future)
        future->setError(error);
}

Communicator::Communicator(const psring_options &options, std::string sharing)
    : sharing_(std::move(sharing)), size_(options.ranks)
{
    psring_err err = PSRING_OK;
    std::string line;
    without_gil([&] {
        err = psring_init(&options, &comm_);
        line = err == PSRING_OK ? "" : psring_err_detail();
    });
    if (err != PSRING_OK) {
        remove_sharing(false);
        fail(err, line);
    }
}

/* Each rank takes its socket along. One that was killed did not, so what it left goes too. */
void Communicator::remove_sharing(bool failed) const
{
    if (sharing_.empty())
        return;
    std::error_code ignored;
    if (failed)
        std::filesystem::remove_all(sharing_, ignored);
    else
        std::filesystem::remove(sharing_, ignored); /* while others are in it, it stays */
}

void Communicator::begin(const std::shared_ptr<Operation> &operation)
{
    std::lock_guard<std::mutex> lock(mutex_);
    live_.emplace(operation.get(), operation);
}

void Communicator::end(Operation *operation)
{
    std::shared_ptr<Operation> kept; /* freed after the lock */
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(operation);
    if (found != live_.end()) {
        kept = std::move(found->second);
        live_.erase(found);
        changed_.notify_all();
    }
}

size_t Communicator::under_way()
{
    std::lock_guard<std::mutex> lock(mutex_);
    return live_.size();
}

std::vector<std::shared_ptr<Operation>> Communicator::operations(bool watched_only)
{
    std::vector<std::shared_ptr<Operation>> found;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto &entry : live_)
        if (!watched_only || entry.second->watched())
            found.push_back(entry.second);
    return found;
}

void Communicator::notice_watched()
{
    std::lock_guard<std::mutex> lock(mutex_);
    if (!begun_) {
        if (psring_event_fd(comm_, &event_) != PSRING_OK)
            fail(PSRING_ERR_IO, psring_err_detail());
        kick_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (kick_ < 0)
            fail(PSRING_ERR_IO, std::string("eventfd: ") + std::strerror(errno));
        begun_ = true;
        thread_ = std::thread([this] { watcher(); });
    }
    changed_.notify_all();
}

void Communicator::watcher()
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr); /* they are for the program's threads */
    for (;;) {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [this] {
                return stop_ || std::any_of(live_.begin(), live_.end(), [](const auto &entry) {
                           return entry.second->watched();
                       });
            });
            if (stop_)
                return;
        }
        struct pollfd fds[] = {{event_, POLLIN, 0}, {kick_, POLLIN, 0}};
        /* Alone, only calls let time pass. */
        poll(fds, 2, size_ == 1 ? (int)SLICE_MS : -1);
        psring_event_take(comm_);
        for (const auto &operation : operations(true))
            operation->test();
    }
}

void Communicator::stop_watcher()
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
        changed_.notify_all();
    }
    if (!thread_.joinable())
        return;
    eventfd_write(kick_, 1);
    if (thread_.get_id() == std::this_thread::get_id())
        thread_.detach();
    else
        thread_.join();
    close(kick_);
}

void Communicator::drain(const psring_group *group)
{
    for (const auto &operation : operations(false))
        if (group == nullptr || operation->group() == group)
            operation->wait(milliseconds(0));
}

void Communicator::leave(const char *line)
{
    if (comm_ == nullptr)
        return;
    if (getpid() != pid_) { /* a child after fork() has no communicator; its thread is not there */
        if (thread_.joinable())
            thread_.detach();
        return;
    }
    without_gil([&] {
        if (line == nullptr)
            drain(nullptr);
        stop_watcher();
        psring_failure failure = {};
        failure.size = sizeof failure;
        bool failed = psring_group_failure(world(), &failure) == PSRING_OK;
        if (line == nullptr) {
            /* A failure has been told by the call that met it, or concerns what nobody waits for. */
            failed = psring_close(&comm_) != PSRING_OK || failed;
            comm_ = nullptr;
        } else {
            psring_abort(&comm_, line);
            comm_ = nullptr;
        }
        for (const auto &operation : operations(false))
            operation->abandon();
        remove_sharing(failed || line != nullptr);
    });
}

/* ---- work ---- */

class PsringWork : public c10d::Work
{
  public:
    PsringWork(std::shared_ptr<Operation> operation, int rank, c10d::OpType type, const char *title,
               const Tensors &inputs, uint64_t number, milliseconds timeout)
        : Work(rank, type, title, inputs), operation_(std::move(operation)), number_(number),
          timeout_(timeout)
    {
        operation_->on_end = std::move(recordFunctionEndCallback_);
        recordFunctionEndCallback_ = nullptr;
    }
    ~PsringWork() override
    {
        try {
            if (started && !operation_->test())
                operation_->watch();
        } catch (...) { /* no thread: leave() brings it to its end */
        }
    }

    bool isCompleted() override
    {
        return operation_->test();
    }
    bool isSuccess() const override
    {
        return operation_->test() && operation_->error() == nullptr;
    }
    std::exception_ptr exception() const override
    {
        return operation_->error();
    }
    int sourceRank() const override
    {
        return operation_->source();
    }
    Tensors result() override
    {
        return operation_->results();
    }
    void synchronize() override
    {
    }
    bool wait(milliseconds timeout) override
    {
        if (!operation_->wait(timeout))
            fail(PSRING_ERR_TIMEOUT,
                 "wait ended by timeout : " + std::to_string(timeout.count()) + " ms have passed");
        if (operation_->error() != nullptr)
            std::rethrow_exception(operation_->error());
        return true;
    }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        return operation_->future();
    }
    uint64_t getSequencenumber() const OVERRIDES
    {
        return number_;
    }
    milliseconds getTimeout() const OVERRIDES
    {
        return timeout_;
    }

    bool started = false;

  private:
    const std::shared_ptr<Operation> operation_;
    const uint64_t number_;
    const milliseconds timeout_;
};

} // namespace

#endif
