// world.cpp - a small durable game world in which several threads play.
//
//   g++ -std=c++17 world.cpp -o world $(pkg-config --cflags --libs lastword) -pthread
//   ./world PATH
//
// PATH is a pool. The first run creates it, and later runs continue on it. Each item always belongs
// to one entity, every entity stands inside the world, and its health is between 1 and 100. Neither
// the threads nor a kill of the program at any time can break this.
#include <lastword.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t entities = 64;
constexpr std::uint64_t items_each = 4;
constexpr std::int32_t width = 16;
constexpr std::int32_t health_most = 100;
constexpr int threads = 3;
constexpr int actions = 20000;

// Types in the pool. A list of items begins in its owner.
struct item {
    std::uint64_t number;
    lw::ptr<item> next;
};

struct entity {
    std::int32_t x, y;
    std::int32_t health;
    std::uint32_t victories;
    lw::ptr<item> inventory;
};

struct world {
    lw::array<entity> entities;
    std::uint64_t filled;
};

struct spot {
    std::int32_t x, y;
};

bool near(const entity& a, const entity& b) {
    return std::abs(a.x - b.x) <= 2 && std::abs(a.y - b.y) <= 2;
}

// Removes and returns the first item of a list, or returns null.
lw::ptr<item> take(lw::tx& tx, lw::place<lw::ptr<item>> list) {
    const lw::ptr<item> first = tx.get(list);
    if (first) tx.set(list, tx.get(first.field(&item::next)));
    return first;
}

void put(lw::tx& tx, lw::place<lw::ptr<item>> list, lw::ptr<item> one) {
    tx.set(one.field(&item::next), tx.get(list));
    tx.set(list, one);
}

// A step, within the borders.
void move(lw::tx& tx, lw::place<entity> mover, spot by) {
    const entity now = tx.get(mover);
    tx.set(mover.field(&entity::x), std::clamp(now.x + by.x, 0, width - 1));
    tx.set(mover.field(&entity::y), std::clamp(now.y + by.y, 0, width - 1));
}

// A blow, if both stand near each other. A beaten entity loses all items to the victor and restarts
// elsewhere. The caller chooses `elsewhere`, so that a body that runs again does the same.
enum class fight { too_far, wounded, beaten };

fight strike(lw::tx& tx, lw::place<entity> attacker, lw::place<entity> other, spot elsewhere) {
    const entity one = tx.get(attacker);
    entity two = tx.get(other);
    if (!near(one, two)) return fight::too_far;
    two.health -= 30;
    if (two.health > 0) {
        tx.set(other.field(&entity::health), two.health);
        return fight::wounded;
    }
    while (const lw::ptr<item> won = take(tx, other.field(&entity::inventory))) {
        put(tx, attacker.field(&entity::inventory), won);
    }
    tx.set(attacker.field(&entity::victories), one.victories + 1);
    tx.set(other, entity{elsewhere.x, elsewhere.y, health_most, two.victories, nullptr});
    return fight::beaten;
}

// Both give their first item. If the second has none, the abort also undoes the gift of the first.
void trade(lw::tx& tx, lw::place<entity> one, lw::place<entity> two) {
    const lw::ptr<item> mine = take(tx, one.field(&entity::inventory));
    if (!mine) tx.abort("the first has nothing to give");
    put(tx, two.field(&entity::inventory), mine);
    // The second gives its first item from before the trade.
    const auto rest = mine.field(&item::next);
    const lw::ptr<item> theirs = take(tx, rest);
    if (!theirs) tx.abort("the second has nothing to give");
    put(tx, one.field(&entity::inventory), theirs);
}

void recover(lw::tx& tx, lw::place<entity> resting) {
    const auto health = resting.field(&entity::health);
    tx.set(health, std::min(tx.get(health) + 5, health_most));
}

lw::pool open(const std::string& path) {
    lw::options options;
    options.layout = "example world";
    options.bytes = 4 << 20;
    options.log_bytes = 4 << 20;
    try {
        return lw::pool::open(path, options);
    } catch (const lw::error& error) {
        if (error.status() != LW_ENOENT) throw;
    }
    return lw::pool::create(path, options);
}

// Creates the world. Each step may be repeated after a crash.
lw::array<entity> begin(lw::pool& pool) {
    const lw::ptr<world> root = pool.root<world>();
    lw::worker worker(pool);
    const auto all = worker.run([&](lw::tx& tx) {
        const auto place = root.field(&world::entities);
        if (tx.get(place).size() == 0) tx.set(place, tx.reserve<entity>(entities));
        return tx.get(place);
    }).value;
    while (!worker.run([&](lw::tx& tx) { return tx.prepare(all); }).value) {
    }
    worker.run([&](lw::tx& tx) {
        if (tx.get(root.field(&world::filled))) return;
        for (std::uint64_t i = 0; i < all.size(); i++) {
            const auto x = static_cast<std::int32_t>(i) % width;
            const auto y = static_cast<std::int32_t>(i) / width;
            entity one{x, y, health_most, 0, nullptr};
            for (std::uint64_t number = 0; number < items_each; number++) {
                one.inventory = tx.alloc(item{i * items_each + number, one.inventory});
            }
            tx.set(all.at(i), one);
        }
        tx.set(root.field(&world::filled), 1);
    });
    return all;
}

struct tally {
    long moves = 0, blows = 0, victories = 0, trades = 0, refused = 0;
    std::uint64_t last = 0; // ID of the last transaction
};

tally play(lw::pool& pool, lw::array<entity> all, unsigned seed) {
    lw::worker worker(pool);
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::int32_t>(random() % n); };
    tally done;
    for (int i = 0; i < actions; i++) {
        const auto one = static_cast<std::uint64_t>(below(entities));
        const auto two = (one + 1 + static_cast<std::uint64_t>(below(entities - 1))) % entities;
        const auto a = all.at(one), b = all.at(two);
        const int action = below(4);
        if (action == 0) {
            const spot by{below(7) - 3, below(7) - 3};
            done.last = worker.run([&](lw::tx& tx) { move(tx, a, by); });
            done.moves++;
        } else if (action == 1) {
            const spot elsewhere{below(width), below(width)};
            const auto [how, id] =
                worker.run([&](lw::tx& tx) { return strike(tx, a, b, elsewhere); });
            done.blows += how != fight::too_far;
            done.victories += how == fight::beaten;
            done.last = id;
        } else if (action == 2) {
            try {
                done.last = worker.run([&](lw::tx& tx) { trade(tx, a, b); });
                done.trades++;
            } catch (const lw::aborted&) {
                done.refused++;
            }
        } else {
            done.last = worker.run([&](lw::tx& tx) { recover(tx, a); });
        }
    }
    return done;
}

// Checks one snapshot of the world. Returns whether it is consistent.
bool check(lw::pool& pool, lw::array<entity> all, const char* when) {
    lw::worker worker(pool);
    const std::string wrong = worker.read([&](lw::tx& tx) -> std::string {
        std::vector<bool> seen(entities * items_each);
        std::size_t found = 0;
        for (std::uint64_t i = 0; i < all.size(); i++) {
            const entity one = tx.get(all.at(i));
            const std::string name = "entity " + std::to_string(i);
            if (one.health < 1 || one.health > health_most) return name + ": health";
            if (one.x < 0 || one.x >= width || one.y < 0 || one.y >= width) return name + ": place";
            for (lw::ptr<item> at = one.inventory; at;) {
                const item thing = tx.get(at);
                if (thing.number >= seen.size()) return name + ": an unknown item";
                if (seen[thing.number]) return name + ": an item with two owners";
                seen[thing.number] = true;
                found++;
                at = thing.next;
            }
        }
        return found == seen.size() ? "" : "items are missing";
    }).value;
    if (!wrong.empty()) {
        std::fprintf(stderr, "world: %s: %s\n", when, wrong.c_str());
        return false;
    }
    std::printf("%s: %d entities, %d items, all consistent\n", when, static_cast<int>(entities),
                static_cast<int>(entities * items_each));
    return true;
}

bool run(const std::string& path) {
    {
        lw::pool pool = open(path);
        const lw::array<entity> all = begin(pool);
        if (!check(pool, all, "opened")) return false;
        std::vector<tally> tallies(threads);
        std::vector<std::exception_ptr> thrown(threads);
        std::vector<std::thread> players;
        for (unsigned i = 0; i < threads; i++) {
            players.emplace_back([&, i] {
                try {
                    tallies[i] = play(pool, all, i + 1);
                } catch (...) {
                    thrown[i] = std::current_exception();
                }
            });
        }
        for (auto& player : players) player.join();
        for (const auto& one : thrown) {
            if (one) std::rethrow_exception(one);
        }
        tally sum;
        for (const tally& one : tallies) {
            sum.moves += one.moves;
            sum.blows += one.blows;
            sum.victories += one.victories;
            sum.trades += one.trades;
            sum.refused += one.refused;
            sum.last = std::max(sum.last, one.last);
        }
        pool.wait(sum.last);
        std::printf("%ld moves, %ld blows, %ld victories, %ld trades (%ld refused); durable\n",
                    sum.moves, sum.blows, sum.victories, sum.trades, sum.refused);
        if (!check(pool, all, "at the end")) return false;
        pool.close();
    }
    lw::pool pool = open(path);
    return check(pool, begin(pool), "reopened");
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: world PATH\n");
        return 2;
    }
    try {
        return run(argv[1]) ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "world: %s\n", error.what());
        return 1;
    }
}
