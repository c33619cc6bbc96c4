import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import type { NetConnectOpts } from "node:net";
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from "node:tls";
import { createResumeTls } from "../../../collector/identity/resume-tls.ts";
import type { HttpsSender } from "../support/https-sender.ts";

/** Where a collector sends, with its credentials. */
export interface CollectorTarget {
  port: number;
  ca: string;
  cert: string;
  key: string;
  /** Unlike a collector's: core limits the handshakes of each address. */
  localAddress: string;
}

/** Sends as a collector whose forwarder is connected: each request is a stream of one HTTP/2 connection, open from the start. */
export const connectCollector = async (target: CollectorTarget): Promise<HttpsSender> => {
  const socket = connectTls(tlsSettingsOf(target));
  await once(socket, "secureConnect");
  const session = openSession(socket);
  return { post: (path, body) => postStream(session, path, body), close: () => session.destroy() };
};

/**
 * Sends as a collector without a forwarder: each request has an HTTP/2 connection of its own, which resumes the TLS session of the one
 * before unless told otherwise.
 */
export const createCollectorSender = (target: CollectorTarget, { resumes }: { resumes: boolean }): HttpsSender => {
  const resume = createResumeTls();
  const settings = tlsSettingsOf(target);
  return {
    post: async (path, body) => {
      const socket = resumes ? resume((session) => connectTls({ ...settings, ...session })) : connectTls(settings);
      try {
        await once(socket, "secureConnect");
        return await postStream(openSession(socket), path, body);
      } finally {
        socket.destroy();
      }
    },
    close: () => undefined,
  };
};

/** Returns the settings of a connection to core. The types leave out the options of the socket. */
export const tlsSettingsOf = (target: CollectorTarget): ConnectionOptions & NetConnectOpts => ({
  host: "127.0.0.1",
  servername: "localhost",
  ALPNProtocols: ["h2"],
  ...target,
});

const openSession = (socket: TLSSocket): ClientHttp2Session => {
  const session = connectHttp2("https://localhost", { createConnection: () => socket });
  session.on("error", () => undefined);
  return session;
};

/** Posts a request on an open connection. */
export const postStream = async (
  session: ClientHttp2Session,
  path: string,
  body: string | Uint8Array,
): Promise<{ status: number; text: string }> => {
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
  });
  const closed = once(stream, "close").then(() => Promise.reject(new Error("core closed the connection")));
  closed.catch(() => undefined);
  stream.end(body);
  const [headers] = await Promise.race([once(stream, "response"), closed]);
  let text = "";
  for await (const chunk of stream.setEncoding("utf8")) text += chunk;
  return { status: Number(headers[":status"]), text };
};
