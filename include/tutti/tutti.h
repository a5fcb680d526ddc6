#pragma once

/// \file
/// Includes the whole library. Link tutti::tutti.

#include <tutti/arguments.h>
#include <tutti/buffer.h>
#include <tutti/communicator.h>
#include <tutti/device.h>
#include <tutti/error.h>
#include <tutti/launch.h>
#include <tutti/log.h>
#include <tutti/reduction.h>
#include <tutti/types.h>
#include <tutti/version.h>
#include <tutti/wait_check.h>
#include <tutti/window.h>
