#include "reader.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "../../formats/number.hpp"

namespace icml::kcenter {

namespace {
constexpr std::size_t longest_line = std::size_t{1}
                                     << 24; // what a pipe without line ends may fill memory with
}

using formats::LineError;
using formats::quoted;

void Reader::push(std::string_view bytes, bool last) {
    buffer_.erase(0, at_);
    at_ = 0;
    buffer_ += bytes;
    last_ = last;
    plain_ = formats::is_plain(buffer_);
}

// A whole line, or at the end what is left.
bool Reader::take_line(std::string_view &line) {
    std::string_view rest = std::string_view(buffer_).substr(at_);
    if (rest.empty()) return false;
    if (!last_ && !std::memchr(rest.data(), '\n', rest.size())) {
        if (rest.size() <= longest_line) return false;
        throw BadLine{line_ + 1, "the line is longer than " + std::to_string(longest_line >> 20) +
                                     " MiB; is this text?"};
    }
    const std::size_t before = rest.size();
    line = formats::take_line(rest);
    at_ += before - rest.size();
    ++line_;
    return true;
}

std::optional<Event> Reader::next() {
    std::string_view line;
    while (true) {
        const std::size_t begin = at_;
        if (!take_line(line)) return std::nullopt;
        try {
            if (!plain_) formats::check_text(line);
            if (formats::is_skipped(line)) continue;
            std::optional<Event> event = apply(line);
            if (!event) continue;
            if (event->kind == Event::Kind::needs_structure) { // the line comes again
                at_ = begin;
                --line_;
            }
            return event;
        } catch (const LineError &error) {
            throw BadLine{line_, error.message};
        } catch (const std::invalid_argument &error) {
            throw BadLine{line_, error.what()};
        }
    }
}

std::optional<Event> Reader::apply(std::string_view line) {
    if (line.find('"') != std::string_view::npos) fields_ = {}; // forget what it unescaped before
    fields_.split(line, layout_.separator);
    if (layout_.table()) return apply_row();
    const std::optional<Operation> operation = operation_of(fields_[0]);
    if (operation) return apply_operation(*operation, 1);
    const bool punctuation =
        fields_[0].size() == 1 && std::ispunct(static_cast<unsigned char>(fields_[0][0]));
    if (!layout_.implied || punctuation) throw LineError{"unknown operation " + quoted(fields_[0])};
    return apply_operation(Operation::insert, 0);
}

std::optional<Reader::Operation> Reader::operation_of(std::string_view field) const {
    if (field.size() != 1) return std::nullopt;
    switch (field[0]) {
    case '+':
        return Operation::insert;
    case '-':
        return Operation::erase;
    case '?':
        return Operation::query;
    case '@':
        return Operation::score;
    case '=':
        return Operation::checkpoint;
    default:
        return std::nullopt;
    }
}

// A line of the protocol whose arguments begin at field `first`.
std::optional<Event> Reader::apply_operation(Operation operation, std::size_t first) {
    const std::size_t count = fields_.size() - first;
    const auto need = [&](std::size_t least, std::size_t most, const char *what) {
        if (count < least || count > most) throw LineError{what};
    };
    constexpr std::size_t any = std::numeric_limits<std::size_t>::max();
    switch (operation) {
    case Operation::insert: {
        const std::size_t before = layout_.timed ? 2 : 1;
        need(before, any, layout_.timed ? "an insertion needs a time and an id" : "an insertion needs an id");
        read_coordinates(first + before, fields_.size());
        return insert(fields_[first + before - 1], layout_.timed ? fields_[first] : std::string_view());
    }
    case Operation::erase:
        need(1, 1, "a deletion takes one id");
        return erase(fields_[first]);
    case Operation::query:
        need(0, 2, "a query takes k and z or nothing");
        break;
    case Operation::checkpoint:
        need(1, 1, "a checkpoint takes one path");
        break;
    case Operation::score:
        if (layout_.ids_only) {
            need(1, 1, "a score takes one row of the matrix");
            return Event{Event::Kind::score, line_, {std::string(fields_[first])}};
        }
        read_coordinates(first, fields_.size());
        check_dimension();
        return Event{Event::Kind::score, line_, {}, coordinates_};
    }
    Event event{operation == Operation::query ? Event::Kind::query : Event::Kind::checkpoint, line_};
    for (std::size_t i = first; i < fields_.size(); ++i) event.words.emplace_back(fields_[i]);
    return event;
}

std::optional<Event> Reader::apply_row() {
    const auto field = [&](std::size_t role) {
        const int column = layout_.columns[role];
        if (static_cast<std::size_t>(column) >= fields_.size())
            throw LineError{"expected at least " + std::to_string(column + 1) + " columns, got " +
                            std::to_string(fields_.size())};
        return fields_[static_cast<std::size_t>(column)];
    };
    Operation operation = Operation::insert;
    if (layout_.columns[0] >= 0) {
        const auto named = operation_of(field(0));
        if (!named) throw LineError{"unknown operation " + quoted(field(0))};
        operation = *named;
    }
    const auto row = std::to_string(row_);
    const std::string_view id = layout_.columns[2] >= 0 ? field(2) : std::string_view(row);
    if (operation == Operation::erase) return erase(id);
    if (operation == Operation::insert || (operation == Operation::score && !layout_.ids_only)) {
        coordinates_.clear();
        for (std::size_t role = 3; role < layout_.columns.size(); ++role)
            coordinates_.push_back(number(field(role), "a coordinate", "; --columns chooses others"));
    }
    if (operation == Operation::insert) {
        auto event = insert(id, layout_.columns[1] >= 0 ? field(1) : std::string_view());
        if (!event || event->kind != Event::Kind::needs_structure) ++row_;
        return event;
    }
    if (operation == Operation::score) {
        check_dimension();
        return Event{Event::Kind::score, line_, {std::string(id)}, coordinates_};
    }
    Event event{operation == Operation::query ? Event::Kind::query : Event::Kind::checkpoint, line_};
    for (std::size_t i = 0; i < fields_.size(); ++i)
        if (static_cast<int>(i) != layout_.columns[0] && !fields_[i].empty())
            event.words.emplace_back(fields_[i]);
    return event;
}

std::optional<Event> Reader::insert(std::string_view id, std::string_view time) {
    if (id.empty()) throw LineError{"an empty id"};
    if (!structure_) {
        if (coordinates_.empty() && !layout_.ids_only) throw LineError{"an insertion needs coordinates"};
        return Event{Event::Kind::needs_structure, line_, {}, coordinates_};
    }
    check_dimension();
    const double arrival = layout_.timed ? number(time, "a time") : 0;
    return updated(structure_->insert(id, coordinates_.data(), conflict_, arrival));
}

std::optional<Event> Reader::erase(std::string_view id) {
    if (structure_) return updated(structure_->erase(id, conflict_));
    if (conflict_ == Conflict::error) throw LineError{"id " + quoted(id) + " is not there"};
    return std::nullopt;
}

std::optional<Event> Reader::updated(bool counted) {
    if (!counted || every_ == 0 || structure_->updates() % every_ != 0) return std::nullopt;
    return Event{Event::Kind::due, line_};
}

void Reader::read_coordinates(std::size_t first, std::size_t end) {
    coordinates_.clear();
    for (std::size_t i = first; i < end; ++i) coordinates_.push_back(number(fields_[i], "a coordinate"));
}

void Reader::check_dimension() const {
    if (!structure_ || layout_.ids_only) {
        if (layout_.ids_only && !coordinates_.empty())
            throw LineError{"precomputed distances take ids without coordinates"};
        return;
    }
    const int expected = structure_->encoding().dimension();
    if (static_cast<int>(coordinates_.size()) != expected)
        throw LineError{"expected " + std::to_string(expected) + " coordinates, got " +
                        std::to_string(coordinates_.size())};
}

double Reader::number(std::string_view field, const char *what, const char *hint) const {
    double value;
    if (!formats::parse_number(field, value))
        throw LineError{std::string(what) + " is no number: " + quoted(field) + hint};
    if (!std::isfinite(value))
        throw LineError{std::string(what) + " is not a finite number: " + quoted(field)};
    return value;
}

} // namespace icml::kcenter
