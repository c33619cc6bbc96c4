#!/bin/sh
# Makes the root file system of the images in $2 from the base image for their platform, of which $1 has the files: Node, the libraries that it
# links, and the users. No shell, no package manager. Runs no program of that platform, which may be another than this machine's.
# Each library's package stays listed in var/lib/dpkg/status.d, where scanners look for it, with its license in usr/share/doc.
set -eu
target=$1
root=$2
query() { dpkg-query --admindir="$target/var/lib/dpkg" "$@"; }

architecture=$(query --showformat='${Architecture}' --show libc6)
native=$(dpkg --print-architecture)
case $architecture in
  amd64) triplet=x86_64-linux-gnu loader=lib64/ld-linux-x86-64.so.2 ;;
  arm64) triplet=aarch64-linux-gnu loader=lib/ld-linux-aarch64.so.1 ;;
  *) echo "make-root.sh: there is no image for $architecture" >&2; exit 1 ;;
esac

packages="libc6 libgcc-s1 libstdc++6 libatomic1"
mkdir -p "$root/usr/local/bin" "$root/etc" "$root/var/lib/dpkg/status.d" "$root/opt/svc" "$root/home/svc"
install -d -m 1777 "$root/tmp"

# The base may lack it.
if ! query --status libatomic1 >/dev/null 2>&1; then
  [ "$architecture" = "$native" ] || dpkg --add-architecture "$architecture"
  apt-get update
  (cd /tmp && apt-get -o APT::Sandbox::User=root download "libatomic1:$architecture")
  dpkg-deb -x /tmp/libatomic1_*.deb "$target"
  { dpkg-deb --field /tmp/libatomic1_*.deb; echo "Status: install ok installed"; } >"$root/var/lib/dpkg/status.d/libatomic1"
  rm /tmp/libatomic1_*.deb
fi

# Without symbols, which are a fifth of it.
node scripts/strip-elf.ts "$target/usr/local/bin/node" "$root/usr/local/bin/node"
mkdir -p "$root/lib/$triplet" "$root/$(dirname $loader)"
for library in "$(basename $loader)" libatomic.so.1 libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0 libstdc++.so.6; do
  at=$root/lib/$triplet/$library
  [ "$library" != "$(basename $loader)" ] || at=$root/$loader
  # /lib is a link to /usr/lib, or has a part of the libraries.
  for folder in usr/lib lib; do
    [ ! -e "$target/$folder/$triplet/$library" ] || cp -L "$target/$folder/$triplet/$library" "$at"
  done
  [ -e "$at" ] || { echo "make-root.sh: the base has no $library" >&2; exit 1; }
done
for package in $packages; do
  status=$root/var/lib/dpkg/status.d/$package
  [ -e "$status" ] || query --status "$package" >"$status"
  mkdir -p "$root/usr/share/doc/$package"
  cp -L "$target/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
cp "$target/etc/debian_version" "$root/etc/debian_version"
cp -L "$target/etc/os-release" "$root/etc/os-release"
printf 'root:x:0:0:root:/nonexistent:/nonexistent\nsvc:x:1000:1000:svc:/home/svc:/nonexistent\n' >"$root/etc/passwd"
printf 'root:x:0:\nsvc:x:1000:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"

# Starts from the new root, with nothing else in reach.
[ "$architecture" != "$native" ] || chroot "$root" /usr/local/bin/node --version
