import type { AddressInfo, Server } from "node:net";
import { createReportedFault } from "#collector/queue/reported-fault.ts";
import { errorCode } from "#kit/describe-error.ts";
import { hostPortForm, splitHostPort } from "#proto/collector-config/sources.ts";
import type { Source, SourceDependencies } from "../source.ts";

/** What listens on an address. */
interface Listener<Listening extends Server> {
  transport: "grpc" | "http";
  /** `host:port`. */
  address: string;
  create(): Listening;
}

/** The listeners of one source. */
interface Listeners<Listening extends Server> {
  /** Where each listens: `host:port`. */
  readonly addresses: { readonly grpc?: string; readonly http?: string };
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
export const createListeners = <Listening extends Server>(
  name: string,
  { clock, log }: Pick<SourceDependencies, "clock" | "log">,
  signal: AbortSignal,
): Listeners<Listening> => {
  const servers: Listening[] = [];
  const addresses: { grpc?: string; http?: string } = {};
  const retrying = new Set<Promise<void>>();
  const fault = createReportedFault("source_failed", clock, `${name}: `);

  const open = async ({ transport, address, create }: Listener<Listening>) => {
    const server = create();
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

const listen = (server: Server, address: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { host, port } = splitHostPort(address) ?? {};
    if (host === undefined || port === undefined)
      throw new TypeError(`the listen address ${hostPortForm}`);
    server.once("error", reject);
    server.listen({ host, port }, () => {
      server.off("error", reject);
      const { port: bound } = server.address() as AddressInfo;
      resolve(`${host.includes(":") ? `[${host}]` : host}:${bound}`);
    });
  });
