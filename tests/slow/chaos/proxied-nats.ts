import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { startTcpProxy, type TcpProxy } from "#tests/fakes/tcp-proxy.ts";

/** A file system in memory, which can be full. */
type SmallDisk = Awaited<ReturnType<typeof mountSmallDisk>>;

const size = "1g";

/** Mounts one. Throws where this process may not mount, as it must be root. */
const mountSmallDisk = async () => {
  const dir = await mkdtemp(join(tmpdir(), "svc-disk-"));
  const mount = (...args: string[]) =>
    void execFileSync("mount", [...args, dir], { stdio: ["ignore", "ignore", "pipe"] });
  const usedKib = () =>
    execFileSync("df", ["--output=used", "-k", dir], { encoding: "utf8" }).trim().split(/\s+/)[1];
  try {
    mount("-t", "tmpfs", "-o", `size=${size}`, "tmpfs");
  } catch (cause) {
    await rm(dir, { recursive: true });
    throw new Error("a disk that can be full is a tmpfs, which only root may mount", { cause });
  }
  return {
    dir,
    /** Shrinks it to what it holds: the next block that is written fails with ENOSPC. */
    fill: () => mount("-o", `remount,size=${usedKib()}k`),
    free: () => mount("-o", `remount,size=${size}`),
    async remove() {
      execFileSync("umount", ["-l", dir]);
      await rm(dir, { recursive: true });
    },
  };
};

/** A cluster of three NATS nodes, each behind a proxy and on a disk of its own. */
export interface ProxiedNats extends RunningNats {
  /** Between core and the nodes, in their order. */
  proxies: readonly TcpProxy[];
  /** Of the nodes, in their order. */
  disks: readonly SmallDisk[];
}

/** Starts the cluster. Its own connection does not use the proxies. */
export const startProxiedNats = async () => {
  const cleanup = new AsyncDisposableStack();
  try {
    const disks: SmallDisk[] = [];
    for (let node = 0; node < 3; node += 1)
      disks.push(cleanup.adopt(await mountSmallDisk(), (disk) => disk.remove()));
    const nats = await startNats({ nodes: 3, dirs: disks.map(({ dir }) => dir) });
    cleanup.defer(() => nats.stop());
    const ports = nats.addresses.map((address) => Number(address.split(":")[1]));
    const proxies = await Promise.all(ports.map(startTcpProxy));
    for (const proxy of proxies) cleanup.defer(() => proxy.close());
    return { ...nats, proxies, disks, stop: () => cleanup.disposeAsync() };
  } catch (error) {
    await cleanup.disposeAsync();
    throw error;
  }
};
