// sessions.cpp - a session store: a hash map of sessions, and an ordered map of their ends.
//
//   c++ -std=c++17 sessions.cpp -o sessions $(pkg-config --cflags --libs lastword) -pthread
//   ./sessions PATH
//
// PATH is a pool. Each run removes the sessions that have ended, starts three and lists all. One
// transaction changes both maps, so they agree after a crash at any time.
#include <lastword_maps.hpp>

#include <cstdio>
#include <string>
#include <utility>

constexpr std::uint64_t life = 6;

struct user {
    char name[8];
    std::uint64_t since;
};

template <>
struct lw::type_name<user> {
    static constexpr auto value = "User"; // the struct of this name in Rust opens the map, too
};

struct store {
    lw::hash_map<std::string, user> users;                     // by session
    lw::map<std::pair<std::uint64_t, std::string>, bool> ends; // by end and session

    void start(lw::tx& tx, const std::string& name, std::uint64_t now) const {
        const std::string session = name + "-" + std::to_string(now);
        user one{{}, now};
        name.copy(one.name, sizeof one.name - 1);
        users.in(tx).insert_or_assign(session, one);
        ends.in(tx).insert_or_assign({now + life, session}, true);
    }

    void expire(lw::tx& tx, std::uint64_t now) const {
        auto all = ends.in(tx);
        for (auto end = all.begin(); end != all.end() && end->first.first <= now;) {
            users.in(tx).erase(end->first.second);
            end = all.erase(end);
        }
    }

    void list(lw::tx& tx) const {
        for (const auto& [end, _] : ends.in(tx)) {
            const user one = users.in(tx).at(end.second);
            std::printf("%s of %s since %llu\n", end.second.c_str(), one.name,
                        static_cast<unsigned long long>(one.since));
        }
    }
};

static lw::pool open(const std::string& path) try {
    return lw::pool::open(path);
} catch (const lw::error& error) {
    if (error.status() != LW_ENOENT) throw;
    return lw::pool::create(path);
}

int main(int argc, char** argv) try {
    if (argc != 2) return std::fprintf(stderr, "usage: sessions PATH\n"), 2;
    lw::pool pool = open(argv[1]);
    const store all{decltype(store::users)::open(pool, "users"),
                    decltype(store::ends)::open(pool, "ends")};
    lw::worker worker(pool);
    const std::uint64_t now = pool.durable(); // ID of the last transaction, in place of the time
    worker.run([&](lw::tx& tx) { all.expire(tx, now); });
    for (const char* name : {"ann", "bob", "eve"}) {
        worker.run([&](lw::tx& tx) { all.start(tx, name, now); });
    }
    worker.read([&](lw::tx& tx) { all.list(tx); });
    pool.flush();
} catch (const std::exception& error) {
    std::fprintf(stderr, "sessions: %s\n", error.what());
    return 1;
}
