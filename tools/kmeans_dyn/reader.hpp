// The line protocol of streams, and tables read as streams: parses lines and applies updates until something
// has to be answered.
//
//   + [t] id x1 x2 ...   insert      - id   delete      ? [k [z]]   query
//   @ x1 x2 ...          score       = path checkpoint  # ...       comment
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../../formats/text.hpp"
#include "structure.hpp"

namespace icml::kcenter {

// Where a line's fields are. Without `columns` it is the protocol; with them a table, whose operation column,
// if it has one, says what a row is.
struct LineLayout {
    char separator = ' ';
    bool timed = false;    // insertions carry a time
    bool implied = false;  // a line without an operation is an insertion
    bool ids_only = false; // precomputed distances: an insertion has no coordinates
    std::vector<int>
        columns; // of a table: operation or -1, time or -1, id or -1 for the row's number, coordinates...

    bool table() const { return !columns.empty(); }
};

struct Event {
    enum class Kind : std::uint8_t { needs_structure, due, query, score, checkpoint };

    Kind kind;
    std::int64_t line; // 1-based
    std::vector<std::string>
        words{}; // of a query or checkpoint; the id of a score with precomputed distances
    std::vector<double> coordinates{}; // of a score; their number is the dimension for needs_structure
};

// A bad line.
struct BadLine {
    std::int64_t line;
    std::string message;
};

class Reader {
  public:
    Reader(LineLayout layout, Conflict conflict, std::int64_t first_line)
        : layout_(std::move(layout)), conflict_(conflict), line_(first_line - 1) {}

    // Where updates go. Until there is one, the first insertion asks for it.
    void attach(Structure *structure) { structure_ = structure; }
    // An Event::due after every so many updates; 0 for never.
    void announce_every(std::int64_t updates) { every_ = updates; }

    void push(std::string_view bytes, bool last);
    // Works through the lines; nothing when more bytes are needed. Throws BadLine.
    std::optional<Event> next();
    std::int64_t line() const { return line_; }

  private:
    enum class Operation : std::uint8_t { insert, erase, query, score, checkpoint };

    bool take_line(std::string_view &line);
    std::optional<Event> apply(std::string_view line);
    std::optional<Event> apply_operation(Operation operation, std::size_t first);
    std::optional<Event> apply_row();
    std::optional<Event> insert(std::string_view id, std::string_view time);
    std::optional<Event> erase(std::string_view id);
    std::optional<Event> updated(bool counted);
    std::optional<Operation> operation_of(std::string_view field) const;
    void read_coordinates(std::size_t first, std::size_t end);
    void check_dimension() const;
    double number(std::string_view field, const char *what, const char *hint = "") const;

    LineLayout layout_;
    Conflict conflict_;
    Structure *structure_ = nullptr;
    std::int64_t every_ = 0, line_, row_ = 0;
    std::string buffer_;
    std::size_t at_ = 0;
    bool plain_ = true, last_ = false;
    formats::Fields fields_;
    std::vector<double> coordinates_;
};

} // namespace icml::kcenter
