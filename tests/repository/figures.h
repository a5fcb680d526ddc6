#pragma once

// Figures of the repository's shape that its house keeps within limits: how large functions, files,
// folders and the communicator are, and whether names and tests are found. Each counts what it
// names in a list, so that a test can print the offenders.

#include <string>
#include <vector>

#include "tests/repository/source_tree.h"
#include "tests/repository/tokens.h"

namespace tutti::repository {

/// Every type and function that a file defines, as far as its tokens say.
struct Definitions {
  struct Type {
    std::string name;  ///< "A::B" where it is defined so
    size_t line;
    size_t open, close;     ///< tokens of its braces
    bool atNamespaceScope;  ///< and neither a specialization nor a member of another
  };
  struct Function {
    std::string name;
    size_t line, lineCount;  ///< from its declaration to its closing brace
  };
  std::vector<Type> types;
  std::vector<Function> functions;
};
Definitions definitionsOf(const TokenizedFile& file);

/// Non-static fields of a class and its methods, less those of types nested in it.
struct Members {
  std::vector<std::string> fields;
  std::vector<std::string> methods;
};
Members membersOf(const TokenizedFile& file, const Definitions::Type& type);

/// src, transports, collectives, parallel or include.
bool isProduct(const std::string& path);

/// Folders with more than `limit` text files directly in them, as "folder: count".
std::vector<std::string> crowdedFolders(const std::vector<SourceFile>& files, size_t limit);

/// Types at namespace scope in a header of the product whose names another of its files defines at
/// namespace scope, too. As "name: file file".
std::vector<std::string> duplicateTypes(const std::vector<TokenizedFile>& files);

/// Sources (*.cc of src, transports, collectives and parallel), and those of them without a test.
///
/// The test of a/b/c.cc is looked for in tests/a/b; of src/b/c.cc in tests/b. It is found by name
/// if c is among the words of a test there: ring_test.cc and graph_ring_test.cc are tests of
/// ring.cc. It is found by folder if tests/a/b/c has a test, or if tests/a/b has at most
/// `kFewTests` tests, so that a reader finds it by looking. A test is a file whose name ends in
/// _test.cc, or one of pytest: test_ring.py.
struct TestedSources {
  static constexpr size_t kFewTests = 12;
  size_t sources = 0;
  std::vector<std::string> untested;
};
TestedSources testedSources(const std::vector<SourceFile>& files);

}  // namespace tutti::repository
