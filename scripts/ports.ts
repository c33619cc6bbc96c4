import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { type Entropy, fraction, systemEntropy } from "#kit/entropy.ts";

// Below the range from which systems choose ports for outgoing connections: a program that was killed finds its port still free.
const first = 18_000;
const last = 31_999;

/** Returns `count` different ports of 127.0.0.1 that are free now and that outgoing connections will not use. */
export const findPorts = async (
  count: number,
  entropy: Entropy = systemEntropy,
): Promise<number[]> => {
  const found = new Set<number>();
  for (let attempt = 0; attempt < 1000 && found.size < count; attempt++) {
    const port = first + Math.floor(fraction(entropy) * (last - first + 1));
    if (await isFree(port)) found.add(port);
  }
  if (found.size < count) throw new Error("no free ports on 127.0.0.1");
  return [...found];
};

const isFree = (port: number, host = "127.0.0.1"): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", ({ code }: NodeJS.ErrnoException) =>
      resolve(code === "EADDRNOTAVAIL" || code === "EAFNOSUPPORT"),
    );
    probe.listen(port, host, () => probe.close(() => resolve(true)));
  });

/** Reports whether this port of `localhost` is free, on IPv4 and IPv6. */
export const isPortFree = async (port: number): Promise<boolean> =>
  (await isFree(port)) && (await isFree(port, "::1"));

/** Reports whether `address` (host:port) accepts connections. */
export const isListening = (address: string): Promise<boolean> =>
  new Promise((resolve) => {
    const { hostname, port } = new URL(`tcp://${address}`);
    const socket = connect({ host: hostname, port: Number(port) });
    const settle = (listening: boolean) => {
      socket.destroy();
      resolve(listening);
    };
    socket.once("connect", () => settle(true));
    socket.once("error", () => settle(false));
  });

/** Listens on 127.0.0.1 unless another address is given, on a free port unless one is given, and returns the port. */
export const listenOnLoopback = async (
  server: Server,
  port = 0,
  host = "127.0.0.1",
): Promise<number> => {
  server.listen(port, host);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
};
