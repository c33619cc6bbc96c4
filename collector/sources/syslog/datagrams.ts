import { createSocket, type Socket } from "node:dgram";
import type { SourceDependencies } from "../source.ts";
import { plainAddress } from "./connections.ts";
import { createKernelDrops, type ProcFiles } from "./kernel-drops.ts";
import type { Storing } from "./storing.ts";

/** What the kernel keeps of datagrams while the collector is busy; it grants at most `net.core.rmem_max`. */
const receiveBytes = 4 * 1024 * 1024;

/** Receives datagrams, each a message (RFC 5426). No sender waits: what comes while the queue is full, and what the kernel drops, is counted. */
export const createDatagrams = (
  name: string,
  { log }: Pick<SourceDependencies, "log">,
  storing: Storing,
  proc: ProcFiles,
) => {
  const counts = { kernel_drops: 0 };
  const storings = new Set<Promise<void>>();
  let readDrops = async () => 0;

  return {
    /** Creates the socket that is bound to `address`. */
    create: (address: string): Socket => {
      const socket = createSocket({
        type: address.startsWith("[") ? "udp6" : "udp4",
        recvBufferSize: receiveBytes,
      });
      socket.on("error", (err) => log.error({ err, source: name }, "a datagram was not received"));
      socket.once("listening", () => {
        readDrops = createKernelDrops(socket.address().port, proc);
      });
      socket.on("message", (bytes, { address }) => {
        if (!storing.hasRoom()) return storing.refuse("queue_full", 1);
        const sender = { "client.address": plainAddress(address), "network.transport": "udp" };
        const stored = storing
          .store([{ bytes, isPartial: false, isContinued: false }], sender)
          .finally(() => storings.delete(stored));
        storings.add(stored);
      });
      return socket;
    },
    /** Counts what the kernel has dropped since the call before. */
    countDrops: async () => {
      const drops = await readDrops();
      counts.kernel_drops += drops;
      storing.refuse("queue_full", drops);
    },
    /** Resolves once all that was received is stored, or counted. */
    drained: () => Promise.all(storings),
    counts: () => counts,
  };
};
