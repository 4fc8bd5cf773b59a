#!/bin/sh
# cancel.sh ID…: cancels jobs
exec scancel "$@"
