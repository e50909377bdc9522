// What one cell adds to numerator, denominator and loss, a vector of cells at a time.
//
// y^α ŷ^(β-1) and ŷ^(α+β-1) both come from one logarithm of the model's value; those of the data are taken
// only where some cell of the vector is not zero.
namespace icml::einfact::ICML_ISA {

template <class T> struct Cell {
    V<T> num, den;
    V<T> loss; // the part that vanishes with y; parameters.den_loss * x * den is the rest
};

template <class T, Rule R, bool Loss> ICML_INLINE Cell<T> cell(V<T> y, V<T> x, const RuleParameters<T> &p) {
    const V<T> zero{}, one = fill<T>(1);
    const T a = p.alpha, b = p.beta;
    Cell<T> c{zero, one, zero};
    if constexpr (R == Rule::model) {
        c.num = x;
    } else if constexpr (R == Rule::euclidean) {
        c.num = y, c.den = x;
        if constexpr (Loss) c.loss = y * (y * T(0.5) - x);
    } else if constexpr (R == Rule::kl) {
        const I<T> positive = y > zero;
        if (!any<T>(positive)) return c;
        c.num = y / x;
        if constexpr (Loss) c.loss = y * (log<T>(positive ? c.num : one) - T(1));
    } else if constexpr (R == Rule::is) {
        c.den = one / x;
        const V<T> ratio = y * c.den;
        c.num = ratio * c.den;
        if constexpr (Loss) c.loss = ratio - log<T>(ratio) - T(1);
    } else if constexpr (R == Rule::both_zero) {
        const V<T> u = log<T>(y) - log<T>(x);
        c.den = one / x, c.num = c.den * u;
        if constexpr (Loss) c.loss = u * u * T(0.5);
    } else {
        const V<T> log_x = log<T>(x);
        if constexpr (R == Rule::beta) {
            const V<T> power = exp<T>(log_x * (b - 1));
            c.den = power * x, c.num = y * power;
        } else if constexpr (R == Rule::sum_zero) {
            c.den = one / x;
        } else if constexpr (R == Rule::alpha_zero) {
            c.den = exp<T>(log_x * (b - 1));
        } else if constexpr (R != Rule::sum_one) {
            c.den = exp<T>(log_x * (a + b - 1));
        }
        const I<T> positive = y > zero;
        if ((R == Rule::beta && !Loss) || !any<T>(positive)) return c;
        const V<T> log_y = log<T>(positive ? y : one), u = log_y - log_x;
        if constexpr (R == Rule::alpha_zero) {
            c.num = c.den * u;
        } else if constexpr (R != Rule::beta) {
            c.num = exp<T>(log_y * a + log_x * (b - 1));
            c.num = positive ? c.num : zero;
        }
        if constexpr (Loss) {
            V<T> loss = zero;
            const V<T> up = c.num * x;
            if constexpr (R == Rule::beta || R == Rule::general)
                loss = exp<T>(log_y * (a + b)) * (1 / (b * (a + b))) - up * (1 / (a * b));
            else if constexpr (R == Rule::sum_one)
                loss = y * (1 / b) - up * (1 / (a * b));
            else if constexpr (R == Rule::beta_zero)
                loss = up * (u * a - T(1)) * (1 / (a * a));
            else if constexpr (R == Rule::sum_zero)
                loss = (up - u * a - T(1)) * (1 / (a * a));
            else if constexpr (R == Rule::alpha_zero)
                loss = (exp<T>(log_y * b) - c.den * x) * (1 / (b * b)) - up * (1 / b);
            c.loss = positive ? loss : zero;
        }
    }
    return c;
}

} // namespace icml::einfact::ICML_ISA
