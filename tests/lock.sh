#!/bin/sh
# Write requirements.lock (what oncall needs) and requirements-dev.lock (what its tests need besides) from pyproject.toml.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --upgrade pip
"$folder/venv/bin/python" -m pip install --quiet .
"$folder/venv/bin/python" -m pip freeze --exclude oncall --exclude pip >requirements.lock
"$folder/venv/bin/python" -m pip install --quiet --group dev --group lab
"$folder/venv/bin/python" -m pip freeze --exclude oncall --exclude pip | sed 's/+cpu$//' |
    grep -vxFf requirements.lock >requirements-dev.lock
