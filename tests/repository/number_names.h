#pragma once

// Which names of a source are numbers, and whether floating-point ones or integers, as far as its
// tokens tell.

#include <set>
#include <string>

#include "tests/repository/tokens.h"

namespace tutti::repository {

/// A name may be both, of several declarations.
struct NumberNames {
  std::set<std::string> floating, integer;
};

/// What `s` declares double or float, and as integers: variables, members, functions, and
/// containers of these.
NumberNames declaredNumbers(const TokenizedFile& s);
/// All that `s` may use: what it declares and deduces, and what of `headers` it does not declare
/// otherwise.
NumberNames numbersIn(const TokenizedFile& s, const NumberNames& headers);

/// A word that is a type, or begins like one of ours.
bool isType(const Token& token);
/// A floating-point literal, type, function of <cmath> or name.
bool isFloating(const Token& token, const NumberNames& names);
/// Whether all that decides the type of the expression [begin, end) is known to be integers: of
/// `a.b[c]` and `a.b(c)` that is b.
bool isInteger(const TokenizedFile& s, size_t begin, size_t end, const NumberNames& names);

}  // namespace tutti::repository
