// lastword.hpp - durable memory transactions in C++17, over lastword.h. Maps: lastword_maps.hpp.
//
//   struct account { std::int64_t cents; lw::ptr<account> next; };
//
//   auto pool = lw::pool::create("bank.pool");
//   lw::worker worker(pool);                            one for each thread
//   lw::ptr<account> first = pool.root<account>();      zeros at first
//   auto done = worker.run([&](lw::tx& tx) {            may run again on a conflict
//       auto cents = tx.get(first.field(&account::cents));
//       if (cents < 30) tx.abort("insufficient funds");
//       tx.set(first.field(&account::cents), cents - 30);
//       return cents - 30;
//   });
//   pool.wait(done.id);                                 durable; done.value is the balance
//
// Values. A stored type is trivially copyable, has a default constructor and at most 1024 bytes.
// The pool stores its bytes as they are in memory, with padding. So store lw::ptr and lw::array,
// and no pointer or reference of the program. A change of such a type changes the pool's format,
// which options.layout_version distinguishes.
//
// Errors are exceptions. lw::error has a status of lastword.h and its text. An exception of a body,
// such as lw::aborted, rolls the transaction back and leaves run. No exception passes through C
// code.
//
// Conflicts. On a conflict the calls of lw::tx throw a type that is no std::exception. It ends the
// body, and run calls the body again. So a body must not be noexcept, and a catch (...) in it must
// rethrow. A body that swallows it harms no data, because every later call of the transaction
// throws it again, and the transaction cannot commit.
//
// A body may run several times. It should return its results and change nothing outside the pool.
// It must not leave by longjmp or by cancelling the thread.
//
// Threads follow lastword.h. All threads may use a pool at once, and only the thread that made a
// worker uses it. Destructors close. Destroy workers before their pool.
#ifndef LASTWORD_HPP
#define LASTWORD_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "lastword.h"
#include "lastword_admin.h"

namespace lw {

// A status of the library. Every function here may throw it, unless its comment says otherwise.
class error : public std::runtime_error {
public:
    explicit error(int status) : error(status, lw_message(status)) {}
    error(int status, const std::string& text) : std::runtime_error(text), status_(status) {}
    int status() const noexcept { return status_; } // a negative number of lastword.h

private:
    int status_;
};

// A body called tx.abort, so the transaction had no effect.
class aborted : public std::runtime_error {
public:
    aborted(const std::string& why, int code) : std::runtime_error(why), code_(code) {}
    int code() const noexcept { return code_; }

private:
    int code_;
};

namespace detail {
struct conflict {}; // ends a body that is to run again

inline void check(int status) {
    if (status != LW_OK) throw error(status);
}

template <class T>
constexpr void storable() {
    static_assert(std::is_trivially_copyable_v<T>, "the pool copies values byte by byte");
    static_assert(std::is_default_constructible_v<T>, "a read constructs a value first");
    static_assert(!std::is_pointer_v<T>, "a pointer is not valid in a pool: store lw::ptr");
    static_assert(!std::is_array_v<T>, "access elements by place.at(i)");
    static_assert(sizeof(T) <= LW_OBJECT_BYTES_MAX, "an object has at most 1024 bytes");
}

template <auto close>
struct closer {
    template <class H>
    void operator()(H* handle) const noexcept { close(handle); }
};
} // namespace detail

// The place of a T, which is an object, a member of one or an element of an array. It is a value of
// two words that programs may keep outside transactions. Each use checks it.
template <class T>
class place {
public:
    place(std::uint64_t object, std::uint64_t offset) noexcept : object_(object), offset_(offset) {}
    std::uint64_t object() const noexcept { return object_; }
    std::uint64_t offset() const noexcept { return offset_; }

    // A member: at.field(&account::cents). Costs an addition.
    template <class M, class C>
    place<M> field(M C::*member) const {
        static_assert(std::is_base_of_v<C, T>, "a member of this type or of a base of it");
        // The distance inside a live value, which compilers fold to a constant.
        const T some{};
        const auto from = reinterpret_cast<const char*>(std::addressof(some));
        const auto to = reinterpret_cast<const char*>(std::addressof(some.*member));
        return place<M>(object_, offset_ + static_cast<std::uint64_t>(to - from));
    }
    // An element, if T is a C array or a std::array. LW_EADDRESS past its end.
    auto at(std::size_t index) const {
        using E = std::remove_reference_t<decltype(std::declval<T&>()[0])>;
        if (index >= sizeof(T) / sizeof(E)) throw error(LW_EADDRESS);
        return place<E>(object_, offset_ + index * sizeof(E));
    }

private:
    std::uint64_t object_, offset_;
};

// The address of an object that holds a T, or null. It is one word, zeros for null, and may be
// stored in objects. T may be incomplete. The address is valid until the object is freed.
template <class T>
class ptr {
public:
    constexpr ptr() noexcept = default;
    constexpr ptr(std::nullptr_t) noexcept {}
    // Takes an address from the C functions, without a check that it has a T.
    constexpr explicit ptr(std::uint64_t address) noexcept : address_(address) {}
    constexpr explicit operator bool() const noexcept { return address_ != 0; }
    constexpr std::uint64_t object() const noexcept { return address_; }
    constexpr std::uint64_t offset() const noexcept { return 0; }

    // A member, as place::field. The use of a member of null throws LW_EADDRESS.
    template <class M, class C>
    place<M> field(M C::*member) const { return place<T>(address_, 0).field(member); }

    friend constexpr bool operator==(ptr a, ptr b) noexcept { return a.address_ == b.address_; }
    friend constexpr bool operator!=(ptr a, ptr b) noexcept { return a.address_ != b.address_; }
    friend constexpr bool operator<(ptr a, ptr b) noexcept { return a.address_ < b.address_; }

private:
    std::uint64_t address_ = 0;
};

// An array of a fixed number of T in blocks, each of at most 256 bytes. It is two words, zeros for
// none, and may be stored in objects. An element never straddles two blocks. Made by tx.reserve and
// tx.prepare.
template <class T>
class array {
public:
    constexpr array() noexcept = default;
    constexpr array(std::uint64_t first, std::uint64_t size) noexcept
        : first_(first), size_(size) {}
    constexpr std::uint64_t first() const noexcept { return first_; }
    constexpr std::uint64_t size() const noexcept { return size_; }
    constexpr std::uint64_t blocks() const noexcept {
        return size_ / per_block() + (size_ % per_block() != 0);
    }
    // An element. Costs a multiplication. LW_EADDRESS past the end.
    place<T> at(std::uint64_t i) const {
        if (i >= size_) throw error(LW_EADDRESS);
        return place<T>(first_ + i / per_block() * LW_BLOCK_STRIDE, i % per_block() * sizeof(T));
    }

private:
    static constexpr std::uint64_t per_block() noexcept {
        detail::storable<T>();
        static_assert(sizeof(T) <= LW_BLOCK_BYTES, "an element fits in a block of 256 bytes");
        return LW_BLOCK_BYTES / sizeof(T);
    }
    std::uint64_t first_ = 0, size_ = 0;
};

// The transaction of a body. Invalid after the body and in other threads.
class tx {
public:
    tx(const tx&) = delete;
    tx& operator=(const tx&) = delete;

    // Reads a copy of the T at a ptr<T> or place<T>. Cheapest for 8 bytes at a multiple of 8. A
    // member costs less than its object.
    template <template <class> class At, class T>
    T get(At<T> at) {
        detail::storable<T>();
        T value;
        if constexpr (sizeof(T) == 8) {
            if (at.offset() % 8 == 0) {
                std::uint64_t word;
                check(lw_read(worker_, at.object(), at.offset(), &word));
                std::memcpy(static_cast<void*>(&value), &word, 8);
                return value;
            }
        }
        check(lw_read_bytes(worker_, at.object(), at.offset(), sizeof(T), &value));
        return value;
    }
    // Writes a copy. LW_EREADONLY in worker.read, LW_ETOOLARGE beyond the limits of lw_options.
    template <template <class> class At, class T>
    void set(At<T> at, const std::common_type_t<T>& value) { // so that only `at` deduces T
        detail::storable<T>();
        if constexpr (sizeof(T) == 8) {
            if (at.offset() % 8 == 0) {
                std::uint64_t word;
                std::memcpy(&word, &value, 8);
                return check(lw_write(worker_, at.object(), at.offset(), word));
            }
        }
        check(lw_write_bytes(worker_, at.object(), at.offset(), sizeof(T), &value));
    }

    // Allocates an object. Store its address in this transaction, or the object leaks. LW_EFULL.
    template <class T>
    ptr<T> alloc(const T& value) {
        detail::storable<T>();
        std::uint64_t object;
        check(lw_alloc(worker_, sizeof(T), &value, &object));
        return ptr<T>(object);
    }
    // Frees an object, or an array with all its elements. LW_EADDRESS for no live object.
    template <class T>
    void free(ptr<T> at) { check(lw_free(worker_, at.object(), sizeof(T))); }
    template <class T>
    void free(array<T> all) {
        if (all.size() != 0) check(lw_free(worker_, all.first(), all.blocks() * LW_BLOCK_BYTES));
    }

    // Under LW_SNAPSHOT, keeps other transactions from writing the object until this one ends.
    // Protect objects that a writing transaction only reads for its decision. No effect under other
    // designs.
    template <template <class> class At, class T>
    void protect(At<T> at) { check(lw_protect(worker_, at.object())); }

    // Reserves `size` elements. Store the result in an object in this transaction. LW_EFULL.
    template <class T>
    array<T> reserve(std::uint64_t size) {
        std::uint64_t first = 0;
        if (size != 0) check(lw_array_reserve(worker_, array<T>(0, size).blocks(), &first));
        return array<T>(first, size);
    }
    // Prepares up to `most` further blocks with zeros. Returns whether all are ready for use. Run
    // it in transactions of its own. It may be repeated, also after a crash. LW_ETOOLARGE.
    template <class T>
    bool prepare(array<T> all, std::uint64_t most = 1000) {
        std::uint64_t left = 0;
        if (all.size() != 0) check(lw_array_prepare(worker_, all.first(), most, &left));
        return left == 0;
    }

    // Rolls the transaction back. run throws lw::aborted, even if the body catches it.
    [[noreturn]] void abort(const std::string& why, int code = 1) {
        aborted_ = std::make_exception_ptr(aborted(why, code));
        std::rethrow_exception(aborted_);
    }
    [[noreturn]] void abort(int code) { abort("aborted with code " + std::to_string(code), code); }

    // For C functions, as in tx.check(lw_read_bytes(tx.handle(), ...)). Throws like the methods
    // above.
    lw_worker* handle() const noexcept { return worker_; }
    void check(int status) {
        if (status == LW_OK) return;
        if (status != LW_CONFLICT) throw error(status);
        conflict_ = true;
        throw detail::conflict();
    }

private:
    friend class worker;
    explicit tx(lw_worker* handle) noexcept : worker_(handle) {}

    lw_worker* worker_;
    bool conflict_ = false;
    std::exception_ptr aborted_;
};

// The fields of lw_options, with their defaults. `layout` must be valid until the pool is open.
// Leave
// `message` alone, since the text of an lw::error has the message.
struct options : lw_options {
    options() { detail::check(lw_options_default(this, sizeof(lw_options))); }
};

// A pool. Move-only. All threads may call all methods at once, except close and the destructor.
class pool {
public:
    // Creates a pool and opens it. Durable on return. LW_EEXIST, LW_EPLACE, LW_ENOMEM, LW_EIO.
    static pool create(const std::string& path, const options& how = options()) {
        return make(lw_pool_create, path, how);
    }
    // Opens a pool, and recovers it after a crash. LW_ENOENT, LW_EBUSY, LW_EDAMAGED, LW_EMISMATCH,
    // LW_EPLACE, LW_ENOMEM, LW_EIO.
    static pool open(const std::string& path, const options& how = options()) {
        return make(lw_pool_open, path, how);
    }
    // Opens a pool for worker.read, also while another process has it open, with `salvage` also a
    // damaged one. As lw_pool_open_read_only.
    static pool open_read_only(const std::string& path, const options& how = options(),
                               bool salvage = false) {
        const auto call = [salvage](const char* at, const lw_options* given, lw_pool** out) {
            return lw_pool_open_read_only(at, given, salvage ? LW_SALVAGE : 0, out);
        };
        return make(call, path, how);
    }
    // Makes all transactions durable, and closes the remaining workers and the pool. The pool stays
    // open after LW_EBUSY (a transaction is open). The destructor does the same and ignores errors.
    void close() {
        const int status = lw_pool_close(handle_.get());
        if (status != LW_EBUSY) (void)handle_.release();
        detail::check(status);
    }

    // The object from which the program reaches all others, zeros at first. Its size is fixed at
    // its creation, so T may not grow. LW_ENESTED in a body.
    template <class T>
    ptr<T> root() {
        detail::storable<T>();
        std::uint64_t object;
        detail::check(lw_pool_root(handle_.get(), sizeof(T), &object));
        return ptr<T>(object);
    }

    // The use of the heap, as lw_pool_heap_usage in lastword.h.
    lw_heap_usage heap_usage() const {
        lw_heap_usage usage;
        usage.size = sizeof usage;
        detail::check(lw_pool_heap_usage(handle_.get(), &usage));
        return usage;
    }

    // The durable watermark. This transaction and all before it are durable. Costs a load.
    std::uint64_t durable() const {
        std::uint64_t id;
        detail::check(lw_pool_durable(handle_.get(), &id));
        return id;
    }
    // Wait until `id` or every commit is durable. LW_ENESTED in a body, LW_EUNKNOWN,
    // LW_ENOTDURABLE, LW_EIO, LW_EDAMAGED, LW_ENAME.
    void wait(std::uint64_t id) { detail::check(lw_pool_wait(handle_.get(), id)); }
    void flush() { detail::check(lw_pool_flush(handle_.get())); }

    // Copies the pool to a new pool while transactions go on. Returns the last transaction in the
    // copy. Errors as lw_pool_backup.
    std::uint64_t backup(const std::string& path) {
        std::uint64_t id = 0;
        detail::check(lw_pool_backup(handle_.get(), path.c_str(), &id));
        return id;
    }

    // Grows the heap to at least `bytes` bytes, up to options.max_bytes, and returns its size.
    std::uint64_t grow(std::uint64_t bytes) {
        std::uint64_t heap_bytes = 0;
        detail::check(lw_pool_grow(handle_.get(), bytes, &heap_bytes));
        return heap_bytes;
    }
    // Verifies every page of the heap image, as lw_pool_scrub. Does not throw for damaged pages.
    lw_scrub_result scrub() {
        lw_scrub_result found{};
        found.size = sizeof found;
        const int status = lw_pool_scrub(handle_.get(), &found);
        if (found.damaged == 0) detail::check(status);
        return found;
    }

    // Calls `notify` once, with true if `id` is durable, and with false if it failed to become so.
    // The call comes at once, or later in any thread, which may be this one. `notify` must be
    // short, throw nothing (that would end the program) and call no function of this library. It is
    // destroyed right after the call. Costs an allocation.
    void on_durable(std::uint64_t id, std::function<void(bool)> notify) {
        using kept = std::function<void(bool)>;
        auto argument = std::make_unique<kept>(std::move(notify));
        const auto call = [](void* given, int status) noexcept {
            const std::unique_ptr<kept> mine(static_cast<kept*>(given));
            (*mine)(status == LW_OK);
        };
        detail::check(lw_pool_on_durable(handle_.get(), id, call, argument.get()));
        (void)argument.release(); // `call` owns it
    }

    lw_pool* handle() const noexcept { return handle_.get(); }

private:
    explicit pool(lw_pool* handle) noexcept : handle_(handle) {}

    template <class F>
    static pool make(F call, const std::string& path, options how) {
        char text[1024] = "";
        how.message = text;
        how.message_bytes = sizeof text;
        lw_pool* handle = nullptr;
        const int status = call(path.c_str(), &how, &handle);
        if (status != LW_OK) throw error(status, text[0] ? text : lw_strerror(status));
        return pool(handle);
    }

    std::unique_ptr<lw_pool, detail::closer<lw_pool_close>> handle_;
};

// The result of a body, and the ID of its commit.
template <class R>
struct committed {
    R value;
    std::uint64_t id;
};

// A worker of the thread that makes it, which alone may use it. Move-only. It must not outlive its
// pool. LW_EWORKERS.
class worker {
public:
    explicit worker(pool& of) {
        lw_worker* handle;
        detail::check(lw_worker_open(of.handle(), &handle));
        handle_.reset(handle);
    }

    // Runs body(tx) as one transaction, again after each conflict, and commits it. Returns the ID,
    // or a
    // `committed` with the ID and the body's value. Throws the exception of the body after the
    // roll-back. LW_ENESTED, LW_EHELDUP, LW_EIO (with LW_SYNC the transaction may be committed).
    template <class F>
    auto run(F&& body) { return transact(0, body); }
    // Runs a read-only body, which reads one snapshot.
    template <class F>
    auto read(F&& body) { return transact(LW_READ_ONLY, body); }

    lw_worker* handle() const noexcept { return handle_.get(); }

private:
    template <class F>
    auto transact(unsigned flags, F& body) {
        using R = std::decay_t<std::invoke_result_t<F&, tx&>>;
        struct state {
            F& body;
            std::optional<std::conditional_t<std::is_void_v<R>, std::monostate, R>> value;
            std::exception_ptr thrown;
        } all{body, {}, {}};
        // C code calls this, so no exception may leave it.
        const auto attempt = [](lw_worker* handle, void* argument) noexcept {
            auto& now = *static_cast<state*>(argument);
            now.thrown = nullptr;
            tx current(handle);
            try {
                if constexpr (std::is_void_v<R>) {
                    now.body(current);
                } else {
                    now.value.emplace(now.body(current));
                }
                // If the body swallowed an error, lw_run still returns it. An abort is recorded
                // here.
                now.thrown = current.aborted_;
            } catch (...) {
                // After a conflict the body runs again, whatever it threw.
                if (current.conflict_) return LW_CONFLICT;
                now.thrown = std::current_exception();
            }
            return now.thrown ? 1 : 0;
        };
        std::uint64_t id;
        const int status = lw_run(handle_.get(), flags, attempt, &all, &id);
        if (all.thrown) std::rethrow_exception(all.thrown);
        detail::check(status);
        if constexpr (std::is_void_v<R>) {
            return id;
        } else {
            return committed<R>{std::move(*all.value), id};
        }
    }

    std::unique_ptr<lw_worker, detail::closer<lw_worker_close>> handle_;
};

} // namespace lw

#endif
