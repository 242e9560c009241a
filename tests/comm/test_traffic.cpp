// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#include "comm/comm_test.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace krama::test;

// MPI's profiling interface: these stand before the library's own and count what is asked of it.
namespace {
struct Calls {
  int messages = 0;
  int reductions = 0;
  int blocking = 0;
};
Calls seen;
}  // namespace

extern "C" {
int MPI_Isend(const void* data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++seen.messages;
  return PMPI_Isend(data, n, type, to, tag, comm, request);
}
int MPI_Irecv(void* data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  ++seen.messages;
  return PMPI_Irecv(data, n, type, from, tag, comm, request);
}
int MPI_Allreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++seen.reductions;
  return PMPI_Allreduce(in, out, n, type, op, comm);
}
int MPI_Iallreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  ++seen.reductions;
  return PMPI_Iallreduce(in, out, n, type, op, comm, request);
}
int MPI_Send(const void* data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  ++seen.blocking;
  return PMPI_Send(data, n, type, to, tag, comm);
}
int MPI_Recv(void* data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status* status) {
  ++seen.blocking;
  return PMPI_Recv(data, n, type, from, tag, comm, status);
}
int MPI_Barrier(MPI_Comm comm) {
  ++seen.blocking;
  return PMPI_Barrier(comm);
}
}

namespace {
void all_operations(krama::MpiComm& comm, std::vector<float>& v) {
  const Exec exec;
  const auto n = static_cast<std::int64_t>(v.size());
  comm.reduce_scatter(exec, ref(v), krama::Partition::even(n, comm.size()), "v");
  comm.allgather(exec, ref(v), krama::Partition::even(n, comm.size()), "v");
  comm.allreduce(exec, ref(v), "v");
  comm.broadcast(exec, ref(v), 0, "v");
  double d[] = {1.0};
  comm.sum_in_rank_order(d, "d");
  std::int64_t i[] = {1};
  comm.sum(i, "i");
  comm.barrier("b");
  CHECK(comm.gather_text("x", "t").size() == static_cast<std::size_t>(comm.size()));
}
}  // namespace

TEST_CASE("traffic: one rank sends nothing (C03)", "[comm]") {
  krama::MpiComm alone(MPI_COMM_SELF, "alone");
  std::vector<float> v(1000, 2.0F);
  seen = {};
  all_operations(alone, v);
  CHECK(seen.messages == 0);
  CHECK(seen.reductions == 0);
  CHECK(alone.traffic().messages_sent == 0);
  CHECK(v == std::vector<float>(1000, 2.0F));
}

TEST_CASE("traffic: MPI moves bytes, reduces nothing and never blocks (C12, C17, C21)", "[comm]") {
  auto comm = world().duplicate("traffic");
  std::vector<float> v(5000, 1.0F);
  seen = {};
  all_operations(comm, v);
  CHECK(seen.reductions == 0);
  CHECK(seen.blocking == 0);
  CHECK((seen.messages > 0) == (comm.size() > 1));
}

TEST_CASE("traffic: an allreduce sends every element twice at most, and counts it", "[comm]") {
  auto comm = world().duplicate("bytes");
  const Exec exec;
  const std::int64_t n = 256 * 12;
  auto v = values_of<float>(comm.rank(), n);
  comm.allreduce(exec, ref(v), "v");  // the first call compares signatures too
  const auto before = comm.traffic();
  comm.allreduce(exec, ref(v), "v");
  const auto after = comm.traffic();
  const std::int64_t others = comm.size() - 1;
  CHECK(after.bytes_sent - before.bytes_sent == 2 * others * n / comm.size() * 4);
  CHECK(after.bytes_received - before.bytes_received == 2 * others * n / comm.size() * 4);
  CHECK(after.calls - before.calls == 1);
  CHECK(after.control_calls == before.control_calls);
}
