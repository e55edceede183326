// wrapper.cpp - tests of lastword.hpp, for its exceptions, conflicts, places and handles.
//
//   wrapper PATH         creates a pool at PATH
//
// Prints "wrapper: all tests passed", or the failed expectation and exits with 1.
#include <lastword.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

void expect(bool holds, const char* claim) {
    if (holds) return;
    std::fprintf(stderr, "wrapper: failed: %s\n", claim);
    std::exit(1);
}

// Returns the status of the lw::error that a call throws, or 0.
template <class F>
int status_of(F&& call) {
    try {
        call();
    } catch (const lw::error& error) {
        expect(std::string(error.what()).size() > 3, "an error has a text");
        return error.status();
    }
    return 0;
}

struct base {
    std::uint32_t first;
};

struct mixed : base {
    char character;
    std::uint16_t small;
    std::uint64_t word;
    std::array<std::int32_t, 5> numbers;
    char name[7];
    bool flag;
    lw::ptr<mixed> next;
};

struct root_of_all {
    std::uint64_t counter;
    lw::ptr<mixed> one;
    lw::array<std::array<char, 100>> names;
};

static_assert(std::is_trivially_copyable_v<lw::ptr<mixed>> && sizeof(lw::ptr<mixed>) == 8);
static_assert(std::is_trivially_copyable_v<lw::array<mixed>> && sizeof(lw::array<mixed>) == 16);
static_assert(!std::is_copy_constructible_v<lw::pool> && std::is_move_assignable_v<lw::pool>);
static_assert(!std::is_copy_constructible_v<lw::worker> && std::is_move_assignable_v<lw::worker>);

void places(lw::worker& worker, lw::ptr<root_of_all> root) {
    mixed value{};
    value.first = 7;
    value.character = 'a';
    value.word = 1;
    value.numbers = {1, 2, 3, 4, 5};
    const auto made = worker.run([&](lw::tx& tx) {
        const auto one = tx.alloc(value);
        tx.set(root.field(&root_of_all::one), one);
        tx.set(one.field(&mixed::character), 'b');
        tx.set(one.field(&mixed::small), 300);
        tx.set(one.field(&mixed::word), 1u << 20);
        tx.set(one.field(&mixed::numbers).at(3), -4);
        tx.set(one.field(&mixed::name).at(6), 'z');
        tx.set(one.field(&mixed::flag), true);
        tx.set(one.field(&mixed::next), one);
        tx.set(one.field(&base::first), 8);
        return one;
    });
    expect(root.field(&root_of_all::names).offset() == offsetof(root_of_all, names), "an offset");
    const mixed now = worker.read([&](lw::tx& tx) { return tx.get(made.value); }).value;
    expect(now.first == 8 && now.character == 'b' && now.small == 300 && now.word == 1u << 20,
           "members keep their values");
    expect(now.numbers == std::array<std::int32_t, 5>{1, 2, 3, -4, 5}, "elements too");
    expect(now.name[6] == 'z' && now.flag && now.next == made.value, "the other members too");
    expect(status_of([&] { made.value.field(&mixed::numbers).at(5); }) == LW_EADDRESS,
           "an element past the end");

    const auto names = worker.run([&](lw::tx& tx) {
        const auto all = tx.reserve<std::array<char, 100>>(5);
        tx.set(root.field(&root_of_all::names), all);
        return all;
    }).value;
    expect(names.blocks() == 3, "a block has two elements of 100 bytes");
    while (!worker.run([&](lw::tx& tx) { return tx.prepare(names, 1); }).value) {
    }
    worker.run([&](lw::tx& tx) {
        for (std::uint64_t i = 0; i < names.size(); i++) {
            tx.set(names.at(i).at(99), static_cast<char>('a' + i));
        }
    });
    worker.read([&](lw::tx& tx) {
        for (std::uint64_t i = 0; i < names.size(); i++) {
            expect(tx.get(names.at(i))[99] == static_cast<char>('a' + i), "an element of an array");
        }
    });
    expect(status_of([&] { names.at(5); }) == LW_EADDRESS, "an array's end");
    worker.run([&](lw::tx& tx) {
        tx.free(names);
        tx.set(root.field(&root_of_all::names), {});
        tx.free(made.value);
        tx.set(root.field(&root_of_all::one), nullptr);
    });
}

void exceptions(lw::pool& pool, lw::worker& worker, lw::ptr<root_of_all> root) {
    const auto counter = root.field(&root_of_all::counter);
    const auto now = [&] {
        return worker.read([&](lw::tx& tx) { return tx.get(counter); }).value;
    };
    const std::uint64_t before = now();

    struct own {
        int number;
    };
    try {
        worker.run([&](lw::tx& tx) {
            tx.set(counter, 1000);
            throw own{5};
        });
        expect(false, "run throws the exception of its body");
    } catch (const own& thrown) {
        expect(thrown.number == 5, "the exception keeps its value");
    }
    try {
        worker.run([&](lw::tx& tx) {
            tx.set(counter, 1000);
            try {
                tx.abort("for a reason", 9);
            } catch (const std::exception&) { // swallowed
            }
        });
        expect(false, "an abort cannot be swallowed");
    } catch (const lw::aborted& aborted) {
        expect(aborted.code() == 9 && aborted.what() == std::string("for a reason"),
               "the abort keeps its reason");
    }
    expect(now() == before, "both were rolled back");

    expect(status_of([&] { worker.read([&](lw::tx& tx) { tx.set(counter, 1); }); }) ==
               LW_EREADONLY, "a write in a read-only transaction");
    expect(status_of([&] { worker.run([&](lw::tx& tx) { tx.get(lw::ptr<mixed>()); }); }) ==
               LW_EADDRESS, "a null pointer");
    expect(status_of([&] {
        worker.run([&](lw::tx& tx) {
            tx.set(counter, 1000);
            try {
                tx.set(lw::ptr<std::uint64_t>(), 1);
            } catch (const lw::error&) { // swallowed
            }
        });
    }) == LW_EADDRESS, "an error cannot be swallowed");
    expect(now() == before, "it was rolled back");

    int inside = 0, busy = 0;
    worker.run([&](lw::tx& tx) {
        tx.set(counter, before + 1);
        inside = status_of([&] { pool.flush(); });
        busy = status_of([&] { pool.close(); });
    });
    expect(inside == LW_ENESTED, "waiting in a body");
    expect(status_of([&] { pool.wait(~std::uint64_t{0}); }) == LW_EUNKNOWN, "an unknown ID");
    expect(status_of([&] { pool.on_durable(~std::uint64_t{0}, [](bool) {}); }) == LW_EUNKNOWN,
           "a callback for an unknown ID");
    expect(busy == LW_EBUSY, "a transaction is open");
    expect(now() == before + 1, "the pool is still open");
    expect(status_of([&] { pool.backup("/nowhere/copy.pool"); }) == LW_ENOENT, "no directory");
}

// Two threads conflict. Exceptions that a body throws or swallows on a conflict have no effect.
void conflicts(lw::pool& pool, lw::ptr<root_of_all> root) {
    const auto counter = root.field(&root_of_all::counter);
    const int each = 20000;
    std::atomic<long> attempts{0};
    std::uint64_t before;
    {
        lw::worker worker(pool);
        before = worker.read([&](lw::tx& tx) { return tx.get(counter); }).value;
    }
    std::vector<std::thread> running;
    for (int thread = 0; thread < 2; thread++) {
        running.emplace_back([&, thread] {
            lw::worker worker(pool);
            for (int i = 0; i < each; i++) {
                worker.run([&](lw::tx& tx) {
                    attempts++;
                    const auto count = tx.get(counter);
                    if (i % 16 == 0) std::this_thread::yield();
                    try {
                        tx.set(counter, count + 1);
                        tx.get(counter);
                    } catch (...) {
                        if (thread == 0) throw std::string("another exception");
                    }
                });
            }
        });
    }
    for (auto& one : running) one.join();
    lw::worker worker(pool);
    const auto after = worker.read([&](lw::tx& tx) { return tx.get(counter); }).value;
    expect(after == before + 2 * each, "every transaction counts once");
    std::printf("%d transactions in %ld attempts\n", 2 * each, attempts.load());
}

// Two threads change members that share a word. Neither loses the other's.
void neighbours(lw::pool& pool) {
    constexpr int each = 2000;
    const auto one = [&] {
        lw::worker worker(pool);
        return worker.run([&](lw::tx& tx) {
            mixed value{};
            value.character = 'b';
            return tx.alloc(value);
        }).value;
    }();
    const auto count = [&pool](auto member) {
        lw::worker worker(pool);
        for (int i = 0; i < each; i++) {
            worker.run([&](lw::tx& tx) { tx.set(member, tx.get(member) + 1); });
        }
    };
    std::thread other([&] { count(one.field(&mixed::small)); });
    count(one.field(&base::first));
    other.join();
    lw::worker worker(pool);
    const mixed now = worker.read([&](lw::tx& tx) { return tx.get(one); }).value;
    expect(now.small == each && now.first == each, "every change of a member counts once");
    expect(now.character == 'b', "a member between them stays");
}

void durability(lw::pool& pool, lw::worker& worker, lw::ptr<root_of_all> root) {
    std::atomic<int> calls{0};
    std::uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        last = worker.run([&](lw::tx& tx) {
            tx.set(root.field(&root_of_all::counter), 5);
        });
        pool.on_durable(last, [&](bool is_durable) { calls += is_durable ? 1 : 1000; });
    }
    pool.wait(last);
    expect(pool.durable() >= last, "durable after waiting");
    expect(pool.heap_usage().objects > 0, "objects are live");
    // A wait may return shortly before the last callback runs.
    for (int i = 0; i < 10000 && calls < 100; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    expect(calls == 100, "each callback runs once");
}

void run(const std::string& path) {
    expect(status_of([&] { lw::pool::open(path); }) == LW_ENOENT, "no pool yet");
    lw::options options;
    options.bytes = options.log_bytes = 1 << 20;
    options.layout = "test wrapper";
    lw::pool made = lw::pool::create(path, options);
    expect(status_of([&] { lw::pool::create(path, options); }) == LW_EEXIST, "the pool exists");
    expect(status_of([&] { made.durable(); }) == 0, "the pool is open");
    lw::pool pool = std::move(made);
    expect(status_of([&] { made.durable(); }) == LW_EINVAL, "a pool that was moved from");
    const auto root = pool.root<root_of_all>();
    {
        lw::worker first(pool);
        lw::worker worker = std::move(first);
        places(worker, root);
        exceptions(pool, worker, root);
        durability(pool, worker, root);
    }
    conflicts(pool, root);
    neighbours(pool);
    pool.close();
    options.layout = "another";
    expect(status_of([&] { lw::pool::open(path, options); }) == LW_EMISMATCH, "another layout");
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: wrapper PATH\n");
        return 2;
    }
    try {
        run(argv[1]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "wrapper: %s\n", error.what());
        return 1;
    }
    std::printf("wrapper: all tests passed\n");
    return 0;
}
