#!/bin/sh -e
# submit.sh THREADS MEGABYTES MINUTES GPUS NAME SCRIPT: submits a job and prints its ID
mkdir -p results/cluster_logs
if [ "$4" -gt 0 ]; then partition="gpu --gres=gpu:$4"; else partition=cpu; fi
# shellcheck disable=SC2086
exec sbatch --parsable --cpus-per-task="$1" --mem="$2" --time="$3" --partition=$partition --job-name="$5" \
  --output=results/cluster_logs/%j.log "$6"
