// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

/// Everything for safetensors files: SafetensorsReader, SafetensorsShards, SafetensorsWriter.
#include <krama/io/safetensors_reader.hpp>
#include <krama/io/safetensors_shards.hpp>
#include <krama/io/safetensors_writer.hpp>
