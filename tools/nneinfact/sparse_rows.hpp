// The sparse pass: entries of consecutive rows in chunks, the model's value of a vector of entries at a time.
namespace icml::einfact::ICML_ISA {

constexpr int chunk = 256; // entries whose terms are kept between the two halves of the work

// acc[r] += a[i] * rows[index[i]] over the entries of one segment, `Vectors` vectors wide, into double.
template <class T, int Vectors>
ICML_INLINE void weighted_rows(const T *a, const std::int32_t *index, const std::int32_t *entry,
                               std::int64_t n, const T *rows, std::int64_t stride, int columns, double *to) {
    constexpr int lanes = Lanes<T>::count;
    V<T> acc[Vectors] = {};
    for (std::int64_t i = 0; i < n; ++i) {
        const T *row = rows + index[i] * stride;
        const T x = !a ? T(1) : entry ? a[entry[i]] : a[i];
        for (int v = 0; v < Vectors; ++v) acc[v] += load(row + v * lanes) * x;
    }
    T out[Vectors * lanes];
    for (int v = 0; v < Vectors; ++v) store(out + v * lanes, acc[v]);
    for (int c = 0; c < columns; ++c) to[c] += out[c];
}

// The same over all columns, at most 4 vectors at once.
template <class T>
ICML_INLINE void weighted_sum(const T *a, const std::int32_t *index, const std::int32_t *entry,
                              std::int64_t n, const T *rows, std::int64_t stride, std::int64_t rank,
                              double *to) {
    constexpr int lanes = Lanes<T>::count;
    std::int64_t c = 0;
    for (; c + 3 * lanes < rank; c += 4 * lanes) {
        const std::int64_t left = rank - c;
        weighted_rows<T, 4>(a, index, entry, n, rows + c, stride, int(left < 4 * lanes ? left : 4 * lanes),
                            to + c);
    }
    const int left = int(rank - c);
    if (left > 2 * lanes)
        weighted_rows<T, 3>(a, index, entry, n, rows + c, stride, left, to + c);
    else if (left > lanes)
        weighted_rows<T, 2>(a, index, entry, n, rows + c, stride, left, to + c);
    else if (left > 0)
        weighted_rows<T, 1>(a, index, entry, n, rows + c, stride, left, to + c);
}

template <class T> ICML_INLINE V<T> lanewise_product(const T *l, const T *r, int vectors) {
    constexpr int lanes = Lanes<T>::count;
    V<T> s = load(l) * load(r);
    for (int v = 1; v < vectors; ++v) s += load(l + v * lanes) * load(r + v * lanes);
    return s;
}

template <class T> class SparsePass {
  public:
    explicit SparsePass(SparseBlock<T> &block)
        : b(block), vectors(int((block.rank + Lanes<T>::count - 1) / Lanes<T>::count)) {}

    template <Rule R> void run() {
        b.loss = b.model = 0;
        std::int64_t row = b.row0;
        const std::int64_t end = b.start[b.row1];
        for (std::int64_t k = b.start[b.row0]; k < end; k += chunk) {
            const int n = end - k < chunk ? int(end - k) : chunk;
            while (b.start[row + 1] <= k) ++row;
            if constexpr (R != Rule::data && R != Rule::weight) values(row, k, n);
            terms<R>(k, n);
            if (b.terms)
                for (int i = 0; i < n; ++i) b.terms[k + i] = x[i];
            if (b.num) accumulate(row, k, n);
        }
    }

  private:
    // x[i] = left[row] . right[column], not below the floor.
    void values(std::int64_t row, std::int64_t k, int n) {
        if (vectors == 1)
            values_of<1>(row, k, n);
        else if (vectors == 2)
            values_of<2>(row, k, n);
        else
            values_of<0>(row, k, n);
    }

    template <int Vectors> void values_of(std::int64_t row, std::int64_t k, int n) {
        constexpr int lanes = Lanes<T>::count;
        V<T> partial[lanes] = {};
        const V<T> floor = fill<T>(b.rule.floor);
        for (int i = 0; i < n; ++i) {
            while (b.start[row + 1] <= k + i) ++row;
            partial[i % lanes] = lanewise_product(
                b.left + row * b.stride, b.right + b.column[k + i] * b.stride, Vectors ? Vectors : vectors);
            if (i % lanes == lanes - 1) store(x + i - (lanes - 1), max<T>(sums<T>(partial), floor));
        }
        if (n % lanes) store(x + n / lanes * lanes, max<T>(sums<T>(partial), floor));
    }

    template <Rule R> void terms(std::int64_t k, int n) {
        constexpr int lanes = Lanes<T>::count;
        const RuleParameters<T> p = b.rule;
        V<T> loss{}, model{}, lane{};
        for (int i = 0; i < lanes; ++i) lane[i] = T(i);
        T y[lanes];
        for (int i = 0; i < n; i += lanes) {
            V<T> data{};
            I<T> counts = lane < T(n - i);
            if (b.value && n - i >= lanes) {
                data = load(b.value + k + i);
            } else if (b.value) {
                for (int j = 0; j < lanes; ++j) y[j] = i + j < n ? b.value[k + i + j] : 0;
                data = load(y);
            }
            counts &= data == data; // NaN: an entry whose value nobody knows
            data = counts ? data : V<T>{};
            if constexpr (R == Rule::weight || R == Rule::data) {
                store(x + i, R == Rule::data ? data : fill<T>(1));
            } else {
                const V<T> value = n - i >= lanes ? load(x + i) : (counts ? load(x + i) : fill<T>(1));
                const Cell<T> c =
                    b.want_loss ? cell<T, R, true>(data, value, p) : cell<T, R, false>(data, value, p);
                if (b.want_loss) {
                    loss += counts ? c.loss : V<T>{};
                    model += counts ? value * c.den : V<T>{};
                }
                store(x + i, c.num);
            }
        }
        b.loss += sum<T>(loss), b.model += sum<T>(model);
    }

    void accumulate(std::int64_t row, std::int64_t k, int n) {
        for (int i = 0; i < n;) {
            while (b.start[row + 1] <= k + i) ++row;
            const int stop = b.start[row + 1] - k < n ? int(b.start[row + 1] - k) : n;
            weighted_sum<T>(x + i, b.column + k + i, nullptr, stop - i, b.right, b.stride, b.rank,
                            b.num + row * b.rank);
            i = stop;
        }
    }

    SparseBlock<T> &b;
    const int vectors;
    alignas(64) T x[chunk + 64]; // the model's values, then the numerator's terms
};

template <class T> void sparse_block(SparseBlock<T> &b) {
    SparsePass<T> pass(b);
    switch (b.rule.rule) {
    case Rule::kl:
        return pass.template run<Rule::kl>();
    case Rule::euclidean:
        return pass.template run<Rule::euclidean>();
    case Rule::sum_one:
        return pass.template run<Rule::sum_one>();
    case Rule::beta_zero:
        return pass.template run<Rule::beta_zero>();
    case Rule::beta:
        return pass.template run<Rule::beta>();
    case Rule::general:
        return pass.template run<Rule::general>();
    case Rule::is:
        return pass.template run<Rule::is>();
    case Rule::sum_zero:
        return pass.template run<Rule::sum_zero>();
    case Rule::alpha_zero:
        return pass.template run<Rule::alpha_zero>();
    case Rule::both_zero:
        return pass.template run<Rule::both_zero>();
    case Rule::data:
        return pass.template run<Rule::data>();
    case Rule::weight:
        return pass.template run<Rule::weight>();
    case Rule::model:
        return pass.template run<Rule::model>();
    }
}

template <class T> void column_block(const ColumnBlock<T> &b) {
    for (std::int64_t q = b.column0; q < b.column1; ++q) {
        // Sums of single precision are moved to double every `chunk` entries.
        for (std::int64_t k = b.start[q]; k < b.start[q + 1]; k += chunk) {
            const std::int64_t n = b.start[q + 1] - k < chunk ? b.start[q + 1] - k : chunk;
            weighted_sum<T>(b.terms, b.row + k, b.entry + k, n, b.left, b.stride, b.rank, b.num + q * b.rank);
        }
    }
}

} // namespace icml::einfact::ICML_ISA
