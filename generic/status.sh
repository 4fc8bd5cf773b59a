#!/bin/sh
# status.sh ID: prints `running`, `success` or `failed`. A job is running until the scheduler says otherwise.
case $(squeue --noheader --states=all --jobs="$1" --format=%T 2>&1) in
  COMPLETED) echo success ;;
  BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | TIMEOUT | *"Invalid job id"*) echo failed ;;
  *) echo running ;;
esac
