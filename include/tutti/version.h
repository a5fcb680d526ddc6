#pragma once

// The version of these headers. The build, the packages and `--version` of all programs take it
// from here. The shared library's name ends with the first two numbers, as programs that were built
// with another MINOR need another library.

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 2
#define TUTTI_VERSION_PATCH 0
#define TUTTI_VERSION "0.2.0"
