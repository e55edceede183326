// lastword_maps.hpp - maps by name in C++17, over lastword_maps.h.
//
//   const auto ages = lw::map<std::string, std::uint32_t>::open(pool, "ages");   once
//   worker.run([&](lw::tx& tx) {
//       auto all = ages.in(tx);                       the map in this transaction
//       all.insert_or_assign("ann", 40);
//       if (auto it = all.find("bob"); it != all.end()) all.erase(it);
//       for (const auto& [name, age] : all) sum += age;
//       for (auto it = all.lower_bound("c"); it != all.end(); ++it) print(it->first);
//   });
//
// lw::map is ordered, lw::hash_map is not. Both are values to be copied, for all threads, valid
// until the pool is closed. A pool has either maps or a root<T>.
//
// | key                                | value, too | in Rust        | order          |
// | std::string: UTF-8, else LW_EINVAL | yes        | str            | by bytes       |
// | std::vector<std::byte>             | yes        | [u8]           | by bytes       |
// | std::array<std::byte, N>           | yes        | [u8; N]        | by bytes       |
// | integers of 8 to 64 bits, bool     | yes        | u8 ... i64     | of the numbers |
// | char32_t                           | yes        | char           | of the numbers |
// | std::pair, std::tuple (up to 4)    | no         | (A, B)         | lexicographic  |
// | std::optional                      | no         | Option<T>      | nothing first  |
// |                                    | float, double | f32, f64    |                |
// |                                    | others     | see below      |                |
//
// A map of the same name and types in Rust is the same map, and so is one of lastword_maps.h. Other
// types are LW_EMISMATCH, and the error names both. unsigned char may stand for std::byte.
//
// Other values are trivially copyable, of up to 1024 bytes, stored as in memory: see lastword.hpp.
// Name a type of your own, as in Rust, to have it compared:
//   template <> struct lw::type_name<account> { static constexpr auto value = "Account"; };
// Without a name it is "[u8; N]", and only its size is compared.
//
// Differences from std::map. Elements are copies: *it is a pair by value, so change one with
// insert_or_assign. There is no operator[]. insert_or_assign and try_emplace return whether the key
// is new, without an iterator. An iterator stays valid whatever changes in the map: it is at a key,
// and its pair is as of its last move. Copy it for a second position. Iterators end with the body.
#ifndef LASTWORD_MAPS_HPP
#define LASTWORD_MAPS_HPP

#include <array>
#include <iterator>
#include <string_view>
#include <tuple>
#include <vector>

#include "lastword.hpp"
#include "lastword_maps.h"

namespace lw {

// The name of a type of values in Rust, for programs to specialize.
template <class T>
struct type_name {
    static constexpr const char* value = nullptr;
};

namespace detail {

template <class B>
constexpr bool is_byte = std::is_same_v<B, std::byte> || std::is_same_v<B, unsigned char>;

// Of 8 to 64 bits. Whether char has a sign depends on the machine, and wchar_t has any size.
template <class T>
constexpr bool is_number = std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                           !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
                           !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t> &&
                           sizeof(T) <= 8;

template <class T>
std::string number_name() {
    return (std::is_signed_v<T> ? "i" : "u") + std::to_string(8 * sizeof(T));
}

[[noreturn]] inline void damaged() { throw error(LW_EDAMAGED); }

// The bytes of a key from which components are taken.
struct input {
    const unsigned char* at;
    const unsigned char* end;

    const unsigned char* take(std::size_t bytes) {
        if (static_cast<std::size_t>(end - at) < bytes) damaged();
        return std::exchange(at, at + bytes);
    }
};

// Each codec of keys has the type's name and length, and encodes as Rust does. `arg` is the type by
// which a key is passed. `is_last`: no component follows.
template <class T, class = void>
struct key_codec {
    static_assert(!std::is_same_v<T, T>, "no type of keys: see lastword_maps.hpp");
};

template <class T>
struct key_codec<T, std::enable_if_t<is_number<T>>> {
    using arg = T;
    static std::string name() { return number_name<T>(); }
    static constexpr std::uint64_t bytes = sizeof(T);
    static constexpr std::uint64_t sign =
        std::is_signed_v<T> ? std::uint64_t{1} << (8 * sizeof(T) - 1) : 0;
    static void encode(std::string& out, T key, bool) {
        const std::uint64_t number = static_cast<std::uint64_t>(key) ^ sign;
        for (int i = static_cast<int>(sizeof(T)) - 1; i >= 0; i--) {
            out.push_back(static_cast<char>(number >> (8 * i)));
        }
    }
    static T decode(input& in, bool) {
        const unsigned char* from = in.take(sizeof(T));
        std::uint64_t number = 0;
        for (std::size_t i = 0; i < sizeof(T); i++) number = number << 8 | from[i];
        return static_cast<T>(number ^ sign);
    }
};

template <>
struct key_codec<bool> {
    using arg = bool;
    static std::string name() { return "bool"; }
    static constexpr std::uint64_t bytes = 1;
    static void encode(std::string& out, bool key, bool) { out.push_back(key); }
    static bool decode(input& in, bool) {
        const unsigned char byte = *in.take(1);
        return byte > 1 ? (damaged(), false) : byte == 1;
    }
};

template <>
struct key_codec<char32_t> {
    using arg = char32_t;
    using number = key_codec<std::uint32_t>;
    static std::string name() { return "char"; }
    static constexpr std::uint64_t bytes = 4;
    static void encode(std::string& out, char32_t key, bool) { number::encode(out, key, true); }
    static char32_t decode(input& in, bool) { return number::decode(in, true); }
};

// Strings. As the last component the bytes, else with 0 as 01 01, 1 as 01 02, and 00 at the end.
template <class Owned>
struct string_codec {
    static constexpr std::uint64_t bytes = LW_ANY_LENGTH;
    static void encode(std::string& out, std::string_view key, bool is_last) {
        if (is_last) {
            out.append(key);
            return;
        }
        for (const char c : key) {
            const auto byte = static_cast<unsigned char>(c);
            if (byte <= 1) out.push_back(1);
            out.push_back(static_cast<char>(byte <= 1 ? byte + 1 : byte));
        }
        out.push_back(0);
    }
    static Owned decode(input& in, bool is_last) {
        Owned key;
        using item = typename Owned::value_type;
        while (in.at != in.end || !is_last) {
            unsigned char byte = *in.take(1);
            if (!is_last && byte == 0) break;
            if (!is_last && byte == 1) {
                byte = static_cast<unsigned char>(*in.take(1) - 1);
                if (byte > 1) damaged();
            }
            key.push_back(static_cast<item>(byte));
        }
        return key;
    }
};

template <>
struct key_codec<std::string> : string_codec<std::string> {
    using arg = std::string_view;
    static std::string name() { return "str"; }
};

template <class B>
struct key_codec<std::vector<B>, std::enable_if_t<is_byte<B>>> : string_codec<std::vector<B>> {
    using arg = const std::vector<B>&;
    static std::string name() { return "[u8]"; }
    static void encode(std::string& out, arg key, bool is_last) {
        const auto from = reinterpret_cast<const char*>(key.data());
        string_codec<std::vector<B>>::encode(out, std::string_view(from, key.size()), is_last);
    }
};

template <class B, std::size_t N>
struct key_codec<std::array<B, N>, std::enable_if_t<is_byte<B>>> {
    using arg = const std::array<B, N>&;
    static std::string name() { return "[u8; " + std::to_string(N) + "]"; }
    static constexpr std::uint64_t bytes = N;
    static void encode(std::string& out, arg key, bool) {
        out.append(reinterpret_cast<const char*>(key.data()), N);
    }
    static std::array<B, N> decode(input& in, bool) {
        std::array<B, N> key{};
        const unsigned char* from = in.take(N);
        for (std::size_t i = 0; i < N; i++) key[i] = static_cast<B>(from[i]);
        return key;
    }
};

template <class T>
struct key_codec<std::optional<T>> {
    using arg = const std::optional<T>&;
    static std::string name() { return "Option<" + key_codec<T>::name() + ">"; }
    static constexpr std::uint64_t bytes = LW_ANY_LENGTH;
    static void encode(std::string& out, arg key, bool is_last) {
        out.push_back(key.has_value());
        if (key) key_codec<T>::encode(out, *key, is_last);
    }
    static std::optional<T> decode(input& in, bool is_last) {
        if (!key_codec<bool>::decode(in, false)) return std::nullopt;
        return key_codec<T>::decode(in, is_last);
    }
};

template <class Tuple, class... T>
struct tuple_codec {
    static_assert(sizeof...(T) >= 2 && sizeof...(T) <= 4, "a tuple has two to four components");
    using arg = const Tuple&;
    static std::string name() {
        std::string all;
        ((all += (all.empty() ? "(" : ", ") + key_codec<T>::name()), ...);
        return all + ")";
    }
    static constexpr std::uint64_t bytes = ((key_codec<T>::bytes == LW_ANY_LENGTH) || ...)
                                               ? LW_ANY_LENGTH
                                               : (key_codec<T>::bytes + ...);
    static void encode(std::string& out, arg key, bool is_last) {
        std::size_t left = sizeof...(T);
        std::apply([&](const auto&... part) {
            (key_codec<T>::encode(out, part, --left == 0 && is_last), ...);
        }, key);
    }
    static Tuple decode(input& in, bool is_last) {
        return decode(in, is_last, std::index_sequence_for<T...>());
    }

private:
    template <std::size_t... i>
    static Tuple decode(input& in, bool is_last, std::index_sequence<i...>) {
        constexpr std::size_t last = sizeof...(T) - 1;
        return Tuple{key_codec<T>::decode(in, i == last && is_last)...}; // braces: in order
    }
};

template <class A, class B>
struct key_codec<std::pair<A, B>> : tuple_codec<std::pair<A, B>, A, B> {};
template <class... T>
struct key_codec<std::tuple<T...>> : tuple_codec<std::tuple<T...>, T...> {};

// Each codec of values has the type's name and length, a value's bytes, and the value of bytes.
template <class T, class = void>
struct value_codec {
    using arg = const T&;
    static constexpr std::uint64_t bytes = sizeof(T);
    static std::string name() {
        storable<T>();
        constexpr const char* own = type_name<T>::value;
        if (own != nullptr) return own;
        if constexpr (is_number<T>) return number_name<T>();
        if constexpr (std::is_floating_point_v<T> && sizeof(T) <= 8) {
            return "f" + std::to_string(8 * sizeof(T));
        }
        if constexpr (std::is_same_v<T, bool>) return "bool";
        if constexpr (std::is_same_v<T, char32_t>) return "char";
        return "[u8; " + std::to_string(sizeof(T)) + "]";
    }
    static std::string_view view(arg value) {
        return {reinterpret_cast<const char*>(std::addressof(value)), sizeof(T)};
    }
    static T decode(const void* from, std::uint64_t) {
        T value; // the map has compared the length
        std::memcpy(static_cast<void*>(&value), from, sizeof(T));
        return value;
    }
};

template <>
struct value_codec<std::string> {
    using arg = std::string_view;
    static constexpr std::uint64_t bytes = LW_ANY_LENGTH;
    static std::string name() { return "str"; }
    static std::string_view view(arg value) { return value; }
    static std::string decode(const void* from, std::uint64_t length) {
        return {static_cast<const char*>(from), static_cast<std::size_t>(length)};
    }
};

template <class B>
struct value_codec<std::vector<B>, std::enable_if_t<is_byte<B>>> {
    using arg = const std::vector<B>&;
    static constexpr std::uint64_t bytes = LW_ANY_LENGTH;
    static std::string name() { return "[u8]"; }
    static std::string_view view(arg value) {
        return {reinterpret_cast<const char*>(value.data()), value.size()};
    }
    static std::vector<B> decode(const void* from, std::uint64_t length) {
        const auto first = static_cast<const B*>(from);
        return {first, first + length};
    }
};

} // namespace detail

// A map. Use lw::map and lw::hash_map.
template <class K, class V, std::uint32_t kind>
class basic_map {
    using keys = detail::key_codec<K>;
    using values = detail::value_codec<V>;
    static constexpr bool is_ordered = kind == LW_ORDERED_MAP;

public:
    using key_arg = typename keys::arg;
    using value_arg = typename values::arg;
    class in_tx;

    // Opens the map of this name, or creates it, durable on return. LW_EMISMATCH, LW_ENESTED in a
    // body, LW_EREADONLY (no such map in a pool that is only read). As lw_map_open.
    static basic_map open(pool& of, const std::string& name) {
        const std::string key = keys::name(), value = values::name();
        const lw_type types[] = {{key.c_str(), keys::bytes}, {value.c_str(), values::bytes}};
        basic_map made;
        detail::check(lw_map_open(of.handle(), name.c_str(), kind, &types[0], &types[1],
                                  &made.handle_));
        return made;
    }

    // The map in a transaction. Costs nothing.
    in_tx in(tx& tx) const { return in_tx(tx, handle_); }

    const lw_map& handle() const noexcept { return handle_; }

private:
    basic_map() = default;
    lw_map handle_{};
};

template <class K, class V>
using map = basic_map<K, V, LW_ORDERED_MAP>;
template <class K, class V>
using hash_map = basic_map<K, V, LW_HASH_MAP>;

// A map in a transaction, with the methods of std::map. Invalid after the body.
template <class K, class V, std::uint32_t kind>
class basic_map<K, V, kind>::in_tx {
    template <bool is_reverse>
    class walk;

public:
    using key_type = K;
    using mapped_type = V;
    using value_type = std::pair<K, V>;
    using iterator = walk<false>;
    using const_iterator = iterator;
    using reverse_iterator = walk<true>;

    // Each search and each step in a new direction costs a descent; a step otherwise mostly none.
    iterator begin() const { return iterator::edge(*this); }
    iterator end() const { return iterator(*this); }
    iterator find(key_arg key) const {
        iterator found = seek(key);
        return found.is_at(encoded(key)) ? found : end();
    }
    // The first pair whose key is not less, and the first whose key is greater.
    iterator lower_bound(key_arg key) const {
        static_assert(is_ordered, "lw::hash_map has no order");
        return seek(key);
    }
    iterator upper_bound(key_arg key) const {
        iterator found = lower_bound(key);
        if (found.is_at(encoded(key))) ++found;
        return found;
    }
    // From the last pair to the first.
    reverse_iterator rbegin() const {
        static_assert(is_ordered, "lw::hash_map has no order");
        return reverse_iterator::edge(*this);
    }
    reverse_iterator rend() const { return reverse_iterator(*this); }

    // The value, if the key is there. Costs less than find.
    std::optional<V> get(key_arg key) const {
        const std::string at = encoded(key);
        const void* value;
        std::uint64_t bytes;
        tx_->check(lw_map_view(worker(), &map_, at.data(), at.size(), &value, &bytes));
        if (!value) return std::nullopt;
        return values::decode(value, bytes);
    }
    // The value. Throws std::out_of_range, which rolls the transaction back unless it is caught.
    V at(key_arg key) const {
        std::optional<V> found = get(key);
        if (!found) throw std::out_of_range("no such key in the map");
        return *std::move(found);
    }
    bool contains(key_arg key) const {
        const std::string at = encoded(key);
        int is_there;
        tx_->check(lw_map_contains(worker(), &map_, at.data(), at.size(), &is_there));
        return is_there;
    }
    std::size_t count(key_arg key) const { return contains(key); }
    // Exact. Reads up to 65 words, which every insertion or removal changes one of.
    std::size_t size() const {
        std::uint64_t length;
        tx_->check(lw_map_length(worker(), &map_, &length));
        return static_cast<std::size_t>(length);
    }
    bool empty() const { return begin() == end(); }

    // Inserts a key or replaces its value. Returns whether the key is new.
    bool insert_or_assign(key_arg key, value_arg value) {
        const std::string at = encoded(key);
        const std::string_view stored = values::view(value);
        int is_new;
        tx_->check(lw_map_put(worker(), &map_, at.data(), at.size(), stored.data(), stored.size(),
                              &is_new));
        return is_new;
    }
    // Inserts a key, unless it is there. Returns whether it did.
    bool try_emplace(key_arg key, value_arg value) {
        const std::string at = encoded(key);
        const std::string_view stored = values::view(value);
        int is_new;
        tx_->check(lw_map_insert(worker(), &map_, at.data(), at.size(), stored.data(),
                                 stored.size(), &is_new));
        return is_new;
    }
    // Removes a key. Returns the number of removed pairs.
    std::size_t erase(key_arg key) { return erase_encoded(encoded(key)); }
    // Removes a pair, and returns the next.
    iterator erase(iterator at) {
        erase_encoded(at.key());
        return ++at;
    }
    // Removes all pairs. LW_ETOOLARGE: they are too many for one transaction.
    void clear() {
        while (!clear_step(~std::uint64_t{0})) {
        }
    }
    // Frees up to about `most` pairs, and returns whether all are freed. The first step makes the
    // map empty. Run each step in a transaction of its own.
    bool clear_step(std::uint64_t most) {
        int is_done;
        tx_->check(lw_map_clear(worker(), &map_, most, &is_done));
        return is_done;
    }

private:
    friend class basic_map;
    in_tx(tx& tx, const lw_map& map) noexcept : tx_(&tx), map_(map) {}

    lw_worker* worker() const noexcept { return tx_->handle(); }

    static std::string encoded(key_arg key) {
        std::string out;
        keys::encode(out, key, true);
        return out;
    }

    iterator seek(key_arg key) const {
        const std::string at = encoded(key);
        iterator found(*this);
        found.move([&](lw_cursor* cursor, lw_pair* pair) {
            return lw_cursor_seek(cursor, at.data(), at.size(), pair);
        });
        return found;
    }

    std::size_t erase_encoded(std::string_view key) {
        int was_there;
        tx_->check(lw_map_delete(worker(), &map_, key.data(), key.size(), &was_there));
        return static_cast<std::size_t>(was_there);
    }

    tx* tx_;
    lw_map map_;
};

// A position in a map: at a pair, or at the end of its direction.
template <class K, class V, std::uint32_t kind>
template <bool is_reverse>
class basic_map<K, V, kind>::in_tx::walk {
    // Copies of an iterator share a cursor until one of them moves.
    struct place {
        lw_cursor* cursor = nullptr;
        lw_pair pair{};

        place() = default;
        place(const place&) = delete;
        ~place() { lw_cursor_close(cursor); }
    };
    // The pair that an arrow leads to.
    struct arrow {
        value_type pair;
        const value_type* operator->() const noexcept { return &pair; }
    };

public:
    using iterator_category = std::conditional_t<is_ordered, std::bidirectional_iterator_tag,
                                                 std::forward_iterator_tag>;
    using value_type = std::pair<K, V>;
    using difference_type = std::ptrdiff_t;
    using reference = value_type; // a copy
    using pointer = arrow;

    value_type operator*() const {
        const auto from = static_cast<const unsigned char*>(pair().key);
        detail::input in{from, from + pair().key_bytes};
        K key = keys::decode(in, true);
        if (in.at != in.end) detail::damaged();
        return {std::move(key), values::decode(pair().value, pair().value_bytes)};
    }
    arrow operator->() const { return arrow{**this}; }

    walk& operator++() {
        move(is_reverse ? lw_cursor_prev : lw_cursor_next);
        return *this;
    }
    walk& operator--() {
        static_assert(is_ordered, "lw::hash_map has no order");
        const auto last = is_reverse ? lw_cursor_first : lw_cursor_last;
        const auto before = is_reverse ? lw_cursor_next : lw_cursor_prev;
        move(at_ ? before : last);
        return *this;
    }
    walk operator++(int) {
        walk before = *this;
        ++*this;
        return before;
    }
    walk operator--(int) {
        walk before = *this;
        --*this;
        return before;
    }

    friend bool operator==(const walk& a, const walk& b) {
        if (!a.at_ || !b.at_) return !a.at_ && !b.at_;
        return a.key() == b.key();
    }
    friend bool operator!=(const walk& a, const walk& b) { return !(a == b); }

private:
    friend class in_tx;
    explicit walk(const in_tx& of) noexcept : tx_(of.tx_), map_(of.map_) {}

    // The first pair in this direction.
    static walk edge(const in_tx& of) {
        walk found(of);
        found.move(is_reverse ? lw_cursor_last : lw_cursor_first);
        return found;
    }

    const lw_pair& pair() const noexcept { return at_->pair; }
    std::string_view key() const noexcept {
        return {static_cast<const char*>(pair().key), static_cast<std::size_t>(pair().key_bytes)};
    }
    bool is_at(std::string_view key) const noexcept { return at_ && this->key() == key; }

    // Moves to another pair, or to the end if there is none.
    template <class F>
    void move(F go) {
        if (!at_ || at_.use_count() > 1) {
            auto own = std::make_shared<place>();
            tx_->check(at_ ? lw_cursor_copy(at_->cursor, &own->cursor)
                           : lw_cursor_open(tx_->handle(), &map_, &own->cursor));
            at_ = std::move(own);
        }
        tx_->check(go(at_->cursor, &at_->pair));
        if (!at_->pair.key) at_.reset();
    }

    tx* tx_;
    lw_map map_;
    std::shared_ptr<place> at_;
};

} // namespace lw

#endif
