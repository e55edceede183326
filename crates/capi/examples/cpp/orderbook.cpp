// orderbook.cpp - a limit order book. Several threads submit, match and cancel orders, each in a
// transaction.
//
//   g++ -std=c++17 orderbook.cpp -o orderbook $(pkg-config --cflags --libs lastword) -pthread
//   ./orderbook PATH
//
// PATH is a pool. The first run creates it, and later runs continue on it.
//
//   book -> best level -> next level ...        one list for each side
//             |-> oldest order <-> newer order  first come, first served
//
// A resting bid holds its cash, and a resting ask its shares. So the cash of all traders and bids
// never changes in sum, nor do the shares of all traders and asks.
#include <lastword.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t traders = 50;
constexpr std::int64_t cash_each = 100000;
constexpr std::int64_t shares_each = 1000;
constexpr std::size_t open_most = 4;
constexpr int threads = 3;
constexpr int actions = 10000;

enum side : std::uint32_t { bid, ask };

struct level;

struct order {
    std::uint32_t trader;
    side which;
    std::int64_t price, quantity;
    lw::ptr<level> at;
    lw::ptr<order> older, newer;
};

struct level {
    std::int64_t price;
    lw::ptr<order> oldest, newest;
    lw::ptr<level> next; // the next worse price
};

struct trader {
    std::int64_t cash, shares;
    std::array<lw::ptr<order>, open_most> open;
};

struct book {
    std::array<lw::ptr<level>, 2> best; // of bids and of asks
    lw::array<trader> traders;
    std::uint64_t trades;
    std::uint64_t filled;
};

side other(side which) {
    return which == bid ? ask : bid;
}

// Whether a price of this side precedes another one in the book.
bool better(side which, std::int64_t a, std::int64_t b) {
    return which == bid ? a > b : a < b;
}

template <class T>
void add(lw::tx& tx, lw::place<T> at, T more) {
    tx.set(at, tx.get(at) + more);
}

// The book and the traders. Both addresses are constant after their creation.
class market {
public:
    market(lw::ptr<book> root, lw::array<trader> all) : book_(root), traders_(all) {}

    // Trades while prices meet, and lets the remaining quantity rest in the book. Returns the
    // traded quantity. Aborts if the trader cannot pay or has too many orders, which undoes all
    // trades.
    std::int64_t submit(lw::tx& tx, order mine) const {
        const auto me = traders_.at(mine.trader);
        const auto held = me.field(mine.which == bid ? &trader::cash : &trader::shares);
        const std::int64_t offered = mine.which == bid ? mine.price * mine.quantity : mine.quantity;
        if (tx.get(held) < offered) tx.abort("insufficient funds");
        add(tx, held, -offered);

        // An order rests only if no price of the other side meets it. This transaction may only
        // read that side, so LW_SNAPSHOT needs the protection. Other designs ignore it.
        tx.protect(book_);
        const std::int64_t wanted = mine.quantity;
        const auto first = book_.field(&book::best).at(other(mine.which));
        while (mine.quantity > 0) {
            const lw::ptr<level> against = tx.get(first);
            if (!against || better(other(mine.which), mine.price, tx.get(against).price)) break;
            mine.quantity -= exchange(tx, mine, tx.get(against.field(&level::oldest)));
        }
        if (mine.quantity > 0) rest(tx, mine);
        return wanted - mine.quantity;
    }

    // Removes an order from the book and returns its cash or shares to the trader. Returns whether
    // the order existed.
    bool cancel(lw::tx& tx, std::uint32_t owner, std::size_t which) const {
        const auto me = traders_.at(owner);
        const lw::ptr<order> mine = tx.get(me.field(&trader::open).at(which));
        if (!mine) return false;
        const order all = tx.get(mine);
        if (all.which == bid) {
            add(tx, me.field(&trader::cash), all.price * all.quantity);
        } else {
            add(tx, me.field(&trader::shares), all.quantity);
        }
        remove(tx, mine);
        return true;
    }

    // Checks one snapshot of the book. Returns the first problem, or an empty string.
    std::string check(lw::tx& tx) const {
        std::int64_t cash = 0, shares = 0;
        std::size_t open = 0, resting = 0;
        for (std::uint32_t i = 0; i < traders; i++) {
            const trader one = tx.get(traders_.at(i));
            if (one.cash < 0 || one.shares < 0) return "a trader has negative cash or shares";
            cash += one.cash;
            shares += one.shares;
            for (const auto& mine : one.open) open += mine ? 1 : 0;
        }
        std::array<std::int64_t, 2> best{};
        for (const side which : {bid, ask}) {
            std::int64_t before = 0;
            for (auto at = tx.get(book_.field(&book::best).at(which)); at;) {
                const level here = tx.get(at);
                if (before != 0 && !better(which, before, here.price)) return "levels out of order";
                if (before == 0) best[which] = here.price;
                before = here.price;
                if (!here.oldest) return "an empty level";
                lw::ptr<order> older;
                for (auto mine = here.oldest; mine;) {
                    const order one = tx.get(mine);
                    if (one.older != older || one.at != at) return "a wrong link";
                    if (one.price != here.price || one.which != which) return "a wrong level";
                    if (one.quantity <= 0) return "an order of nothing";
                    const auto slots = tx.get(traders_.at(one.trader)).open;
                    if (std::count(slots.begin(), slots.end(), mine) != 1) return "a lost order";
                    (which == bid ? cash : shares) += one.quantity * (which == bid ? one.price : 1);
                    resting++;
                    older = mine;
                    mine = one.newer;
                }
                if (here.newest != older) return "a level's newest order is wrong";
                at = here.next;
            }
        }
        if (best[bid] && best[ask] && best[bid] >= best[ask]) return "the book is crossed";
        if (open != resting) return "orders that are not in the book";
        if (cash != traders * cash_each) return "cash: " + std::to_string(cash);
        if (shares != traders * shares_each) return "shares: " + std::to_string(shares);
        return "";
    }

private:
    // Trades with an order of the other side at its price. Returns the quantity.
    std::int64_t exchange(lw::tx& tx, const order& mine, lw::ptr<order> resting) const {
        const order theirs = tx.get(resting);
        const std::int64_t quantity = std::min(mine.quantity, theirs.quantity);
        const auto me = traders_.at(mine.trader), them = traders_.at(theirs.trader);
        if (mine.which == bid) {
            add(tx, me.field(&trader::shares), quantity);
            add(tx, them.field(&trader::cash), quantity * theirs.price);
            // The bid held its own price and pays the better one.
            add(tx, me.field(&trader::cash), quantity * (mine.price - theirs.price));
        } else {
            add(tx, me.field(&trader::cash), quantity * theirs.price);
            add(tx, them.field(&trader::shares), quantity);
        }
        if (quantity == theirs.quantity) {
            remove(tx, resting);
        } else {
            tx.set(resting.field(&order::quantity), theirs.quantity - quantity);
        }
        add<std::uint64_t>(tx, book_.field(&book::trades), 1);
        return quantity;
    }

    // Returns the word that points to the first level of a side that is not better than a price.
    lw::place<lw::ptr<level>> find(lw::tx& tx, side which, std::int64_t price) const {
        auto link = book_.field(&book::best).at(which);
        for (;;) {
            const lw::ptr<level> at = tx.get(link);
            if (!at || !better(which, tx.get(at.field(&level::price)), price)) return link;
            link = at.field(&level::next);
        }
    }

    // Appends an order to its level, and stores it in a slot of its trader.
    void rest(lw::tx& tx, order mine) const {
        const auto slots = traders_.at(mine.trader).field(&trader::open);
        const auto open = tx.get(slots);
        const auto slot = std::find(open.begin(), open.end(), nullptr);
        if (slot == open.end()) tx.abort("too many orders");

        const auto link = find(tx, mine.which, mine.price);
        lw::ptr<level> at = tx.get(link);
        if (!at || tx.get(at.field(&level::price)) != mine.price) {
            at = tx.alloc(level{mine.price, nullptr, nullptr, at});
            tx.set(link, at);
        }
        mine.at = at;
        mine.older = tx.get(at.field(&level::newest));
        mine.newer = nullptr;
        const lw::ptr<order> made = tx.alloc(mine);
        tx.set(mine.older ? mine.older.field(&order::newer) : at.field(&level::oldest), made);
        tx.set(at.field(&level::newest), made);
        tx.set(slots.at(static_cast<std::size_t>(slot - open.begin())), made);
    }

    // Unlinks and frees an order, and its level if that is empty then.
    void remove(lw::tx& tx, lw::ptr<order> gone) const {
        const order all = tx.get(gone);
        tx.set(all.older ? all.older.field(&order::newer) : all.at.field(&level::oldest),
               all.newer);
        tx.set(all.newer ? all.newer.field(&order::older) : all.at.field(&level::newest),
               all.older);
        if (!all.older && !all.newer) {
            tx.set(find(tx, all.which, all.price), tx.get(all.at.field(&level::next)));
            tx.free(all.at);
        }
        const auto slots = traders_.at(all.trader).field(&trader::open);
        const auto open = tx.get(slots);
        const auto slot = std::find(open.begin(), open.end(), gone);
        if (slot == open.end()) tx.abort("an order without a slot of its trader");
        tx.set(slots.at(static_cast<std::size_t>(slot - open.begin())), nullptr);
        tx.free(gone);
    }

    lw::ptr<book> book_;
    lw::array<trader> traders_;
};

lw::pool open(const std::string& path) {
    lw::options options;
    options.layout = "example orderbook";
    options.bytes = 4 << 20;
    options.log_bytes = 4 << 20;
    try {
        return lw::pool::open(path, options);
    } catch (const lw::error& error) {
        if (error.status() != LW_ENOENT) throw;
    }
    return lw::pool::create(path, options);
}

// Creates the traders. Each step may be repeated after a crash.
market begin(lw::pool& pool) {
    const lw::ptr<book> root = pool.root<book>();
    lw::worker worker(pool);
    const auto all = worker.run([&](lw::tx& tx) {
        const auto place = root.field(&book::traders);
        if (tx.get(place).size() == 0) tx.set(place, tx.reserve<trader>(traders));
        return tx.get(place);
    }).value;
    while (!worker.run([&](lw::tx& tx) { return tx.prepare(all); }).value) {
    }
    worker.run([&](lw::tx& tx) {
        if (tx.get(root.field(&book::filled))) return;
        for (std::uint32_t i = 0; i < traders; i++) {
            tx.set(all.at(i), trader{cash_each, shares_each, {}});
        }
        tx.set(root.field(&book::filled), 1);
    });
    return market(root, all);
}

struct tally {
    long submitted = 0, refused = 0, cancelled = 0;
    std::int64_t traded = 0;
    std::uint64_t last = 0; // ID of the last transaction
};

tally act(lw::pool& pool, const market& market, unsigned seed) {
    lw::worker worker(pool);
    std::mt19937 random(seed);
    tally done;
    for (int i = 0; i < actions; i++) {
        const auto owner = static_cast<std::uint32_t>(random() % traders);
        if (random() % 4 == 0) {
            const std::size_t which = random() % open_most;
            const auto [was_there, id] =
                worker.run([&](lw::tx& tx) { return market.cancel(tx, owner, which); });
            done.cancelled += was_there;
            done.last = id;
            continue;
        }
        const side which = random() % 2 ? bid : ask;
        const std::int64_t price = 90 + random() % 21, quantity = 1 + random() % 20;
        const order mine{owner, which, price, quantity, nullptr, nullptr, nullptr};
        try {
            const auto [traded, id] =
                worker.run([&](lw::tx& tx) { return market.submit(tx, mine); });
            done.submitted++;
            done.traded += traded;
            done.last = id;
        } catch (const lw::aborted&) {
            done.refused++;
        }
    }
    return done;
}

bool check(lw::pool& pool, const market& market, const char* when) {
    lw::worker worker(pool);
    const auto wrong = worker.read([&](lw::tx& tx) { return market.check(tx); }).value;
    if (!wrong.empty()) {
        std::fprintf(stderr, "orderbook: %s: %s\n", when, wrong.c_str());
        return false;
    }
    std::printf("%s: cash and shares unchanged, the book is consistent\n", when);
    return true;
}

bool run(const std::string& path) {
    {
        lw::pool pool = open(path);
        const market market = begin(pool);
        if (!check(pool, market, "opened")) return false;
        std::vector<tally> tallies(threads);
        std::vector<std::exception_ptr> thrown(threads);
        std::vector<std::thread> running;
        for (unsigned i = 0; i < threads; i++) {
            running.emplace_back([&, i] {
                try {
                    tallies[i] = act(pool, market, i + 1);
                } catch (...) {
                    thrown[i] = std::current_exception();
                }
            });
        }
        for (auto& one : running) one.join();
        for (const auto& one : thrown) {
            if (one) std::rethrow_exception(one);
        }
        tally sum;
        for (const tally& one : tallies) {
            sum.submitted += one.submitted;
            sum.refused += one.refused;
            sum.cancelled += one.cancelled;
            sum.traded += one.traded;
            sum.last = std::max(sum.last, one.last);
        }
        pool.wait(sum.last);
        std::printf("%ld orders (%ld refused), %lld shares traded, %ld cancelled; durable\n",
                    sum.submitted, sum.refused, static_cast<long long>(sum.traded), sum.cancelled);
        if (!check(pool, market, "at the end")) return false;
        pool.close();
    }
    lw::pool pool = open(path);
    return check(pool, begin(pool), "reopened");
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: orderbook PATH\n");
        return 2;
    }
    try {
        return run(argv[1]) ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "orderbook: %s\n", error.what());
        return 1;
    }
}
