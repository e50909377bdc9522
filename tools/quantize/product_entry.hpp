// The functions of an InstructionSet on trellis codes, by what is known at run time. product_avx2.cpp and
// product_avx512.cpp include it inside their own namespace, after integer_stripes, exact_stripes and
// decode_stripes.

// f<K, family, whether states have all of 16 bits>, chosen at run time.
template <class F> void with_code(const TrellisProduct &p, const F &f) {
    const auto with_family = [&](auto family) {
        p.state_bits == 16 ? f(Int<2>{}, family, Int<1>{}) : f(Int<2>{}, family, Int<0>{});
    };
    if (p.bits == 4)
        p.generator.family == Family::mulx ? f(Int<4>{}, Int<int(Family::mulx)>{}, Int<0>{})
                                           : f(Int<4>{}, Int<int(Family::mul32)>{}, Int<0>{});
    else if (p.generator.family == Family::mul16)
        with_family(Int<int(Family::mul16)>{});
    else if (p.generator.family == Family::mulx)
        with_family(Int<int(Family::mulx)>{});
    else
        with_family(Int<int(Family::mul32)>{});
}

bool covers(const TrellisProduct &p) {
    return p.bits == 2 || (p.bits == 4 && p.generator.family != Family::mul16);
}

void integer(const TrellisProduct &p) {
    with_code(p, [&](auto k, auto family, auto whole) {
        constexpr Family F = Family(family.value);
        p.vectors == 4   ? integer_stripes<k.value, F, whole.value, 4>(p)
        : p.vectors == 2 ? integer_stripes<k.value, F, whole.value, 2>(p)
                         : integer_stripes<k.value, F, whole.value, 1>(p);
    });
}

void exact(const TrellisProduct &p) {
    with_code(p, [&](auto k, auto family, auto whole) {
        constexpr Family F = Family(family.value);
        p.vectors == 4   ? exact_stripes<k.value, F, whole.value, 4>(p)
        : p.vectors == 2 ? exact_stripes<k.value, F, whole.value, 2>(p)
                         : exact_stripes<k.value, F, whole.value, 1>(p);
    });
}

void decode(const TrellisProduct &p, float *out, std::int64_t out_stride) {
    with_code(p, [&](auto k, auto family, auto whole) {
        decode_stripes<k.value, Family(family.value), whole.value>(p, out, out_stride);
    });
}
