#!/bin/sh
# Makes the root file system of the images in $1: Node, the libraries that it links, and the users. No shell, no package manager.
# Each library's package stays listed in var/lib/dpkg/status.d, where scanners look for it, with its license in usr/share/doc.
set -eu
root=$1

if ! ldconfig -p | grep -q 'libatomic\.so\.1 '; then
  apt-get update
  apt-get install -y --no-install-recommends libatomic1
fi

mkdir -p "$root/usr/local/bin" "$root/etc" "$root/var/lib/dpkg/status.d" "$root/opt/svc" "$root/home/svc"
install -d -m 1777 "$root/tmp"
# Without symbols, which are a fifth of it.
node scripts/strip-elf.ts "$(command -v node)" "$root/usr/local/bin/node"
for library in $(ldd /usr/local/bin/node | grep -o '/[^ ]*'); do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
for package in libc6 libgcc-s1 libstdc++6 libatomic1; do
  dpkg-query --status "$package" >"$root/var/lib/dpkg/status.d/$package"
  mkdir -p "$root/usr/share/doc/$package"
  cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
cp /etc/debian_version "$root/etc/debian_version"
cp -L /etc/os-release "$root/etc/os-release"
printf 'root:x:0:0:root:/nonexistent:/nonexistent\nsvc:x:1000:1000:svc:/home/svc:/nonexistent\n' >"$root/etc/passwd"
printf 'root:x:0:\nsvc:x:1000:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"

# Starts from the new root, with nothing else in reach.
chroot "$root" /usr/local/bin/node --version
