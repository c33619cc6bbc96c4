import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { listenOnLoopback } from "#scripts/ports.ts";

/** A TCP proxy on loopback that fails as networks do. */
export type TcpProxy = Awaited<ReturnType<typeof startTcpProxy>>;

/** A Unix socket, a port of 127.0.0.1, or what chooses one of these for each connection. */
type ProxyTarget = string | number | (() => string | number);

/** After so long a server notices by keepalives that the client of a swallowed connection is gone. */
const noticedMs = 45_000;

/** Returns the Unix socket of a database's server. */
export const socketOf = (databaseUrl: string) => {
  const { hostname, port } = new URL(databaseUrl);
  return `${decodeURIComponent(hostname)}/.s.PGSQL.${port}`;
};

/** Starts a proxy in front of a database's server; `url` names the database behind it. */
export const startDatabaseProxy = async (databaseUrl: string) => {
  const proxy = await startTcpProxy(socketOf(databaseUrl));
  const { pathname } = new URL(databaseUrl);
  return { proxy, url: `postgres://postgres@127.0.0.1:${proxy.port}${pathname}` };
};

/** Starts a proxy in front of a target. */
export const startTcpProxy = async (to: ProxyTarget) => {
  let target = to;
  let isSwallowing = false;
  let edit: ((bytes: Buffer) => Buffer) | null = null;
  const silent = new Set<Socket>();
  const open = new Map<Socket, { upstream: Socket; isSwallowed: boolean }>();
  const server = createServer((client) => {
    const chosen = typeof target === "function" ? target() : target;
    const upstream = connect(
      typeof chosen === "string" ? { path: chosen } : { host: "127.0.0.1", port: chosen },
    );
    const pair = { upstream, isSwallowed: false };
    open.set(client, pair);
    const isLost = () => isSwallowing || pair.isSwallowed;
    client.on("data", (bytes) => {
      if (!isLost()) upstream.write(bytes);
    });
    upstream.on("data", (bytes: Buffer) => {
      if (!isLost()) client.write(edit === null ? bytes : edit(bytes));
    });
    const end = () => {
      open.delete(client);
      client.destroy();
      // The server must not learn that its client has closed the connection.
      if (isLost()) {
        silent.add(upstream.on("close", () => silent.delete(upstream)));
        setTimeout(() => upstream.destroy(), noticedMs).unref();
      } else upstream.destroy();
    };
    client.on("close", end).on("error", end);
    upstream.on("close", () => {
      if (!isLost()) end();
    });
    upstream.on("error", () => {
      if (isLost()) return;
      open.delete(client);
      client.resetAndDestroy();
    });
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    /** Connects later connections there. */
    target: (next: ProxyTarget) => {
      target = next;
    },
    /** Swallows every byte in both directions, of open connections and of later ones; neither side learns that the other closes one. */
    swallow: (swallowing: boolean) => {
      isSwallowing = swallowing;
    },
    /** Swallows what connections that are open now send and receive; later ones work. */
    swallowOpen: () => {
      for (const pair of open.values()) pair.isSwallowed = true;
    },
    /** Replaces bytes that the server sends; null leaves them. */
    rewrite: (next: ((bytes: Buffer) => Buffer) | null) => {
      edit = next;
    },
    /** Resets every open connection. */
    reset: () => {
      for (const client of open.keys()) client.resetAndDestroy();
    },
    /** Returns how many connections are open. */
    count: () => open.size,
    async close() {
      server.close();
      for (const upstream of silent) upstream.destroy();
      for (const [client, { upstream }] of open) {
        client.destroy();
        upstream.destroy();
      }
      await once(server, "close");
    },
  };
};
