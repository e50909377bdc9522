// The dense pass over one block: tiles of 8 rows that live in the first-level cache from the model's values
// to the sums.
namespace icml::einfact::ICML_ISA {

constexpr int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

// Columns that the product kernel makes at once; tiles are padded to it.
template <class T> constexpr int product_columns = ICML_PRODUCT_VECTORS * Lanes<T>::count;

// out[r][q] = max(sum_c left[r][c] right[c][q], floor) for 4 rows and product_columns columns.
template <class T, int Vectors>
ICML_INLINE void product_4(const T *left, std::int64_t left_stride, const T *right, std::int64_t right_stride,
                           std::int64_t rank, T floor, T *out, std::int64_t out_stride) {
    constexpr int n = Lanes<T>::count;
    V<T> acc[4][Vectors] = {};
    for (std::int64_t c = 0; c < rank; ++c) {
        V<T> r[Vectors];
        for (int v = 0; v < Vectors; ++v) r[v] = load(right + c * right_stride + v * n);
        for (int k = 0; k < 4; ++k)
            for (int v = 0; v < Vectors; ++v) acc[k][v] += r[v] * left[k * left_stride + c];
    }
    for (int k = 0; k < 4; ++k)
        for (int v = 0; v < Vectors; ++v)
            store(out + k * out_stride + v * n, max<T>(acc[k][v], fill<T>(floor)));
}

// sums[r][c] += sum_q a[r][q] right[c][q] for 4 rows and `Columns` values of c.
template <class T, int Columns>
ICML_INLINE void dots_4(const T *a, int tile, int n, const T *right, double *to, std::int64_t stride,
                        int rows) {
    constexpr int lanes = Lanes<T>::count, held = (4 * Columns + lanes - 1) / lanes * lanes;
    V<T> acc[held] = {};
    for (int i = 0; i < n; i += lanes) {
        V<T> r[Columns];
        for (int c = 0; c < Columns; ++c) r[c] = load(right + c * tile + i);
        for (int k = 0; k < 4; ++k) {
            const V<T> x = load(a + k * tile + i);
            for (int c = 0; c < Columns; ++c) acc[k * Columns + c] += x * r[c];
        }
    }
    T out[held];
    for (int s = 0; s < held; s += lanes) store(out + s, sums<T>(acc + s));
    for (int k = 0; k < rows; ++k)
        for (int c = 0; c < Columns; ++c) to[k * stride + c] += out[k * Columns + c];
}

// left sums of one tile: to[r][c] += a[r] . right[c] for `rows` <= 8 rows.
template <class T>
void dots(const T *a, int tile, int n, const T *right, std::int64_t rank, double *to, int rows) {
    constexpr int wide = ICML_DOT_COLUMNS;
    for (int r = 0; r < rows; r += 4) {
        const T *x = a + r * tile;
        double *y = to + r * rank;
        const int used = rows - r < 4 ? rows - r : 4;
        std::int64_t c = 0;
        for (; c + wide <= rank; c += wide) dots_4<T, wide>(x, tile, n, right + c * tile, y + c, rank, used);
        for (; c + 2 <= rank; c += 2) dots_4<T, 2>(x, tile, n, right + c * tile, y + c, rank, used);
        if (c < rank) dots_4<T, 1>(x, tile, n, right + c * tile, y + c, rank, used);
    }
}

// right sums of one tile: acc[c][q] += sum_r left[r][c] a[r][q] over 8 rows; n is a multiple of
// product_columns.
template <class T> void outer(const T *a, int tile, int n, const T *left, std::int64_t rank, T *acc) {
    constexpr int lanes = Lanes<T>::count, vectors = ICML_OUTER_VECTORS;
    for (int i = 0; i < n; i += lanes * vectors) {
        V<T> x[row_group][vectors];
        for (int r = 0; r < row_group; ++r)
            for (int v = 0; v < vectors; ++v) x[r][v] = load(a + r * tile + i + v * lanes);
        for (std::int64_t c = 0; c < rank; ++c) {
            T *to = acc + c * tile + i;
            V<T> s[vectors];
            for (int v = 0; v < vectors; ++v) s[v] = load(to + v * lanes);
            for (int r = 0; r < row_group; ++r)
                for (int v = 0; v < vectors; ++v) s[v] += x[r][v] * left[r * rank + c];
            for (int v = 0; v < vectors; ++v) store(to + v * lanes, s[v]);
        }
    }
}

template <class T, class S>
ICML_INLINE void convert(const S *from, const std::int64_t *column, std::int64_t q0, int n, T *to) {
    if (column)
        for (int i = 0; i < n; ++i) to[i] = (T)from[column[q0 + i]];
    else
        for (int i = 0; i < n; ++i) to[i] = (T)from[q0 + i];
}

template <class T> void load_row(const Strided &s, std::int64_t p, std::int64_t q0, int n, T *to) {
    const std::int64_t at = s.origin + s.row[p];
    switch (s.type) {
    case Source::f32:
        return convert((const float *)s.base + at, s.column, q0, n, to);
    case Source::f64:
        return convert((const double *)s.base + at, s.column, q0, n, to);
    case Source::u8:
        return convert((const std::uint8_t *)s.base + at, s.column, q0, n, to);
    case Source::i8:
        return convert((const std::int8_t *)s.base + at, s.column, q0, n, to);
    case Source::u16:
        return convert((const std::uint16_t *)s.base + at, s.column, q0, n, to);
    case Source::i16:
        return convert((const std::int16_t *)s.base + at, s.column, q0, n, to);
    case Source::u32:
        return convert((const std::uint32_t *)s.base + at, s.column, q0, n, to);
    case Source::i32:
        return convert((const std::int32_t *)s.base + at, s.column, q0, n, to);
    case Source::u64:
        return convert((const std::uint64_t *)s.base + at, s.column, q0, n, to);
    case Source::i64:
        return convert((const std::int64_t *)s.base + at, s.column, q0, n, to);
    }
}

template <class T> void load_sparse_row(const Rows &s, std::int64_t p, std::int64_t q0, int n, T *to) {
    for (int i = 0; i < n; ++i) to[i] = 0;
    std::int64_t low = s.start[p], high = s.start[p + 1];
    const std::int64_t end = high;
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (s.column[middle] < q0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < end && s.column[low] < q0 + n; ++low) to[s.column[low] - q0] = ((const T *)s.value)[low];
}

// to[i] = 1 or 0 as the bits say; may read 4 bytes past the last bit and write a vector past n.
template <class T> void load_bits(const Bits &b, std::int64_t p, std::int64_t q0, int n, T *to) {
    constexpr int lanes = Lanes<T>::count;
    const std::int64_t at = b.origin + b.row[p];
    if (b.column) {
        for (int i = 0; i < n; ++i) {
            const std::int64_t bit = at + b.column[q0 + i];
            to[i] = (T)(b.base[bit >> 3] >> (bit & 7) & 1);
        }
        return;
    }
    I<T> lane{};
    for (int i = 0; i < lanes; ++i) lane[i] = i;
    for (int i = 0; i < n; i += lanes) {
        const std::int64_t bit = at + q0 + i;
        std::uint32_t word;
        __builtin_memcpy(&word, b.base + (bit >> 3), 4);
        const I<T> on = ((I<T>{} + (typename Lanes<T>::Int)(word >> (bit & 7))) >> lane) & 1;
        store(to + i, (V<T>)(-on & (I<T>)fill<T>(1)));
    }
}

template <class T> struct RowJob {
    const T *y, *w, *h; // w null: weight 1 everywhere; h null: nothing held out
    T *x, *den;         // in: the model's values; out: the terms of numerator and denominator
    int n;              // a multiple of the vector length
    double loss, held;  // added to
};

template <class T, Rule R, bool Masked, bool Loss>
void cells_row(RowJob<T> &job, const RuleParameters<T> &parameters) {
    const RuleParameters<T> p = parameters;
    constexpr int lanes = Lanes<T>::count;
    V<T> loss{}, held{};
    for (int i = 0; i < job.n; i += lanes) {
        const V<T> x = load(job.x + i), y = load(job.y + i);
        Cell<T> c = cell<T, R, Loss>(y, x, p);
        V<T> d{};
        if constexpr (Loss && R == Rule::euclidean)
            d = (y - x) * (y - x) * T(0.5);
        else if constexpr (Loss)
            d = c.loss + x * c.den * p.den_loss;
        if constexpr (Masked) {
            const V<T> w = load(job.w + i);
            c.num *= w, c.den *= w;
            if constexpr (Loss) {
                loss += d * w;
                if (job.h) held += d * load(job.h + i);
            }
        } else if constexpr (Loss) {
            loss += d;
        }
        store(job.x + i, c.num);
        store(job.den + i, c.den);
    }
    job.loss += sum<T>(loss), job.held += sum<T>(held);
}

template <class T> using RowFunction = void (*)(RowJob<T> &, const RuleParameters<T> &);

template <class T, Rule R> RowFunction<T> row_function(bool masked, bool loss) {
    if (masked) return loss ? cells_row<T, R, true, true> : cells_row<T, R, true, false>;
    return loss ? cells_row<T, R, false, true> : cells_row<T, R, false, false>;
}

template <class T> RowFunction<T> row_function(Rule rule, bool masked, bool loss) {
    switch (rule) {
    case Rule::kl:
        return row_function<T, Rule::kl>(masked, loss);
    case Rule::euclidean:
        return row_function<T, Rule::euclidean>(masked, loss);
    case Rule::is:
        return row_function<T, Rule::is>(masked, loss);
    case Rule::beta:
        return row_function<T, Rule::beta>(masked, loss);
    case Rule::sum_one:
        return row_function<T, Rule::sum_one>(masked, loss);
    case Rule::general:
        return row_function<T, Rule::general>(masked, loss);
    case Rule::beta_zero:
        return row_function<T, Rule::beta_zero>(masked, loss);
    case Rule::sum_zero:
        return row_function<T, Rule::sum_zero>(masked, loss);
    case Rule::alpha_zero:
        return row_function<T, Rule::alpha_zero>(masked, loss);
    case Rule::both_zero:
        return row_function<T, Rule::both_zero>(masked, loss);
    case Rule::model:
        return row_function<T, Rule::model>(masked, loss);
    case Rule::data:
    case Rule::weight:
        break; // they need no cell function
    }
    return nullptr;
}

template <class T> class DensePass {
  public:
    explicit DensePass(DenseBlock<T> &block) : b(block), tile(block.tile), rank(block.rank) {
        T *s = b.scratch;
        right = s, s += rank * tile;
        acc_num = s, s += rank * tile;
        acc_den = s, s += rank * tile;
        x = s, s += row_group * tile;
        den = s, s += row_group * tile;
        y = s, s += tile;
        w = s, s += tile;
        h = s, s += tile;
        bit = s, s += tile;
        padded_left = s;
        models = b.rule.rule != Rule::data && b.rule.rule != Rule::weight;
        masked = b.w.base || b.observed.base || b.held.base;
    }

    void run() {
        b.loss = b.held_loss = 0;
        for (std::int64_t q0 = b.column0; q0 < b.column1; q0 += tile) {
            const int n = b.column1 - q0 < tile ? int(b.column1 - q0) : tile;
            load_right(q0, n);
            for (std::int64_t p0 = b.row0; p0 < b.row1; p0 += row_block) {
                const std::int64_t p1 = p0 + row_block < b.row1 ? p0 + row_block : b.row1;
                if (b.want_right) clear_right();
                for (std::int64_t p = p0; p < p1; p += row_group)
                    group(p, p1 - p < row_group ? int(p1 - p) : row_group, q0, n);
                if (b.want_right) flush_right(q0, n);
            }
        }
    }

  private:
    void load_right(std::int64_t q0, int n) {
        padded = round_up(n, product_columns<T>);
        for (std::int64_t c = 0; c < rank; ++c) {
            const T *from = b.right + c * b.columns + q0;
            for (int i = 0; i < n; ++i) right[c * tile + i] = from[i];
            for (int i = n; i < padded; ++i) right[c * tile + i] = 0;
        }
    }

    void clear_right() {
        for (std::int64_t i = 0; i < rank * tile; ++i) acc_num[i] = 0;
        if (b.want_den)
            for (std::int64_t i = 0; i < rank * tile; ++i) acc_den[i] = 0;
    }

    void flush_right(std::int64_t q0, int n) {
        for (std::int64_t c = 0; c < rank; ++c) {
            for (int i = 0; i < n; ++i) b.right_num[c * b.columns + q0 + i] += acc_num[c * tile + i];
            if (b.want_den)
                for (int i = 0; i < n; ++i) b.right_den[c * b.columns + q0 + i] += acc_den[c * tile + i];
        }
    }

    // One group of up to 8 rows of the tile: model, cells, sums.
    void group(std::int64_t p, int rows, std::int64_t q0, int n) {
        const T *left = b.left + p * rank;
        if (rows < row_group && (models || b.want_right)) left = pad_left(left, rows);
        prefetch(p + row_group, q0, n);
        if (models)
            for (int r = 0; r < rows; r += 4)
                for (int i = 0; i < padded; i += product_columns<T>)
                    product_4<T, ICML_PRODUCT_VECTORS>(left + r * rank, rank, right + i, tile, rank,
                                                       b.rule.floor, x + r * tile + i, tile);
        const int whole = round_up(n, Lanes<T>::count);
        for (int r = 0; r < rows; ++r) cells(p + r, r, q0, n, whole);
        for (int r = rows; r < row_group; ++r) clear(r, 0);
        if (b.want_left) {
            dots(x, tile, whole, right, rank, b.left_num + p * rank, rows);
            if (b.want_den) dots(den, tile, whole, right, rank, b.left_den + p * rank, rows);
        }
        if (b.want_right) {
            outer(x, tile, padded, left, rank, acc_num);
            if (b.want_den) outer(den, tile, padded, left, rank, acc_den);
        }
    }

    const T *pad_left(const T *left, int rows) {
        for (std::int64_t i = 0; i < rows * rank; ++i) padded_left[i] = left[i];
        for (std::int64_t i = rows * rank; i < row_group * rank; ++i) padded_left[i] = 0;
        return padded_left;
    }

    void clear(int r, int from) {
        for (int i = from; i < padded; ++i) x[r * tile + i] = den[r * tile + i] = 0;
    }

    bool direct() const {
        return !b.sparse.start && !b.y.column && b.y.type == (sizeof(T) == 4 ? Source::f32 : Source::f64);
    }

    void prefetch(std::int64_t p, std::int64_t q0, int n) const {
        if (!direct() || !b.y.base) return;
        for (int r = 0; r < row_group && p + r < b.row1; ++r) {
            const T *at = (const T *)b.y.base + b.y.origin + b.y.row[p + r] + q0;
            for (int i = 0; i < n; i += 64 / (int)sizeof(T)) __builtin_prefetch(at + i);
        }
    }

    // Terms of one row: x and den become what the sums are taken of.
    void cells(std::int64_t p, int r, std::int64_t q0, int n, int whole) {
        const bool weighted = masked || n != whole;
        const T *values =
            b.rule.rule == Rule::weight || b.rule.rule == Rule::model ? y : data(p, q0, n, weighted);
        if (weighted) weights(p, q0, n, whole);
        if (values == y && weighted) clean(whole);
        T *to = x + r * tile;
        if (models) {
            RowJob<T> job{
                values, weighted ? w : nullptr, b.held.base ? h : nullptr, to, den + r * tile, whole, 0, 0};
            row_function<T>(b.rule.rule, weighted, b.want_loss)(job, b.rule);
            b.loss += job.loss, b.held_loss += job.held;
        } else {
            const V<T> one = fill<T>(1);
            for (int i = 0; i < whole; i += Lanes<T>::count) {
                const V<T> v = b.rule.rule == Rule::data ? load(values + i) : one;
                store(to + i, weighted ? v * load(w + i) : v);
            }
        }
        if (whole < padded) clear(r, whole);
    }

    const T *data(std::int64_t p, std::int64_t q0, int n, bool copy) {
        if (direct() && !copy) return (const T *)b.y.base + b.y.origin + b.y.row[p] + q0;
        if (b.sparse.start)
            load_sparse_row(b.sparse, p, q0, n, y);
        else
            load_row(b.y, p, q0, n, y);
        return y;
    }

    void weights(std::int64_t p, std::int64_t q0, int n, int whole) {
        constexpr int lanes = Lanes<T>::count;
        if (b.w.base)
            load_row(b.w, p, q0, n, w);
        else
            for (int i = 0; i < n; ++i) w[i] = 1;
        if (b.held.base) {
            load_bits(b.held, p, q0, n, h);
            for (int i = n; i < whole; ++i) w[i] = h[i] = 0;
            for (int i = 0; i < whole; i += lanes) store(h + i, load(h + i) * load(w + i));
        }
        if (b.observed.base) {
            load_bits(b.observed, p, q0, n, bit);
            for (int i = n; i < whole; ++i) w[i] = bit[i] = 0;
            for (int i = 0; i < whole; i += lanes) store(w + i, load(w + i) * load(bit + i));
        } else if (b.held.base) { // every cell counts as observed that is not held out
            for (int i = n; i < whole; ++i) w[i] = 0;
            for (int i = 0; i < whole; i += lanes) store(w + i, load(w + i) - load(h + i));
        }
        for (int i = n; i < whole; ++i) w[i] = 0;
    }

    // Cells that count nowhere may hold anything, NaN included: give them a value that every rule can digest.
    void clean(int whole) {
        for (int i = 0; i < whole; i += Lanes<T>::count) {
            V<T> counts = load(w + i);
            if (b.held.base) counts += load(h + i);
            store(y + i, counts > V<T>{} ? load(y + i) : fill<T>(1));
        }
    }

    DenseBlock<T> &b;
    const int tile;
    const std::int64_t rank;
    T *right, *acc_num, *acc_den, *x, *den, *y, *w, *h, *bit, *padded_left;
    bool models, masked;
    int padded = 0;
};

template <class T> void dense_block(DenseBlock<T> &block) {
    DensePass<T>(block).run();
}

template <class T> void product_block(const ProductBlock<T> &b) {
    constexpr int lanes = Lanes<T>::count;
    std::int64_t p = b.row0;
    for (; p + 4 <= b.row1; p += 4) {
        std::int64_t q = 0;
        for (; q + product_columns<T> <= b.columns; q += product_columns<T>)
            product_4<T, ICML_PRODUCT_VECTORS>(b.left + p * b.rank, b.rank, b.right + q, b.columns, b.rank,
                                               -(T)__builtin_inf(), b.out + p * b.columns + q, b.columns);
        for (; q + lanes <= b.columns; q += lanes)
            product_4<T, 1>(b.left + p * b.rank, b.rank, b.right + q, b.columns, b.rank, -(T)__builtin_inf(),
                            b.out + p * b.columns + q, b.columns);
        for (; q < b.columns; ++q)
            for (int k = 0; k < 4; ++k) {
                T s = 0;
                for (std::int64_t c = 0; c < b.rank; ++c)
                    s += b.left[(p + k) * b.rank + c] * b.right[c * b.columns + q];
                b.out[(p + k) * b.columns + q] = s;
            }
    }
    for (; p < b.row1; ++p) {
        T *out = b.out + p * b.columns;
        for (std::int64_t q = 0; q < b.columns; ++q) out[q] = 0;
        for (std::int64_t c = 0; c < b.rank; ++c)
            for (std::int64_t q = 0; q < b.columns; ++q)
                out[q] += b.left[p * b.rank + c] * b.right[c * b.columns + q];
    }
}

template <class T> void powers(const T *in, T *log_out, T *exp_out, std::int64_t n) {
    constexpr int lanes = Lanes<T>::count;
    for (std::int64_t i = 0; i + lanes <= n; i += lanes) {
        store(log_out + i, log<T>(load(in + i)));
        store(exp_out + i, exp<T>(load(in + i)));
    }
}

} // namespace icml::einfact::ICML_ISA
