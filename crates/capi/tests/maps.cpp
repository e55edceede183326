// maps.cpp - tests of lastword_maps.hpp.
//
//   maps PATH            creates a pool at PATH with maps for Rust
//   maps PATH shared     checks the pairs that Rust has added
//
// Prints "maps: all tests passed", or the failed expectation and exits with 1.
#include <lastword_maps.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

namespace {

void expect(bool holds, const char* claim) {
    if (holds) return;
    std::fprintf(stderr, "maps: failed: %s\n", claim);
    std::exit(1);
}

template <class F>
std::string error_of(int status, F&& call) {
    try {
        call();
    } catch (const lw::error& error) {
        expect(error.status() == status, error.what());
        return error.what();
    }
    expect(false, "an error is thrown");
    return "";
}

struct account {
    std::int64_t cents;
    std::uint64_t owner;
};
struct nameless {
    std::uint32_t a, b, c;
};

} // namespace

template <>
struct lw::type_name<account> {
    static constexpr auto value = "Account";
};

namespace {

using tag = std::tuple<std::string, std::uint16_t>;

// The maps that Rust opens, too.
struct shared {
    lw::map<std::string, std::uint32_t> ages;
    lw::map<tag, std::string> tags;
    lw::hash_map<std::int64_t, account> accounts;

    explicit shared(lw::pool& pool)
        : ages(decltype(ages)::open(pool, "ages")), tags(decltype(tags)::open(pool, "tags")),
          accounts(decltype(accounts)::open(pool, "accounts")) {}
};

void fill(lw::worker& worker, const shared& maps) {
    worker.run([&](lw::tx& tx) {
        maps.ages.in(tx).insert_or_assign("ann", 40);
        for (std::uint16_t i = 0; i < 300; i++) {
            const std::string name = "a" + std::string(1, static_cast<char>(i % 3)) + "b";
            maps.tags.in(tx).insert_or_assign({name, i}, std::to_string(i));
            maps.accounts.in(tx).insert_or_assign(100 - i, account{-i, i});
        }
    });
}

void check_shared(lw::worker& worker, const shared& maps) {
    worker.read([&](lw::tx& tx) {
        expect(maps.ages.in(tx).at("bob") == 50, "an age of Rust");
        expect(maps.tags.in(tx).at({std::string("a\0b", 3), 9999}) == "of Rust", "a tag of Rust");
        const auto made = maps.accounts.in(tx).at(INT64_MIN);
        expect(made.cents == 7 && made.owner == 8, "an account of Rust");
        expect(maps.tags.in(tx).size() == 301, "all tags");
    });
}

void types(lw::pool& pool) {
    const auto other = [&] { lw::map<std::string, std::int32_t>::open(pool, "ages"); };
    const std::string text = error_of(LW_EMISMATCH, other);
    expect(text.find("is BTreeMap<str, u32>") != std::string::npos, "it names the stored types");
    expect(text.find("not BTreeMap<str, i32>") != std::string::npos, "and those of the program");
    error_of(LW_EMISMATCH, [&] { lw::hash_map<std::string, std::uint32_t>::open(pool, "ages"); });
    error_of(LW_EMISMATCH, [&] { pool.root<account>(); });
    lw::map<int, nameless>::open(pool, "nameless");
    const auto bytes = [&] { lw::map<int, std::array<std::byte, 13>>::open(pool, "nameless"); };
    expect(error_of(LW_EMISMATCH, bytes).find("[u8; 12]") != std::string::npos, "bytes of a size");
}

// Compares all pairs with a map of std that has the same order.
template <class M, class S>
void equal(const M& all, const S& expected) {
    expect(all.size() == expected.size(), "the number of pairs");
    expect(all.empty() == expected.empty(), "whether it is empty");
    auto it = expected.begin();
    for (const auto& [key, value] : all) {
        expect(it != expected.end() && key == it->first && value == it->second, "a pair");
        ++it;
    }
    expect(it == expected.end(), "all pairs");
    auto back = expected.rbegin();
    for (auto at = all.rbegin(); at != all.rend(); ++at, ++back) {
        expect(at->first == back->first, "a pair from the end");
    }
    expect(back == expected.rend(), "all pairs from the end");
}

// Random changes of a map with keys of K, whose order is that of std::less.
template <class K, class F>
void model(lw::pool& pool, lw::worker& worker, const std::string& name, F make) {
    const auto handle = lw::map<K, std::string>::open(pool, name);
    std::map<K, std::string> expected;
    std::mt19937 random(7);
    for (int step = 0; step < 40; step++) {
        worker.run([&](lw::tx& tx) {
            auto all = handle.in(tx);
            auto now = expected;
            for (int i = 0; i < 10; i++) {
                const K key = make(random());
                const std::string value(random() % 40, 'v');
                switch (random() % 5) {
                case 0:
                    expect(all.erase(key) == now.erase(key), "erase returns a count");
                    break;
                case 1:
                    expect(all.try_emplace(key, value) == now.try_emplace(key, value).second,
                           "try_emplace inserts what is not there");
                    break;
                default:
                    expect(all.insert_or_assign(key, value) ==
                               now.insert_or_assign(key, value).second,
                           "insert_or_assign returns whether the key is new");
                }
                const K other = make(random());
                const auto low = all.lower_bound(other), high = all.upper_bound(other);
                const auto low_std = now.lower_bound(other), high_std = now.upper_bound(other);
                expect((low == all.end()) == (low_std == now.end()), "lower_bound ends");
                expect(low == all.end() || low->first == low_std->first, "lower_bound");
                expect((high == all.end()) == (high_std == now.end()), "upper_bound ends");
                expect(high == all.end() || high->first == high_std->first, "upper_bound");
                expect((all.find(other) != all.end()) == (now.count(other) == 1), "find");
                expect(all.contains(other) == (now.count(other) == 1), "contains");
                expect(all.get(other).has_value() == (now.count(other) == 1), "get");
            }
            expected = std::move(now);
        });
        worker.read([&](lw::tx& tx) { equal(handle.in(tx), expected); });
    }
    expect(expected.size() > 2, "the model has pairs");
}

// Compares the order of encoded keys with std's, and decodes them.
template <class K, class F>
void order(F make) {
    using codec = lw::detail::key_codec<K>;
    std::map<K, std::string> all;
    std::mt19937 random(7);
    for (int i = 0; i < 200; i++) {
        const K key = make(random());
        std::string encoded;
        codec::encode(encoded, key, true);
        const auto from = reinterpret_cast<const unsigned char*>(encoded.data());
        lw::detail::input in{from, from + encoded.size()};
        expect(codec::decode(in, true) == key && in.at == in.end, "a key is decoded");
        all[key] = encoded;
    }
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    expect(std::is_sorted(all.begin(), all.end(), less), "encoded keys keep their order");
}

void keys(lw::pool& pool, lw::worker& worker) {
    const auto text = [](unsigned n) { return std::string(n % 4, static_cast<char>(n / 4 % 3)); };
    model<std::int32_t>(pool, worker, "i32", [](unsigned n) {
        return static_cast<std::int32_t>(n % 64) - 32;
    });
    model<std::pair<std::string, std::int8_t>>(pool, worker, "pairs", [&](unsigned n) {
        return std::pair(text(n), static_cast<std::int8_t>(n % 7 - 3));
    });
    order<std::uint64_t>([](unsigned n) { return n * 0x1'0000'0001u; });
    order<std::int64_t>([](unsigned n) { return static_cast<std::int64_t>(n) - INT32_MAX; });
    order<std::string>([&](unsigned n) { return text(n) + "\xff"; });
    order<std::vector<unsigned char>>([](unsigned n) {
        return std::vector<unsigned char>(n % 5, static_cast<unsigned char>(n % 251));
    });
    order<std::tuple<bool, char32_t, std::array<std::byte, 2>>>([](unsigned n) {
        const std::array<std::byte, 2> bytes{std::byte(n % 5), std::byte(n % 3 * 100)};
        return std::tuple(n % 2 == 0, static_cast<char32_t>(U'a' + n % 3), bytes);
    });
    order<std::pair<std::optional<std::string>, std::uint16_t>>([&](unsigned n) {
        const auto first = n % 5 == 0 ? std::nullopt : std::optional(text(n));
        return std::pair(first, static_cast<std::uint16_t>(n));
    });
}

void iterators(lw::pool& pool, lw::worker& worker) {
    const auto handle = lw::map<std::uint32_t, double>::open(pool, "halves");
    worker.run([&](lw::tx& tx) {
        auto all = handle.in(tx);
        for (std::uint32_t i = 0; i < 100; i++) all.insert_or_assign(i, i / 2.0);
        auto it = all.find(40);
        auto copy = it++;
        expect(copy->first == 40 && it->second == 20.5, "a copy stays");
        expect((--it)->first == 40 && it == copy, "steps back to the copy");
        expect(std::prev(all.end())->first == 99 && std::next(copy, 5)->first == 45, "std::next");
        expect(std::distance(all.begin(), all.end()) == 100, "std::distance");
        const auto odd = [](const auto& pair) { return pair.first % 2 == 1; };
        expect(std::count_if(all.begin(), all.end(), odd) == 50, "std::count_if");
        for (it = all.begin(); it != all.end();) {
            it = it->first % 2 == 1 ? all.erase(it) : std::next(it);
        }
        expect(all.size() == 50 && std::count_if(all.begin(), all.end(), odd) == 0, "erased");
        all.erase(40);
        expect(copy->first == 40 && (++copy)->first == 42, "an iterator outlasts its pair");
        all.clear();
        expect(all.empty() && all.begin() == all.end(), "cleared");
    });
    const auto hashed = lw::hash_map<std::string, std::vector<std::byte>>::open(pool, "hashed");
    worker.run([&](lw::tx& tx) {
        auto all = hashed.in(tx);
        for (int i = 0; i < 200; i++) {
            all.insert_or_assign(std::to_string(i), std::vector<std::byte>(i, std::byte(i)));
        }
        std::size_t bytes = 0;
        std::map<std::string, int> seen;
        for (auto it = all.begin(); it != all.end();) {
            expect(seen[it->first]++ == 0, "each pair once");
            bytes += it->second.size();
            it = all.erase(it);
        }
        expect(seen.size() == 200 && bytes == 199 * 100 && all.empty(), "all pairs");
    });
}

void errors(lw::pool& pool, lw::worker& worker, const shared& maps) {
    try {
        worker.run([&](lw::tx& tx) {
            maps.ages.in(tx).insert_or_assign("eve", 1);
            maps.ages.in(tx).at("missing");
        });
        expect(false, "at throws");
    } catch (const std::out_of_range&) {
    }
    worker.run([&](lw::tx& tx) {
        auto ages = maps.ages.in(tx);
        expect(!ages.contains("eve"), "it was rolled back");
        error_of(LW_EINVAL, [&] { ages.insert_or_assign("\xff", 1); });
        error_of(LW_ENESTED, [&] { shared again(pool); });
        ages.insert_or_assign("zoe", 2);
    });
    worker.run([&](lw::tx& tx) {
        expect(maps.ages.in(tx).erase("zoe") == 1, "the transaction went on");
    });
    error_of(LW_EREADONLY, [&] {
        worker.read([&](lw::tx& tx) { maps.ages.in(tx).erase("ann"); });
    });
}

void threads(lw::pool& pool) {
    const auto handle = lw::hash_map<std::uint32_t, std::uint64_t>::open(pool, "counts");
    std::vector<std::thread> running;
    for (int thread = 0; thread < 2; thread++) {
        running.emplace_back([&] {
            lw::worker worker(pool);
            for (std::uint32_t i = 0; i < 1000; i++) {
                worker.run([&](lw::tx& tx) {
                    auto all = handle.in(tx);
                    const auto before = all.get(i % 7).value_or(0);
                    for (const auto& [key, count] : all) expect(key < 7 && count > 0, "a pair");
                    all.insert_or_assign(i % 7, before + 1);
                });
            }
        });
    }
    for (auto& one : running) one.join();
    lw::worker worker(pool);
    worker.read([&](lw::tx& tx) {
        std::uint64_t sum = 0;
        for (const auto& pair : handle.in(tx)) sum += pair.second;
        expect(sum == 2000, "every transaction counts once");
    });
}

void run(const std::string& path, bool is_shared) {
    if (is_shared) {
        lw::pool pool = lw::pool::open_read_only(path);
        const shared maps(pool);
        lw::worker worker(pool);
        check_shared(worker, maps);
        error_of(LW_EREADONLY, [&] { lw::map<int, int>::open(pool, "missing"); });
        return;
    }
    lw::options options;
    options.bytes = options.log_bytes = 2 << 20;
    options.max_bytes = 4 << 20;
    options.medium = LW_EMULATED;
    lw::pool pool = lw::pool::create(path, options);
    const shared maps(pool);
    {
        lw::worker worker(pool);
        fill(worker, maps);
        types(pool);
        keys(pool, worker);
        iterators(pool, worker);
        errors(pool, worker, maps);
    }
    threads(pool);
    expect(pool.grow(3 << 20) == 3 << 20 && pool.scrub().damaged == 0, "it grows");
    pool.close();
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 2 && argc != 3) {
        std::fprintf(stderr, "usage: maps PATH [shared]\n");
        return 2;
    }
    try {
        run(argv[1], argc == 3);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "maps: %s\n", error.what());
        return 1;
    }
    std::printf("maps: all tests passed\n");
    return 0;
}
