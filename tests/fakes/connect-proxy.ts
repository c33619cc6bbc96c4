import { once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { connect, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { encodePem } from "#proto/pem.ts";
import {
  createTestKey,
  issueTestCertificate,
  serverExtensions,
  type TestCa,
  testNames,
} from "#scripts/lab/ca/test-pki.ts";
import { listenOnLoopback } from "#scripts/ports.ts";

/** A certificate with its key, in PEM. */
interface ServerTls {
  cert: string;
  key: string;
}

/** Issues a certificate for `localhost`: of a server, unless its extensions say otherwise. */
export const createServerTls = async (
  ca: TestCa,
  extensions = serverExtensions(),
): Promise<ServerTls> => {
  const key = await createTestKey();
  const der = await issueTestCertificate({
    ca,
    key,
    extensions: [testNames([{ type: "dns", value: "localhost" }], false), ...extensions],
    notBefore: new Date("2026-01-01"),
    notAfter: new Date("2099-01-01"),
  });
  return { cert: encodePem(der, "CERTIFICATE"), key: key.pem };
};

/** What the proxy does with the next requests instead of opening a tunnel. */
interface Misbehaviour {
  /** Writes this as its answer, and keeps the connection open. */
  answer?: string;
  /** Closes the connection after that. */
  closes?: boolean;
  /** Opens no tunnel, but ends the TLS of its client itself, with this certificate. */
  intercept?: ServerTls;
}

/** Starts an HTTP CONNECT proxy that fails as proxies do, by TLS if it has a certificate. It demands these credentials, if any: `user:password`. */
export const startConnectProxy = async ({
  tls,
  credentials,
}: {
  tls?: ServerTls;
  credentials?: string;
} = {}) => {
  const server = tls ? createHttpsServer(tls) : createHttpServer();
  const requests: { authority: string; authorization: string | undefined }[] = [];
  const sockets = new Set<Socket>();
  const clients = new Set<Socket>();
  let demanded = credentials;
  let fault: Misbehaviour = {};
  let bytesLeft = Number.POSITIVE_INFINITY;

  const tunnel = (client: Socket, authority: string) => {
    const { hostname, port } = new URL(`http://${authority}`);
    const upstream = connect(Number(port), hostname.replace(/^\[|\]$/g, ""));
    clients.add(client);
    const end = () => {
      clients.delete(client);
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on("close", end).on("error", end);
    upstream.once("connect", () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      upstream.pipe(client);
      client.on("data", (bytes: Buffer) => {
        bytesLeft -= bytes.length;
        if (bytesLeft > 0) upstream.write(bytes);
        else {
          bytesLeft = Number.POSITIVE_INFINITY;
          client.resetAndDestroy();
        }
      });
    });
  };

  server.on("connect", ({ url = "", headers }: IncomingMessage, client: Socket) => {
    const authorization = headers["proxy-authorization"];
    requests.push({ authority: url, authorization });
    // An HTTP server leaves its side open.
    client.on("error", () => undefined).on("end", () => client.end());
    const isAllowed =
      demanded === undefined ||
      authorization === `Basic ${Buffer.from(demanded).toString("base64")}`;
    const { answer, closes, intercept } = isAllowed ? fault : refused;
    if (intercept !== undefined) {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      new TLSSocket(client, { isServer: true, ...intercept }).on("error", () => undefined);
    } else if (answer === undefined && !closes) tunnel(client, url);
    else {
      client.write(answer ?? "");
      if (closes) client.end();
    }
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => undefined);
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    url: `${tls ? "https" : "http"}://localhost:${port}`,
    /** The requests for tunnels, also those that were refused. */
    requests,
    /** Sets what happens to the next requests; `{}` opens tunnels again. */
    fail: (next: Misbehaviour) => {
      fault = next;
    },
    /** Sets the credentials that it demands from now on. */
    demand: (next: string) => {
      demanded = next;
    },
    /** Resets the tunnel in which clients have sent so many more bytes. */
    cutAfter: (bytes: number) => {
      bytesLeft = bytes;
    },
    /** Closes all tunnels, as one that is idle for too long. */
    closeTunnels: () => {
      for (const client of clients) client.end();
    },
    /** Returns how many clients are connected. */
    connections: () => sockets.size,
    /** Returns how many tunnels are open. */
    count: () => clients.size,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
};

const refused: Misbehaviour = {
  answer:
    'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="proxy"\r\nContent-Length: 0\r\n\r\n',
  closes: true,
};
