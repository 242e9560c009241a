#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
#
# test_guarded_demo.sh LAUNCH FOLDER: the language model with one rank on the stand-in device. It learns;
# what crosses ranks is staged there and not on the host; an interrupted and resumed run equals an
# uninterrupted one, bit for bit; a transport that the device does not have is refused.
# shellcheck source=tests/mixed/demo_begin.sh
. "$(dirname "$0")/demo_begin.sh"

small=(--data "$work/text" --layers 1 --features 16 --heads 2 --context 16 --batch 4 --dropout 0.1
  --shares 1:1 --lr 1e-2 --generate 4)
export KRAMA_PROGRESS=plain
transport=staged
train() {
  "$launch" -n 1 -env KRAMA_GROUP host "$folder/language_model.native" "${small[@]}" "$@" : \
    -n 1 -env KRAMA_GROUP guarded -env KRAMA_TRANSPORT "$transport" \
    "$folder/language_model.guarded" "${small[@]}" "$@" >"$work/log" 2>&1
}

train --steps 12 --out "$work/whole" || fail "an uninterrupted run: $(cat "$work/log")"
grep -q "guarded: [0-9.]* MiB through staging" "$work/log" || fail "no staging told: $(cat "$work/log")"
grep -q "guarded: 0.0 MiB through staging" "$work/log" && fail "nothing was staged"
grep -q "host: 0.0 MiB through staging" "$work/log" || fail "the host staged: $(cat "$work/log")"
python3 - "$work/whole" <<'PY' || fail "it did not learn"
import json, sys
losses = [s["loss"] for s in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "loss" in s]
assert len(losses) == 12 and losses[-1] < 0.9 * losses[0], losses
PY

train --steps 12 --out "$work/parts" --stop-after 5 || fail "stopping after step 5: $(cat "$work/log")"
train --steps 12 --out "$work/parts" --resume || fail "resuming: $(cat "$work/log")"
cmp "$work/whole/checkpoint.safetensors" "$work/parts/checkpoint.safetensors" ||
  fail "the resumed run differs from the uninterrupted one"

transport=require=direct train --steps 2 --out "$work/direct" && fail "require=direct was accepted"
grep -q "lies in GuardedSpace: the MPI library is not known to read it" "$work/log" ||
  fail "no word about the transport: $(cat "$work/log")"
train --precision f64 --steps 2 --out "$work/f64" && fail "f64 was accepted"
grep -q "this executable has f32 only" "$work/log" || fail "no word about f64: $(cat "$work/log")"
[ $failed = 0 ] && echo "all as it should be"
exit $failed
