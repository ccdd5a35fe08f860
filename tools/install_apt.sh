#!/usr/bin/env bash
# Installs the packages of .ci/apt.txt that this machine lacks, on Debian or Ubuntu where it may: as root, or by a sudo
# that asks nothing. Elsewhere it says what to install and what is skipped until then. It always exits with 0, because
# the tests skip what they lack: a machine without the packages still tests everything else.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=$(sed 's/#.*//' .ci/apt.txt)
if ! { command -v dpkg-query && command -v apt-get; } >/dev/null; then
  echo "Not Debian or Ubuntu: install what these packages hold to run all tests:" $packages \
       "(until then, the tests that need a browser, a cross compiler or an emulator of a processor are skipped)."
  exit 0
fi

missing=""
for package in $packages; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=env
elif sudo -n true 2>/dev/null; then
  as_root="sudo -n env"
else
  as_root=""
fi
# shellcheck disable=SC2086  # a word a package, and a word a part of the command
if [ -n "$as_root" ]; then
  echo "Installing the Debian packages that the tests use (.ci/apt.txt):$missing"
  $as_root DEBIAN_FRONTEND=noninteractive apt-get update -qq || true
  wanted=""
  for package in $missing; do  # one name that this release does not have would make apt-get install none
    if apt-cache show "$package" >/dev/null 2>&1; then wanted="$wanted $package"; else absent="${absent-} $package"; fi
  done
  if [ -n "${absent-}" ]; then
    echo "This release of the distribution has no package${absent}: the tests that need it are skipped."
  fi
  [ -n "$wanted" ] || exit 0
  if $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $wanted >/dev/null; then
    exit 0
  fi
  echo "The installation failed."
  missing=$wanted
fi
echo "To run all tests: sudo apt-get install$missing" \
     "(until then, the tests that need a browser, a cross compiler or an emulator of a processor are skipped)."
