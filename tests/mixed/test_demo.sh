#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# test_demo.sh LAUNCH FOLDER: the language model across its unlike executables. An interrupted and
# resumed run equals an uninterrupted one, bit for bit (K02); wrong options end on every rank with one
# line and a non-zero exit; the run folder holds what it should.
# shellcheck source=tests/mixed/demo_begin.sh
. "$(dirname "$0")/demo_begin.sh"

small=(--data "$work/text" --layers 1 --features 32 --heads 2 --context 32 --dropout 0.1 --generate 8)
export KRAMA_QUIET=1 KRAMA_PROGRESS=off
train() {
  "$launch" -n 1 -env ONEDNN_MAX_CPU_ISA AVX2 "$folder/language_model.v3" "${small[@]}" "$@" : \
    -n 1 "$folder/language_model.native" "${small[@]}" "$@" >"$work/log" 2>&1
}

train --steps 10 --shares 3:1 --out "$work/whole" || fail "an uninterrupted run: $(cat "$work/log")"
train --steps 10 --shares 3:1 --out "$work/parts" --stop-after 5 || fail "stopping after step 5"
cmp -s "$work/whole/checkpoint.safetensors" "$work/parts/checkpoint.safetensors" &&
  fail "step 5 and step 10 have the same checkpoint"
train --steps 10 --shares 3:1 --out "$work/parts" --resume || fail "resuming: $(cat "$work/log")"
cmp "$work/whole/checkpoint.safetensors" "$work/parts/checkpoint.safetensors" ||
  fail "K02: the resumed run differs from the uninterrupted one"

# Shares that follow speed: the run's log makes another run compute the same bits, and a run that is
# interrupted goes on with the shares that it had.
train --steps 12 --batch 16 --out "$work/auto" || fail "shares that follow speed: $(cat "$work/log")"
train --steps 12 --batch 16 --replay-shares "$work/auto/checkpoint.safetensors" --out "$work/replay" ||
  fail "replaying shares: $(cat "$work/log")"
python3 - "$work/auto" "$work/replay" <<'PY' || fail "the replayed run differs, or the shares were not told"
import json, struct, sys
def read(folder):
    with open(folder + "/checkpoint.safetensors", "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        return header["__metadata__"]["krama.shares"], f.read()
(log, bits), (replayed, same) = map(read, sys.argv[1:3])
assert bits == same
strip = lambda text: [line.split()[:2] for line in text.splitlines()]
assert strip(log) == strip(replayed), (log, replayed)
told = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
told = [line for line in told if "shares" in line]
assert told and all(sum(line["shares"]) == 16 and line["reason"] for line in told), told
PY

# f16 with a scale of the loss that is too large at first: both ranks skip, lower it, and learn.
KRAMA_PROGRESS=plain train --steps 14 --precision f16 --loss-scale 16777216 --shares 3:1 --out "$work/f16" ||
  fail "f16: $(cat "$work/log")"
grep -q "step 1: skipped, the gradient overflowed with a loss scale of 16777216" "$work/log" ||
  fail "no skipped step told: $(cat "$work/log")"
python3 - "$work/f16" <<'PY' || fail "f16: the scale did not fall, or nothing was learnt"
import json, sys
steps = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
steps = [s for s in steps if "loss_scale" in s]
assert steps[0]["loss_scale"] == 2**24 and steps[-1]["loss_scale"] < 2**17, steps
assert steps[-1]["loss"] < steps[0]["loss"] if steps[0]["loss"] else steps[-1]["loss"] < 6, steps
PY

# Rounds of local steps: a run that is stopped between rounds and resumed equals one that is not; a line
# of metrics a round, with the steps that it is about.
local=(--local-rule diloco --local-steps 4 --shares 3:1)
train --steps 14 "${local[@]}" --out "$work/local" || fail "local rounds: $(cat "$work/log")"
train --steps 14 "${local[@]}" --out "$work/rounds" --stop-after 7 || fail "stopping between rounds"
train --steps 14 "${local[@]}" --out "$work/rounds" --resume || fail "resuming rounds: $(cat "$work/log")"
cmp "$work/local/checkpoint.safetensors" "$work/rounds/checkpoint.safetensors" ||
  fail "local rounds: the resumed run differs from the uninterrupted one"
python3 - "$work/local" "$work/rounds" <<'PY' || fail "local rounds: wrong metrics"
import json, sys
for folder in sys.argv[1:]:
    lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
    rounds = [(s["step"], s["steps"]) for s in lines if "loss" in s]
    assert rounds == [(4, 4), (8, 4), (12, 4), (14, 2)], rounds
    assert all(0 < s["loss"] < 6 for s in lines if "loss" in s), lines
    assert any("validation_loss" in s for s in lines)
PY
train --steps 6 --local-rule cocod --local-steps 3 --local-groups groups --eval-every 2 --out "$work/cocod" ||
  fail "cocod in groups: $(cat "$work/log")"

# A group by name, staged: the same bits, and its bytes are told.
KRAMA_QUIET=0 KRAMA_PROGRESS=plain KRAMA_GROUP=left KRAMA_TRANSPORT=staged train --steps 10 --shares 3:1 --out "$work/groups" ||
  fail "staged, in a group by name: $(cat "$work/log")"
cmp "$work/whole/checkpoint.safetensors" "$work/groups/checkpoint.safetensors" ||
  fail "staging changed the bits"
grep -q "left -> left: [0-9.]* MiB" "$work/log" || fail "no traffic told: $(cat "$work/log")"
grep -q "left: [1-9][0-9.]* MiB through staging" "$work/log" || fail "no staging told: $(cat "$work/log")"
grep -q " left .*mpi, staged" "$work/log" || fail "no group in the table: $(cat "$work/log")"

for file in metrics.jsonl trace.json timeline.svg checkpoint.safetensors; do
  [ -s "$work/whole/$file" ] || fail "there is no $file"
done
python3 - "$work/whole" <<'PY' || fail "metrics or trace cannot be read"
import json, sys
folder = sys.argv[1]
steps = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
assert [s["step"] for s in steps if "loss" in s] == list(range(1, 11)), steps
assert any("validation_loss" in s for s in steps)
events = json.load(open(folder + "/trace.json"))["traceEvents"]
assert {e["pid"] for e in events} == {0, 1}
assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} >= {
    "compute", "communication", "data"}
PY

# expect MESSAGE OPTIONS…: ends with one line that says MESSAGE, and fails.
expect() {
  local message=$1
  shift
  if train --out "$work/wrong" "$@"; then fail "accepted: $*"; fi
  grep -q -- "$message" "$work/log" || fail "$*: no \"$message\" in: $(cat "$work/log")"
  [ "$(grep -c 'error:' "$work/log")" = 1 ] || fail "$*: not one line of error: $(cat "$work/log")"
}
expect "no such file" --data "$work/nothing" --steps 2
expect "--bogus" --bogus --steps 2
expect "3 numbers for 2 ranks" --shares 1:2:3 --steps 2
expect "shares out 16 samples" --replay-shares "$work/auto/checkpoint.safetensors" --batch 8 --steps 2
expect "not a number" --shares sometimes --steps 2
expect "give --local-rule" --local-steps 4 --steps 2
expect "has an outer optimizer; found cocod" --local-rule cocod --outer-rate 0.7 --steps 2
expect "gossip" --local-rule gossip --steps 2
expect "cannot be divided" --features 33 --steps 2
expect "powers of two" --precision f16 --loss-scale 1000 --steps 2
expect "no such file" --resume --steps 2
expect "was 1 when it was written" --resume --seed 2 --steps 20 --out "$work/whole"
expect "another shape" --resume --features 64 --steps 20 --out "$work/whole"
[ $failed = 0 ] && echo "all as it should be"
exit $failed
