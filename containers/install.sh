#!/bin/sh
# Install plait from a source folder into a virtual environment of its own: what the image does, and what works anywhere.
#   install.sh SOURCE TARGET
set -eu
source_folder=$(cd "$1" && pwd)
target=$2
python3 -m venv "$target"
"$target/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check "$source_folder"
"$target/bin/python" -m compileall -q "$target/lib"
"$target/bin/plait" version
