import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The result of installing a Debian package on a copy of this machine. */
export interface PackageReport {
  ok: boolean;
  /** Why it failed, or why it was not tried. */
  problem: string | null;
}

/** Installs, upgrades, removes and purges: the collector's files belong to its user; purging deletes them, removing does not. */
const script = `set -eu
dpkg --install "$1" >/dev/null
test "$(stat -c %U:%a /etc/svc-collector)" = svc-collector:750
test "$(stat -c %U:%a /var/lib/svc-collector)" = svc-collector:700
setpriv --reuid svc-collector --regid svc-collector --clear-groups env -i PATH=/nonexistent /usr/bin/svc-collector --version >/dev/null
setpriv --reuid svc-collector --regid svc-collector --clear-groups touch /etc/svc-collector/kept /var/lib/svc-collector/kept
systemd-analyze verify /usr/lib/systemd/system/svc-collector.service
bash -n /usr/share/bash-completion/completions/svc-collector
dpkg --install "$1" >/dev/null
dpkg --remove svc-collector >/dev/null
test -e /etc/svc-collector/kept -a -e /var/lib/svc-collector/kept -a ! -e /usr/bin/svc-collector
dpkg --purge svc-collector >/dev/null
test ! -e /etc/svc-collector -a ! -e /var/lib/svc-collector
`;

/** Runs the script in a copy-on-write copy of this machine's file system, in a mount namespace that ends with it. Needs root. */
export const checkPackage = async (debianPackage: string): Promise<PackageReport> => {
  const dir = await mkdtemp(join(tmpdir(), "package-"));
  const enter = `set -eu
mount -t tmpfs tmpfs "$1"; mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t tmpfs tmpfs "$1/root/run"; mount -t proc proc "$1/root/proc"; mount --bind /dev "$1/root/dev"
cp "$2" "$1/root/run/package.deb"
exec chroot "$1/root" sh -c "$3" sh /run/package.deb`;
  try {
    const options = { encoding: "utf8", timeout: 120_000, env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } } as const;
    const probe = spawnSync("unshare", ["--mount", "--pid", "--fork", "true"], options);
    if (probe.status !== 0) return { ok: true, problem: "not tried: needs root and unshare" };
    const args = ["--mount", "--pid", "--fork", "sh", "-c", enter, "sh", dir, debianPackage, `set -x\n${script}`];
    const { status, stderr } = spawnSync("unshare", args, options);
    return { ok: status === 0, problem: status === 0 ? null : stderr.trimEnd().split("\n").slice(-5).join("\n") };
  } finally {
    await rm(dir, { recursive: true });
  }
};
