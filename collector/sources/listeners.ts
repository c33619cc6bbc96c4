import { Socket } from "node:dgram";
import { once } from "node:events";
import { lstat, unlink } from "node:fs/promises";
import { type AddressInfo, connect, type Server } from "node:net";
import { createReportedFault } from "#collector/queue/reported-fault.ts";
import { isLoopbackHost } from "#kit/confidential-url.ts";
import { errorCode } from "#kit/describe-error.ts";
import { hostPortForm, splitHostPort } from "#proto/collector-config/sources.ts";
import type { Source, SourceDependencies } from "./source.ts";

/** What listens on an address. */
interface Listener<Listening extends Server | Socket> {
  transport: string;
  /** `host:port`, or the path of a unix socket, to which every user may write. */
  address: string;
  create(): Listening | Promise<Listening>;
}

/** The listeners of one source. */
interface Listeners<Listening extends Server | Socket> {
  /** Where each transport listens: `host:port`, or a path. */
  readonly addresses: Readonly<Record<string, string>>;
  /** Listens. With `retries`, resolves although the address cannot be used, and tries again until it can. */
  open(listener: Listener<Listening>, retries: boolean): Promise<void>;
  condition: NonNullable<Source["condition"]>;
  /** Returns the servers that listen, for the caller to close. Call it once the signal has aborted. */
  take(): Promise<Listening[]>;
}

/** How long after a failure to listen it is tried again. */
const pauseMs = 5_000;

/** What another process, or a network that is not up yet, can end. */
const passingFaults = ["EADDRINUSE", "EADDRNOTAVAIL"];

/** Creates the listeners of the source `name`, none of them open. They give up when `signal` aborts. */
export const createListeners = <Listening extends Server | Socket>(
  name: string,
  { clock, log }: Pick<SourceDependencies, "clock" | "log">,
  signal: AbortSignal,
): Listeners<Listening> => {
  const servers: Listening[] = [];
  const addresses: Record<string, string> = {};
  const retrying = new Set<Promise<void>>();
  const fault = createReportedFault("source_failed", clock, `${name}: `);

  const open = async ({ transport, address, create }: Listener<Listening>) => {
    const server = await create();
    addresses[transport] = await listen(server, address);
    servers.push(server);
    log.info({ source: name, transport, address: addresses[transport] }, "listening");
  };
  const openLater = async (listener: Listener<Listening>, first: unknown) => {
    const { transport } = listener;
    log.error({ err: first, source: name, transport }, "cannot listen; retrying");
    for (let error = first; error !== undefined; ) {
      fault.failed(error);
      await clock.sleep(pauseMs, signal);
      error = await open(listener).catch((again: unknown) => again);
    }
  };

  return {
    addresses,
    open: async (listener, retries) => {
      try {
        await open(listener);
      } catch (error) {
        if (!retries || !passingFaults.includes(errorCode(error) ?? "")) throw error;
        const opened = openLater(listener, error)
          .catch(() => undefined)
          .finally(() => retrying.delete(opened));
        retrying.add(opened);
      }
    },
    condition: () => {
      if (retrying.size === 0) fault.succeeded();
      return fault.condition();
    },
    take: async () => {
      await Promise.all(retrying);
      return servers.splice(0);
    },
  };
};

const listen = async (server: Server | Socket, address: string): Promise<string> => {
  const { host, port } = splitHostPort(address) ?? {};
  const isPath = address.startsWith("/");
  if (!isPath && (host === undefined || port === undefined))
    throw new TypeError(`the listen address ${hostPortForm}`);
  if (server instanceof Socket) server.bind({ address: host, port, exclusive: true });
  else if (isPath) server.listen({ path: address, readableAll: true, writableAll: true });
  else server.listen({ host, port });
  await once(server, "listening");
  if (isPath) return address;
  const { port: bound } = server.address() as AddressInfo;
  return `${host?.includes(":") ? `[${host}]` : host}:${bound}`;
};

/** Reports whether only this machine reaches `host:port`. */
export const isOnLoopback = (address: string): boolean => {
  const host = splitHostPort(address)?.host.toLowerCase() ?? "";
  return isLoopbackHost(host.includes(":") ? `[${host}]` : host);
};

/** Removes a unix socket that nobody listens on any more, as a killed process leaves one. */
export const removeStaleSocket = async (path: string): Promise<void> => {
  const found = await lstat(path).catch(() => undefined);
  if (!found?.isSocket()) return;
  const socket = connect(path);
  const failure = await once(socket, "connect").then(
    () => undefined,
    (error: unknown) => error,
  );
  socket.destroy();
  if (errorCode(failure) === "ECONNREFUSED") await unlink(path);
};
