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

# One secret for this allocation: only processes that know it may use the cluster.
export RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export RAY_AUTH_TOKEN
# GPUs of a node, if Slurm has assigned some, are found by Ray itself.
cpus=${SLURM_CPUS_ON_NODE:-1}
# Jobs that share a node need different ports.
port=$((20000 + SLURM_JOB_ID % 10000))
temporary=$(mktemp -d "/tmp/ray-$SLURM_JOB_ID-XXXX")
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$temporary"' EXIT

# This script runs on the first node, where Ray's head and the runner of the experiment belong.
address=$(hostname --ip-address | awk '{print $1}')
ray start --head --block --node-ip-address="$address" --port=$port --num-cpus="$cpus" --include-dashboard=false \
    --temp-dir="$temporary" > "ray-$SLURM_JOB_ID.log" 2>&1 &
if [ "$SLURM_NNODES" -gt 1 ]; then
    srun --overlap --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$SLURMD_NODENAME" \
        ray start --address="$address:$port" --block --num-cpus="$cpus" >> "ray-$SLURM_JOB_ID.log" 2>&1 &
fi
until det cluster --engine "ray:$address:$port" --json 2>/dev/null | grep -c '"address"' | grep -qx "$SLURM_NNODES"; do
    sleep 2
done

if [ ! -s "$id_file" ]; then
    created=$(det experiment create "$config" "$model" --paused --json --engine ray)
    python3 -c 'import json, sys; print(json.loads(sys.argv[1])["id"])' "$created" > "$id_file"
fi
det experiment activate "$(cat "$id_file")" --engine "ray:$address:$port" &
runner=$!
requeue=no
trap 'requeue=yes; kill -TERM $runner 2>/dev/null' TERM
# A trapped signal interrupts the first wait; the second one waits until all trials have saved.
code=0
wait $runner || code=$?
[ $requeue = no ] || { wait $runner || code=$?; scontrol requeue "$SLURM_JOB_ID"; }
exit $code
