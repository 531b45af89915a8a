#!/bin/bash
# Run an experiment on a Ray cluster inside a Slurm allocation, and continue it in further allocations until it ends.
#
#   sbatch slurm.sh CONFIG.yaml MODEL_DIR
#
# Two minutes before the time limit Slurm sends SIGTERM to this script: `det` pauses the experiment (all trials save a
# checkpoint), and the job is queued again. The id of the experiment is kept in determined-<job id>.experiment.
#SBATCH --job-name=determined
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
config=$1 model=$2
id_file="determined-$SLURM_JOB_ID.experiment"
seconds_to_start=600

# Set before anything starts: a signal during the start leads to the queue too. Bash runs a trap when the command in the
# foreground has ended.
time_is_up=no interrupted=no runner=
trap 'time_is_up=yes interrupted=yes; [ -z "$runner" ] || kill -TERM "$runner" 2>/dev/null || true' TERM

stop_ray() {
    trap - EXIT
    # Signals in this last part must not leave half of it undone.
    trap '' TERM
    kill $(jobs -p) 2>/dev/null || true
    wait || true
    rm -rf "$temporary"
}

queue_again() {
    echo "The time limit is near: the job is queued again"
    stop_ray
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
}

# The address by which other nodes reach this one. A host's own name is often 127.0.1.1 in its /etc/hosts.
own_address() {
    local other known address
    other=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | grep -vxF "$SLURMD_NODENAME" | head -n 1 || true)
    if [ -n "$other" ]; then
        known=$(scontrol show node "$other" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
        known=$(getent ahostsv4 "${known:-$other}" | awk '{print $1; exit}')
        address=$(ip -o route get "$known" 2>/dev/null | sed -n 's/.* src \([^ ]*\).*/\1/p' || true)
    fi
    [ -n "${address:-}" ] || address=$(getent ahostsv4 "$SLURMD_NODENAME" | awk '$1 !~ /^127\./ {print $1; exit}')
    [ -n "$address" ] || address=$(hostname -I | awk '{print $1}')
    echo "$address"
}

# One secret for this allocation: only processes that know it may use the cluster.
export RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export RAY_AUTH_TOKEN
# Jobs that share a node need different ports.
port=$((20000 + SLURM_JOB_ID % 10000))
temporary=$(mktemp -d "/tmp/ray-$SLURM_JOB_ID-XXXX")
trap stop_ray EXIT

# This script runs on the first node, where Ray's head and the runner of the experiment belong.
address=$(own_address)
ray start --head --block --node-ip-address="$address" --port=$port \
    --num-cpus="${SLURM_CPUS_ON_NODE:-1}" --include-dashboard=false --temp-dir="$temporary" > "ray-$SLURM_JOB_ID.log" 2>&1 &
if [ "$SLURM_NNODES" -gt 1 ]; then
    # Nodes may differ in CPUs, and each says how many it has in this job; GPUs are found by Ray itself. Without
    # --cpu-bind=none, Slurm may bind Ray and all trials of a node to the CPU of one task. The other nodes use the same
    # temporary directory as the head, and delete it when Ray ends there.
    srun --overlap --cpu-bind=none --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$SLURMD_NODENAME" \
        bash -c 'trap "kill \$! 2>/dev/null; wait; rm -rf \"$1\"; exit" TERM
            ray start --address="$2" --block --num-cpus="${SLURM_CPUS_ON_NODE:-1}" & wait; rm -rf "$1"' \
        ray "$temporary" "$address:$port" >> "ray-$SLURM_JOB_ID.log" 2>&1 &
fi
until det cluster --engine "ray:$address:$port" --json 2>/dev/null | grep -c '"address"' | grep -qx "$SLURM_NNODES"; do
    [ $time_is_up = no ] || queue_again
    if [ $SECONDS -gt "$seconds_to_start" ]; then
        echo "Ray has not started on $SLURM_NNODES nodes within $seconds_to_start seconds, see ray-$SLURM_JOB_ID.log" >&2
        exit 1
    fi
    sleep 2
done
det cluster --engine "ray:$address:$port"

if [ ! -s "$id_file" ]; then
    created=$(det experiment create "$config" "$model" --paused --json --engine ray)
    python3 -c 'import json, sys; print(json.loads(sys.argv[1])["id"])' "$created" > "$id_file"
fi
[ $time_is_up = no ] || queue_again
det experiment activate "$(cat "$id_file")" --engine "ray:$address:$port" &
runner=$!
# The signal may have come before its process was known.
[ $time_is_up = no ] || kill -TERM $runner 2>/dev/null || true
code=143 interrupted=yes
# A trapped signal interrupts `wait`, which is then repeated until all trials have saved.
while [ $interrupted = yes ]; do
    interrupted=no code=0
    wait $runner || code=$?
done
# 143: the signal has paused it. Otherwise the experiment has ended just before, and there is nothing to continue.
[ $time_is_up = no ] || [ $code != 143 ] || queue_again
exit $code
