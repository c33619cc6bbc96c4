import { type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { startTcpProxy, type TcpProxy } from "#tests/fakes/tcp-proxy.ts";
import { mountSmallDisk, type SmallDisk } from "./small-disk.ts";

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
