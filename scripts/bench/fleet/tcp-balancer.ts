/**
 * A balancer as a program of its own: copies the bytes of each connection to the next of its targets. Its environment has TARGETS, a JSON
 * list of lists of ports; it logs the port that it listens on for each list. Core sees the address of the host, as behind a balancer that
 * keeps it.
 */
import { type AddressInfo, connect, createServer } from "node:net";

const lists: number[][] = JSON.parse(process.env.TARGETS ?? "[]");

const listen = (targets: readonly number[]) =>
  new Promise<number>((resolve) => {
    let next = 0;
    const server = createServer({ noDelay: true }, (client) => {
      const port = targets[next++ % targets.length] ?? 0;
      const core = connect({
        host: "127.0.0.1",
        port,
        localAddress: client.remoteAddress ?? "127.0.0.1",
        noDelay: true,
      });
      for (const [socket, other] of [
        [client, core],
        [core, client],
      ] as const)
        socket.on("error", () => undefined).on("close", () => other.destroy());
      client.pipe(core).pipe(client);
    });
    server.listen(0, "127.0.0.1", 4096, () => resolve((server.address() as AddressInfo).port));
  });

console.log(JSON.stringify({ msg: "ready", ports: await Promise.all(lists.map(listen)) }));
process.once("SIGTERM", () => process.exit());
