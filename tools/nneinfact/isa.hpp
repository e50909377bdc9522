// The whole table of routines for one instruction set; the including file has set the target and the widths.
#include "simd.hpp"

#include "cells.hpp"

#include "dense_tiles.hpp"

#include "sparse_rows.hpp"

namespace icml::einfact::ICML_ISA {

template <class T> constexpr Routines<T> table() {
    return {dense_block<T>, sparse_block<T>, column_block<T>, product_block<T>, powers<T>};
}

} // namespace icml::einfact::ICML_ISA
